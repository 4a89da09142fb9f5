"""Rebuild of the sieve's keys: every seen URL is settled or waiting.

The keys of both are written into new files beside those of the frontier. The files get their names before
the journal names them, and count only when it does. The next start deletes files that no checkpoint names.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import msgspec

from fieldmouse.doctor.check.frontier import waiting_keys
from fieldmouse.errors import CrawlDirError
from fieldmouse.frontier.seen.sieve import DiskSieve, SieveState
from fieldmouse.frontier.state import sealed_frontier
from fieldmouse.storage import outcome_log
from fieldmouse.storage.checkpoint import Checkpoint, encode, sealed_outcomes
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.fsync import sync_directory
from fieldmouse.storage.journal import Journal
from fieldmouse.url import key_of

_BATCH = 4096  # keys per batch
_NUMBER = re.compile(r"(?:run|keys)-(\d+)\.")


def rebuild_sieve(home: CrawlDir, journal: Journal, last: Checkpoint) -> str:
    """Write all keys anew, commit the checkpoint, and return a sentence about the result."""
    frontier, before = home / "frontier", sealed_frontier(last)
    beside = frontier / "rebuilt"
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir()
    serial = max([before.sieve.serial, *_numbers(frontier)]) + 1
    sieve: DiskSieve[int] = DiskSieve(beside, SieveState(log=f"keys-{serial}.log", serial=serial + 1))
    try:
        keys = _keys(home, last)
        while batch := list(islice(keys, _BATCH)):
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
    for path in paths:
        _sync(path)
        path.rename(frontier / path.name)
    sync_directory(frontier)
    shutil.rmtree(beside)
    home.upgrade_format()
    rebuilt = msgspec.structs.replace(before, sieve=state)
    files = {f"frontier/{path.name}": (frontier / path.name).stat().st_size for path in paths}
    last = last.with_part("frontier", rebuilt, files)
    journal.commit(encode(msgspec.structs.replace(last, born=home.identity)))
    return f"the keys of {state.seen:,} seen URLs were written again"


def _keys(home: CrawlDir, last: Checkpoint) -> Iterator[int]:
    seed = home.identity.key_seed
    for row in outcome_log.rows(home, length=sealed_outcomes(last)):
        yield key_of(row.url, seed)
    yield from waiting_keys(home / "frontier", sealed_frontier(last), seed)


def _numbers(frontier: Path) -> Iterator[int]:
    for path in frontier.iterdir():
        if match := _NUMBER.match(path.name):
            yield int(match[1])


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
