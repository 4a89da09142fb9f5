"""Building the full-text index of a shard again, from the pages in its WARC files.

Which pages belong into it, the outcome log says; what they hold, the archive; and
both are read by the code that read them the first time. The new index stands
beside the old until it is whole, and then changes places with it.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from pathlib import Path

from fieldmouse import settings as settings_file
from fieldmouse.agent import outcomes
from fieldmouse.agent.build import indexer_config, scope_of
from fieldmouse.agent.checkpoint import Checkpoint
from fieldmouse.crawldir import CrawlDir, sync_directory
from fieldmouse.indexer.contents import read_contents
from fieldmouse.indexer.index import TextIndex
from fieldmouse.indexer.links import Links
from fieldmouse.indexer.restoration import Library
from fieldmouse.indexer.warcs import Torn, shard_of
from fieldmouse.indexer.wire import ShardState
from fieldmouse.records import Kind, Link
from fieldmouse.url import key_of, parse

_BESIDE = "rebuilt"
_EXCHANGE = 2  # RENAME_EXCHANGE
_HERE = -100  # AT_FDCWD


def rebuild_index(home: CrawlDir, last: Checkpoint, shard: int) -> str:
    """Make the index of a shard again, as of the checkpoint; says what came of it."""
    settings = settings_file.load(home / "fieldmouse.toml")
    seeds = [url for url in map(parse, settings.crawl.seeds) if url is not None]
    config = indexer_config(home, settings, scope_of(settings, seeds))
    state, links = last.shards[shard], Links(config)
    beside = home / "index" / _BESIDE
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    index = TextIndex(beside, shard, config, ShardState())
    count, lost = 0, 0
    with Library(home / "archive", last.shards, shard) as library:
        for row in outcomes.pages(home, length=last.outcomes):
            if not row.indexed or shard_of(row.warc) != shard:
                continue
            link = Link(row.url, row.depth, row.via, Kind(row.found_as), row.seen_at)
            try:
                read = read_contents(link, library.answer(row.warc, row.offset), config, links)
            except (Torn, OSError, ValueError, KeyError):
                lost += 1
                continue
            page = read.page
            # Any batch that counts will do: it only tells what came after the checkpoint.
            index.add(
                url=row.url, key=key_of(row.url, config.key_seed), title=page.title, text=page.text,
                batch=state.batch, canonical=page.canonical if page.canonical != row.url else "", again=False,
            )  # fmt: skip
            count += 1
            if index.bytes >= config.generation and index.generation < state.generation:
                index.commit()
    index.commit()
    index.settle()
    _put_in_place(beside / f"shard-{shard}", home / "index" / f"shard-{shard}")
    shutil.rmtree(beside)
    sync_directory(home / "index")
    told = f"`index/shard-{shard}` was built again: {count:,} pages"
    return told + (f"; {lost:,} more cannot be read in the archive" if lost else "")


def remains(home: Path) -> list[Path]:
    """Files of an index that a killed repair left unfinished."""
    beside = home / "index" / _BESIDE
    return sorted(path for path in beside.rglob("*") if path.is_file())


def _put_in_place(fresh: Path, target: Path) -> None:
    """Let two directories change places at once: whoever looks sees the old one or the new one."""
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
