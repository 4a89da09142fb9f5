"""Frontier files of one checkpoint, held open while they are read.

A running crawl deletes a file soon after a checkpoint that no longer names it. So all files are opened at
once, and again if a newer checkpoint appears (`moment.py`). Files that cannot be opened then are missing.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from fieldmouse.crawldir import Checkpoint, CrawlDir
from fieldmouse.frontier.inspection import named_files
from fieldmouse.frontier.moment import sealed_frontier
from fieldmouse.reading.moment import look_until


class Snapshot(msgspec.Struct, frozen=True):
    """A checkpoint, and a directory from which its frontier can be read."""

    checkpoint: Checkpoint
    frontier: Path
    missing: list[str]


@contextmanager
def snapshot(home: CrawlDir) -> Iterator[Snapshot | None]:
    """The newest checkpoint with its files; None if there is none yet."""
    with ExitStack() as held:
        held.enter_context(_many_files())
        directory = Path(held.enter_context(TemporaryDirectory(prefix="fieldmouse-")))
        serial = count()

        def hold(last: Checkpoint) -> Snapshot:
            place = directory / str(next(serial))
            place.mkdir()
            return Snapshot(last, place, _hold(home / "frontier", place, last, held))

        yield look_until(home, hold, lambda shot: not shot.missing)


def _hold(directory: Path, place: Path, last: Checkpoint, held: ExitStack) -> list[str]:
    """Open every file and create links to the open files in `place`; returns the names of missing files."""
    missing = []
    named = named_files(sealed_frontier(last))
    promises = {path.name: 0 for path in directory.glob("hosts-*.log")}
    for name, length in (promises | named).items():
        try:
            handle = os.open(directory / name, os.O_RDONLY)
        except FileNotFoundError:
            if name in named and length:  # an empty log is created on first use
                missing.append(name)
            continue
        held.callback(os.close, handle)
        (place / name).symlink_to(f"/proc/self/fd/{handle}")
    return missing


@contextmanager
def _many_files() -> Iterator[None]:
    """Raise the limit of open files, and restore it: the process may belong to the caller."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
