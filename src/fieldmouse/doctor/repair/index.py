"""Rebuild of a shard's full-text index from the pages in its WARC files.

The outcome log says which pages belong in the index, the archive has their contents, and both are read by
the code of the workers. The new index is built beside the old one and then exchanged with it.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from pathlib import Path

import msgspec

from fieldmouse.archive.record_reader import RecordReader
from fieldmouse.archive.warc_reader import TornMember, shard_of
from fieldmouse.config import settings_file
from fieldmouse.config.policies import scope_of, seeds_of
from fieldmouse.crawler.factories import worker_config
from fieldmouse.doctor.check.probe import IndexCheck, run_checks
from fieldmouse.errors import CrawlDirError
from fieldmouse.parse.content import read_page_content
from fieldmouse.parse.links import LinkExtractor
from fieldmouse.parse.readers import load_readers
from fieldmouse.plugins.runner import Watchdog
from fieldmouse.search.index import TextIndex
from fieldmouse.search.versions import VersionTable, version_log_path
from fieldmouse.storage import outcome_log
from fieldmouse.storage.checkpoint import Checkpoint, encode, sealed_outcomes
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.fsync import sync_directory
from fieldmouse.storage.journal import Journal
from fieldmouse.storage.shard_state import ShardState, shard_states
from fieldmouse.types.request import Request, RequestKind
from fieldmouse.url import key_of

_BESIDE = "rebuilt"
_EXCHANGE = 2  # RENAME_EXCHANGE
_HERE = -100  # AT_FDCWD


def rebuild_index(home: CrawlDir, last: Checkpoint, shard: int) -> str:
    """Rebuild the index of a shard as of the checkpoint, and return a sentence about the result.

    Raises `CrawlDirError`, and keeps the damaged index, if that holds more pages than the archive can
    give.
    """
    beside, target = home / "index" / _BESIDE, home / "index" / f"shard-{shard}"
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    try:
        count, unreadable = _build(home, last, shard, beside)
        if unreadable and count < (held := _still_held(target, shard_states(last)[shard])):
            raise CrawlDirError(
                f"`index/shard-{shard}` stays as it is, damaged: it still holds {held:,} pages,"
                f" and only {count:,} can be read in the WARC files; {unreadable:,} cannot",
                "bring the WARC files back and repair again; to have an index of what can be read,"
                f" move `{target}` away first",
            )
        _put_in_place(beside / f"shard-{shard}", target)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    sync_directory(home / "index")
    says = f"`index/shard-{shard}` was built again: {count:,} pages"
    return says + (f"; {unreadable:,} more cannot be read in the archive" if unreadable else "")


def delete_copy_records(home: CrawlDir, journal: Journal, last: Checkpoint) -> Checkpoint:
    """Delete the records of older copies, after all indexes were rebuilt with each page once.

    The journal is written first: a log that it does not name is cut when it is opened.
    """
    shards = [msgspec.structs.replace(state, copies=0) for state in shard_states(last)]
    home.upgrade_format()
    last = msgspec.structs.replace(last.with_part("shards", shards, {}), born=home.identity)
    journal.commit(encode(last))
    VersionTable.delete(home / "index")
    for shard in range(len(shards)):
        version_log_path(home / "index", shard).unlink(missing_ok=True)
    sync_directory(home / "index")
    return last


def _build(home: CrawlDir, last: Checkpoint, shard: int, beside: Path) -> tuple[int, int]:
    """Write the index of a shard into `beside`; returns the number of pages and of unreadable pages."""
    settings = settings_file.load(home / "fieldmouse.toml")
    config = worker_config(home, settings, scope_of(settings, seeds_of(settings)))
    full, state = config.generation, shard_states(last)[shard]
    # The number of generations must be that of the checkpoint.
    config = msgspec.structs.replace(config, generation=sys.maxsize)
    generations = _generations(state)
    index, links = TextIndex(beside, shard, config, ShardState()), LinkExtractor(config)
    readers = load_readers(config.plugins, Watchdog())
    count, unreadable = 0, 0
    library = RecordReader(home / "archive", shard_states(last))
    for row in outcome_log.newest_pages(home, length=sealed_outcomes(last)):
        if not row.indexed or shard_of(row.warc) != shard:
            continue
        link = Request(row.url, row.depth, row.via, RequestKind(row.found_as), row.seen_at)
        try:
            read = read_page_content(
                link, library.read_response(row.warc, row.offset), config, links, readers
            )
        except (TornMember, OSError, ValueError, KeyError):
            unreadable += 1
            continue
        if index.bytes >= full and index.generation < generations - 1:
            index.commit()
            index.begin_generation()
        page = read.document
        # Any batch up to the checkpoint will do: the number only marks later documents.
        canonical = page.canonical if page.canonical != row.url else ""
        document = {"url": row.url, "title": page.title, "text": page.text, "canonical": canonical}
        index.add(key=key_of(row.url, config.key_seed), batch=state.batch, **document)
        count += 1
    index.commit()
    while index.generation < generations - 1:
        index.begin_generation()
    index.finish()
    return count, unreadable


def _generations(state: ShardState) -> int:
    """Number of generations that a shard must have; an empty last one is recreated when it is opened."""
    return state.generation + bool(state.generation_bytes)


def _still_held(shard: Path, state: ShardState) -> int:
    """Number of pages that a damaged index still holds."""
    paths = [str(shard / f"{number:05}") for number in range(_generations(state))]
    asked = [IndexCheck(path, state.batch, busy=False, live=False, hurt=True) for path in paths]
    return sum(report.count for report in run_checks(asked))


def leftover_index_files(home: Path) -> list[Path]:
    """Unfinished index files of a killed repair."""
    beside = home / "index" / _BESIDE
    return sorted(path for path in beside.rglob("*") if path.is_file())


def _put_in_place(fresh: Path, target: Path) -> None:
    """Exchange two directories atomically: a reader sees the old one or the new one."""
    for directory in (*fresh.iterdir(), fresh, fresh.parent):
        if directory.is_dir():
            sync_directory(directory)
    if not target.exists():
        fresh.rename(target)
    else:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.renameat2(_HERE, os.fsencode(fresh), _HERE, os.fsencode(target), _EXCHANGE):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(target))
    sync_directory(target.parent)
