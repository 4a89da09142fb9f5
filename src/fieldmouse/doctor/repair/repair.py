"""Repair of files that can be rebuilt from the rest of a crawl: CDXJ lines, digests, the text index and the keys of
seen URLs.

The journal is rebuilt from its newest whole checkpoint, `crawl.json` from the journal, CDXJ lines from
the WARC files, the digests from the CDXJ lines, the full-text index from the pages, and the keys of seen
URLs from the settled and waiting URLs. Each file is written beside the old one and replaces it
atomically, so a kill leaves the old or the new one. WARC files and the other logs of the frontier exist
only once and cannot be rebuilt. Needs the lock.

The keys of both are written into new files beside those of the frontier. The files get their names before
the journal names them, and count only when it does. The next start deletes files that no checkpoint names.

The outcome log says which pages belong in the index, the archive has their contents, and both are read by
the code of the workers. The new index is built beside the old one and then exchanged with it.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import sys
from base64 import b32decode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, islice
from pathlib import Path

import lmdb
import msgspec

from fieldmouse.archive import warc_writer
from fieldmouse.archive.duplicate_detection import payload_digest
from fieldmouse.archive.warc_reader import UnreadableMember, intact_responses, read_cdxj_lines
from fieldmouse.archive.warc_writer import cdxj_log_path, shard_of
from fieldmouse.config import settings_file
from fieldmouse.config.rules_from_settings import scope_of, seeds_of
from fieldmouse.crawler.builder import worker_config
from fieldmouse.doctor.check.archive_and_index import check_digests, check_sorted_cdxj
from fieldmouse.doctor.check.check_result import CrawlProcess, open_for_check
from fieldmouse.doctor.check.examine import check_crawl
from fieldmouse.doctor.check.frontier_and_outcomes import waiting_keys
from fieldmouse.doctor.check.subprocess_checks import IndexCheckRequest, run_checks
from fieldmouse.errors import CrawlDirError, DamagedFile, FieldmouseError
from fieldmouse.frontier.durable_parts import frontier_state_of
from fieldmouse.frontier.seen.sieve import DiskSieve, SieveState
from fieldmouse.parse.content import load_readers, read_page_content
from fieldmouse.parse.links import LinkExtractor
from fieldmouse.plugins.runner import CallObserver
from fieldmouse.reader.snapshot import CrawlSnapshot
from fieldmouse.search.index import IndexWriter
from fieldmouse.search.newest_versions import VERSION_TABLE, VersionTable, version_log_path
from fieldmouse.search.snapshot import remove_index_directory
from fieldmouse.storage import checkpoint
from fieldmouse.storage.checkpoint import Checkpoint, ShardState, shard_states
from fieldmouse.storage.checkpoint_log import CheckpointJournal
from fieldmouse.storage.directory import CrawlDir, write_identity
from fieldmouse.storage.log import FileSyncer, atomic_write, sync_directory
from fieldmouse.types.request import Request, RequestKind
from fieldmouse.url import key_of

_is_robots_txt = re.compile(r"https?://[^/]+/robots\.txt\Z").match
_EMPTY = payload_digest(b"")
_BATCH = 10_000  # digests per transaction


def rebuild_cdxj_log(directory: Path, shard: int, state: ShardState) -> int:
    """Rewrite the CDXJ log of a shard, byte for byte as at the checkpoint; return the number of lines."""
    path = cdxj_log_path(directory, shard)
    count = length = 0
    with atomic_write(path, ".fresh") as file:
        for _, line, _ in intact_responses(directory, shard, state):
            count, length = count + 1, length + file.write(line)
        if length != state.cdxj_length:
            raise CrawlDirError(
                f"`{path}` cannot be rebuilt: it had {state.cdxj_length} bytes, the WARC files yield {length}",
                "restore it from a copy of the directory",
            )
    return count


def rebuild_digest_store(directory: Path, states: Sequence[ShardState]) -> int:
    """Rebuild the digest store from the CDXJ logs; return the number of digests."""
    path = directory / "digests.lmdb"
    fresh = path.with_name(path.name + ".fresh")
    fresh.unlink(missing_ok=True)
    with lmdb.open(str(fresh), subdir=False, map_size=64 << 30) as store:
        entries: list[tuple[bytes, bytes]] = []
        for shard, state in enumerate(states):
            at = 0
            for line in read_cdxj_lines(cdxj_log_path(directory, shard), state.cdxj_length):
                place, at = shard << 48 | at, at + len(line)
                _, entry = warc_writer.parse_cdxj_line(line)
                digest = b32decode(entry.digest)
                # The store holds pages with a non-empty body only.
                page = entry.status.startswith("2") and not _is_robots_txt(entry.url)
                if page and entry.mime != warc_writer.REVISIT and digest != _EMPTY:
                    entries.append((digest, place.to_bytes(8, "little")))
                if len(entries) >= _BATCH:
                    _store_digests(store, entries)
        _store_digests(store, entries)
        count: int = store.stat()["entries"]
        store.sync(True)
    os.replace(fresh, path)
    fresh.with_name(fresh.name + "-lock").unlink(missing_ok=True)
    sync_directory(directory)
    return count


def _store_digests(store: lmdb.Environment, entries: list[tuple[bytes, bytes]]) -> None:
    with store.begin(write=True) as writing:
        for digest, place in sorted(entries):
            writing.put(digest, place, overwrite=False)
    entries.clear()


_KEYS_AT_ONCE = 4096  # keys per batch
_NUMBER = re.compile(r"(?:run|keys)-(\d+)\.")


def rebuild_sieve(home: CrawlDir, journal: CheckpointJournal, last: Checkpoint) -> str:
    """Write all keys anew, commit the checkpoint, and return a sentence about the result."""
    frontier, before = home / "frontier", frontier_state_of(last)
    beside = frontier / "rebuilt"
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir()
    numbers = [int(match[1]) for path in frontier.iterdir() if (match := _NUMBER.match(path.name))]
    serial = max([before.sieve.serial, *numbers]) + 1
    sieve: DiskSieve[int] = DiskSieve(beside, SieveState(log=f"keys-{serial}.log", serial=serial + 1))
    seed = home.identity.key_seed
    settled = (key_of(row.url, seed) for row in CrawlSnapshot(home, last).rows())
    try:
        keys = chain(settled, waiting_keys(frontier, before, seed))
        while batch := list(islice(keys, _KEYS_AT_ONCE)):
            sieve.offer(batch, batch)
            sieve.sift()
        state, paths = sieve.seal()
    finally:
        sieve.close()
    seen = before.sieve.seen
    if state.seen != seen:
        shutil.rmtree(beside)
        raise CrawlDirError(
            f"the seen URLs cannot be made again: {seen:,} were seen, {state.seen:,} are settled or waiting",
            "restore `frontier/` from a copy of the directory",
        )
    FileSyncer().sync(paths)
    for path in paths:
        path.rename(frontier / path.name)
    sync_directory(frontier)
    shutil.rmtree(beside)
    home.upgrade_format()
    rebuilt = msgspec.structs.replace(before, sieve=state)
    files = {f"frontier/{path.name}": (frontier / path.name).stat().st_size for path in paths}
    last = last.with_part("frontier", rebuilt, files)
    journal.commit(checkpoint.encode_checkpoint(msgspec.structs.replace(last, born=home.identity)))
    return f"the keys of {state.seen:,} seen URLs were written again"


_BESIDE = "rebuilt"
_EXCHANGE = 2  # RENAME_EXCHANGE
_HERE = -100  # AT_FDCWD


def rebuild_index(home: CrawlDir, last: Checkpoint, shard: int) -> str:
    """Rebuild the index of a shard as of the checkpoint, and return a sentence about the result.

    Raises `CrawlDirError`, and keeps the damaged index, if that holds more pages than the archive can
    give.
    """
    beside, target = home / "index" / _BESIDE, home / "index" / f"shard-{shard}"
    with suppress(FileNotFoundError):
        remove_index_directory(beside)
    beside.mkdir(parents=True)
    try:
        count, unreadable = _build_index(home, last, shard, beside)
        if unreadable and count < (held := _count_pages_in_damaged_index(target, shard_states(last)[shard])):
            raise CrawlDirError(
                f"`index/shard-{shard}` stays as it is, damaged: it still holds {held:,} pages,"
                f" and only {count:,} can be read in the WARC files; {unreadable:,} cannot",
                "bring the WARC files back and repair again; to have an index of what can be read,"
                f" move `{target}` away first",
            )
        _exchange_directories(beside / f"shard-{shard}", target)
    finally:
        with suppress(OSError):
            remove_index_directory(beside)
    sync_directory(home / "index")
    says = f"`index/shard-{shard}` was built again: {count:,} pages"
    return says + (f"; {unreadable:,} more cannot be read in the archive" if unreadable else "")


def delete_version_logs(home: CrawlDir, journal: CheckpointJournal, last: Checkpoint) -> Checkpoint:
    """Delete the records of older copies, after all indexes were rebuilt with each page once.

    The journal is written first: a log that it does not name is cut when it is opened.
    """
    shards = [msgspec.structs.replace(state, copies=0) for state in shard_states(last)]
    home.upgrade_format()
    last = msgspec.structs.replace(last.with_part("shards", shards, {}), born=home.identity)
    journal.commit(checkpoint.encode_checkpoint(last))
    VersionTable.delete_files(home / "index")
    for shard in range(len(shards)):
        version_log_path(home / "index", shard).unlink(missing_ok=True)
    sync_directory(home / "index")
    return last


def _build_index(home: CrawlDir, last: Checkpoint, shard: int, beside: Path) -> tuple[int, int]:
    """Write the index of a shard into `beside`; returns the number of pages and of unreadable pages."""
    settings = settings_file.load(home / "fieldmouse.toml")
    config = worker_config(home, settings, scope_of(settings, seeds_of(settings)))
    full, state = config.generation, shard_states(last)[shard]
    # The number of generations must be that of the checkpoint.
    config = msgspec.structs.replace(config, generation=sys.maxsize)
    index, links = IndexWriter(beside, shard, config, ShardState()), LinkExtractor(config)
    readers = load_readers(config.plugins, CallObserver())
    count, unreadable = 0, 0
    snapshot = CrawlSnapshot(home, last)
    for row in snapshot.newest_page_rows():
        if not row.indexed or shard_of(row.warc) != shard:
            continue
        link = Request(row.url, row.depth, row.via, RequestKind(row.found_as), row.seen_at)
        try:
            answer = snapshot.record_reader.read_response(row.warc, row.offset)
            page = read_page_content(link, answer, config, links, readers).document
        except (UnreadableMember, OSError, ValueError, KeyError):
            unreadable += 1
            continue
        if index.bytes >= full and index.generation < state.generation_count - 1:
            index.commit()
            index.begin_generation()
        # Any batch up to the checkpoint will do: the number only marks later documents.
        canonical = page.canonical if page.canonical != row.url else ""
        document = {"url": row.url, "title": page.title, "text": page.text, "canonical": canonical}
        index.add_document(key=key_of(row.url, config.key_seed), batch=state.batch, **document)
        count += 1
    index.commit()
    while index.generation < state.generation_count - 1:
        index.begin_generation()
    index.finish()
    return count, unreadable


def _count_pages_in_damaged_index(shard: Path, state: ShardState) -> int:
    """Number of pages that a damaged index still holds."""
    paths = [str(shard / f"{number:05}") for number in range(state.generation_count)]
    asked = [IndexCheckRequest(path, state.batch, busy=False, live=False, hurt=True) for path in paths]
    return sum(report.count for report in run_checks(asked))


def _exchange_directories(fresh: Path, target: Path) -> None:
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


@contextmanager
def crawl_lock(home: CrawlDir) -> Iterator[None]:
    """Hold the lock; releasing it keeps the mark that the last crawl was killed."""
    home.lock()
    try:
        yield
    finally:
        home.unlock(as_found=True)


def repair_identity(directory: Path) -> list[str]:
    """Write `crawl.json` from the journal if it is missing, damaged or different, and say so."""
    identity = checkpoint.identity_in_journal(directory)
    if identity is None:
        return []
    with suppress(FieldmouseError):
        if not checkpoint.identity_changed(CrawlDir.open(directory).identity, identity):
            return []
    with crawl_lock(CrawlDir(directory, identity)):
        write_identity(directory, identity)
    return ["`crawl.json` was written again from the journal"]


def repair_directory(directory: Path) -> Iterator[str]:
    """Like `repair`, for a directory whose `crawl.json` may also be lost or damaged."""
    if (directory / "journal").is_file():
        yield from repair_identity(directory)
    yield from repair(open_for_check(directory))


def repair(home: CrawlDir) -> Iterator[str]:
    """Repair all damage that can be repaired, and yield a sentence for each step.

    Other damage stays: run the checks again to see it.
    """
    before = CrawlProcess.of(home)
    with crawl_lock(home):
        try:
            journal, last = checkpoint.open_journal(home)
        except DamagedFile:
            return  # without a checkpoint there is nothing to compare with
        try:
            if not journal.report.clean:
                journal.compact()
                yield "`journal` holds its newest whole checkpoint and nothing else"
            refused: list[CrawlDirError] = []
            if last is not None:
                yield from _repair_files(home, journal, last, before, refused)
        finally:
            journal.close()
        for path in _leftover_files(home.path):
            path.unlink()
            yield f"`{path.relative_to(home.path)}` was left behind by a kill and is gone"
        if refused:
            raise refused[0]


def _repair_files(
    home: CrawlDir, journal: CheckpointJournal, last: Checkpoint, process: CrawlProcess, refused: list[CrawlDirError]
) -> Iterator[str]:
    """Repair in order of dependency: CDXJ lines, digests, index. The sieve depends on none of them."""
    archive = home / "archive"
    hurt = {finding.subject for finding in check_crawl(home, process=process) if finding.curable}
    for shard, state in enumerate(shard_states(last)):
        if f"archive/shard-{shard}.cdxj" in hurt:
            lines = rebuild_cdxj_log(archive, shard, state)
            yield f"`archive/shard-{shard}.cdxj` was written again: {lines:,} lines"
    agree = all(finding.healthy for finding in check_crawl(home, process=process) if finding.what == "cdxj")
    if agree and not check_digests(home, last, process).healthy:
        count = rebuild_digest_store(archive, shard_states(last))
        yield f"`archive/digests.lmdb` was made again: {count:,} payloads"
    if not check_sorted_cdxj(home, last, process).healthy:
        yield _rebuild_sorted_cdxj(archive, last)
    if f"index/{VERSION_TABLE}" in hurt:
        VersionTable.delete_files(home / "index")
        yield (f"`index/{VERSION_TABLE}` is gone; it is rebuilt from the logs of copies when the crawl continues")
        hurt |= {finding.subject for finding in check_crawl(home, process=process) if finding.curable}
    without = any(subject.endswith(".copies") for subject in hurt)
    for shard in range(len(shard_states(last))):
        if without or f"index/shard-{shard}" in hurt:
            try:
                yield rebuild_index(home, last, shard)
            except CrawlDirError as trouble:  # continue with the other repairs
                refused.append(trouble)
    if without and not refused:
        last = delete_version_logs(home, journal, last)
        yield "the logs of copies begin anew: each page is in the index once"
    if any(subject.startswith("frontier") for subject in hurt):
        yield rebuild_sieve(home, journal, last)


def _rebuild_sorted_cdxj(archive: Path, last: Checkpoint) -> str:
    merged = archive / "index.cdxj"
    shards = shard_states(last)
    logs = [cdxj_log_path(archive, shard) for shard in range(len(shards))]
    if any(log.stat().st_size != state.cdxj_length for log, state in zip(logs, shards, strict=True)):
        merged.unlink(missing_ok=True)
        return "`archive/index.cdxj` is gone; it is written anew when the crawl ends"
    return f"`archive/index.cdxj` was sorted again: {warc_writer.merge_cdxj_logs(logs, merged):,} lines"


def _leftover_files(home: Path) -> list[Path]:
    patterns = ("*.new", "*.fresh", "archive/*.fresh", "archive/*.fresh-lock", "archive/index.cdxj.run-*")
    unfinished = sorted(path for path in (home / "index" / _BESIDE).rglob("*") if path.is_file())
    return [path for pattern in patterns for path in home.glob(pattern)] + unfinished
