"""Making the set of seen URLs again: every URL that was seen is settled, or waits.

The keys of both are sifted into new files beside the frontier's, which get their
names before the journal names them and count only when it does. Whatever no
checkpoint names is deleted by the next start.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import msgspec

from fieldmouse.crawldir import Checkpoint, CrawlDir, Journal, outcomes, sealed_outcomes, sync_directory
from fieldmouse.crawldir.checkpoint import encode
from fieldmouse.errors import CrawlDirError
from fieldmouse.frontier.disksieve import DiskSieve, SieveState
from fieldmouse.frontier.inspection import waiting_keys
from fieldmouse.frontier.moment import sealed_frontier
from fieldmouse.url import key_of

_SOME = 4096  # keys sifted at once
_NUMBER = re.compile(r"(?:run|keys)-(\d+)\.")


def rebuild_sieve(home: CrawlDir, journal: Journal, last: Checkpoint) -> str:
    """Write all keys anew and commit that; says what came of it."""
    frontier, known = home / "frontier", sealed_frontier(last)
    beside = frontier / "rebuilt"
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir()
    serial = max([known.sieve.serial, *_numbers(frontier)]) + 1
    sieve: DiskSieve[int] = DiskSieve(beside, SieveState(log=f"keys-{serial}.log", serial=serial + 1))
    try:
        keys = _keys(home, last)
        while some := list(islice(keys, _SOME)):
            sieve.offer(some, some)
            sieve.sift()
        state, paths = sieve.seal()
    finally:
        sieve.close()
    seen = known.sieve.seen
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
    home.begin()
    mended = msgspec.structs.replace(known, sieve=state)
    files = {f"frontier/{path.name}": (frontier / path.name).stat().st_size for path in paths}
    last = last.replaced("frontier", mended, files)
    journal.commit(encode(msgspec.structs.replace(last, born=home.identity)))
    return f"the keys of {state.seen:,} seen URLs were written again, as the books have them"


def _keys(home: CrawlDir, last: Checkpoint) -> Iterator[int]:
    seed = home.identity.key_seed
    for row in outcomes.rows(home, length=sealed_outcomes(last)):
        yield key_of(row.url, seed)
    yield from waiting_keys(home / "frontier", sealed_frontier(last), seed)


def _numbers(frontier: Path) -> Iterator[int]:
    for path in frontier.iterdir():
        if found := _NUMBER.match(path.name):
            yield int(found[1])


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
