"""File names are synced before a checkpoint relies on them.

Strictly read, POSIX lets a power cut take every name whose directory was not synced, however often the
file itself was. So the names that a small crawl creates are recorded, and each time the journal is synced
no relevant name may be unsynced.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fieldmouse.testing.meadow.fetcher import MeadowFetcher
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions

from .virtual_time import bottled_crawl

MEADOW = Meadow(MeadowOptions(hosts=4, pages=60, seed=11, page_kb=1.0, links=8))
HARMLESS = {"pages.trace", "control.log", "decisions.log", "lock", "digests.lmdb-lock"}
"""Files that may be lost without harm; the readings only if they are not rewritten."""


class Names:
    """Names that were created in a directory and not synced since."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.owed: set[Path] = set()
        self.checks = 0
        self.seen: set[str] = set()

    def made(self, path: Path) -> None:
        if self.root in path.parents and path.name not in HARMLESS:
            self.owed.add(path)
            self.seen.add(path.name)

    def synced(self, handle: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{handle}"))
        if path.is_dir():
            self.owed = {name for name in self.owed if name.parent != path}
        elif path.name in ("journal", "journal.new"):
            self.checks += 1
            owed = {name for name in self.owed if name.exists() and name != path}
            assert not owed, f"a checkpoint counts on names that are not on the disk: {owed}"

    def hear(self, event: str, details: tuple[object, ...]) -> None:
        if event == "open" and isinstance(details[0], str | bytes | os.PathLike):
            path = Path(os.fsdecode(details[0]))
            if isinstance(details[2], int) and details[2] & os.O_CREAT and not path.exists():
                self.made(path)
        elif event == "os.mkdir" and not Path(str(details[0])).exists():
            self.made(Path(str(details[0])))
        elif event == "os.rename":
            self.made(Path(str(details[1])))


listening: list[Names] = []
sys.addaudithook(lambda event, details: listening[0].hear(event, details) if listening else None)  # for good


@contextmanager
def recorded(names: Names, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for call in ("fsync", "fdatasync"):
        real = getattr(os, call)

        def heard(handle: int, real: object = real) -> None:
            real(handle)  # type: ignore[operator]
            names.synced(handle)

        monkeypatch.setattr(os, call, heard)
    listening.append(names)
    try:
        yield
    finally:
        listening.clear()
        monkeypatch.undo()


def test_every_file_name_is_synced_before_its_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "made" / "on the way" / "crawl"
    names = Names(tmp_path)
    with recorded(names, monkeypatch):
        for pages in (5, 10, 0):  # begun, and resumed twice
            bottled_crawl(
                path,
                lambda clock: MeadowFetcher(MEADOW, clock),
                MEADOW.seeds,
                politeness__delay="1s",
                network__allow_private=True,
                frontier__sieve_run=12,
                storage__checkpoint="3s",
                crawl__pages=pages,
            )
    assert names.checks > 10
    wanted = {"on the way", "crawl", "frontier", "archive", "index", "outcomes.log", "journal", "crawl.json"}
    assert wanted | {"fieldmouse.toml", "keys-0.log", "front-0.log", "shard-0.cdxj"} <= names.seen
