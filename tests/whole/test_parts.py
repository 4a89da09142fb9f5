"""Durable part known only to this file: it survives kills together with its crawl."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from fieldmouse.clock import Clock
from fieldmouse.config.settings_file import Settings, render
from fieldmouse.crawler.builder import OpenDurable, build_crawl
from fieldmouse.doctor.check.check_result import CheckResult
from fieldmouse.doctor.check.examine import check_crawl
from fieldmouse.errors import DamagedFile
from fieldmouse.storage.checkpoint import Checkpoint, SealedPart, read_checkpoint, sealed_counters
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.log import Log, read_records
from fieldmouse.testing import virtual_time
from fieldmouse.testing.meadow.fetcher import MeadowFetcher
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.types.stats import Summary
from fieldmouse.url import Url
from fieldmouse.workers.inline_worker import InlineWorker

from .powercut import power_cut
from .virtual_time import outcomes

MEADOW = Meadow(MeadowOptions(hosts=3, pages=18, seed=5, page_kb=1.0, links=6))
SETTINGS = Settings().override(
    {
        "crawl.seeds": list(MEADOW.seeds),
        "storage.checkpoint": "2s",
        "storage.min_free": "0B",
        "politeness.delay": "1s",
        "network.allow_private": True,
    }
)


class Entry(msgspec.Struct):
    """Number of seals, and the length at the last one."""

    seals: int = 0
    length: int = 0


class Ledger:
    """A toy part: one line for each seal."""

    name = "toy ledger"

    def __init__(self, home: CrawlDir, last: Checkpoint | None):
        known = last is not None and self.name in last.parts
        self.entry = last.decode_part(self.name, Entry) if last is not None and known else Entry()
        self.opened_at = self.entry.seals
        self._log = Log(home / "toy.log", self.entry.length)
        self.told = ["open"]

    def roll_back_to_checkpoint(self) -> None:
        self._log.roll_back_to_checkpoint()
        self.told.append("begin")

    def seal(self) -> SealedPart[Entry]:
        self.entry.seals += 1
        self._log.append(b"%d" % self.entry.seals)
        self.entry.length = self._log.flush()
        self.told.append("seal")
        return SealedPart(self.entry, (self._log.path,))

    def on_checkpoint_committed(self) -> None:
        self.told.append("committed")

    def close(self) -> None:
        self._log.close()
        self.told.append("close")


def crawl(path: Path, parts: Sequence[OpenDurable], **changes: object) -> Summary:
    settings = SETTINGS.override({name.replace("__", "."): value for name, value in changes.items()})
    resumed = (path / "crawl.json").exists()
    home = CrawlDir.open(path) if resumed else None
    home = home or CrawlDir.create(path, shards=1, settings=render(settings).encode())
    seeds = [] if read_checkpoint(home) is not None else [Url(seed) for seed in MEADOW.seeds]

    async def life(clock: Clock) -> Summary:
        fetcher = MeadowFetcher(MEADOW, clock)
        crew = build_crawl(home, settings, clock=clock, fetcher=fetcher, lane=InlineWorker, parts=parts)
        try:
            return await asyncio.ensure_future(crew.crawler.crawl(seeds))
        finally:
            await crew.close()

    return virtual_time.run_in_virtual_time(life)


def crawl_with_ledger(path: Path, **changes: object) -> Ledger:
    kept: list[Ledger] = []

    def open_ledger(home: CrawlDir, last: Checkpoint | None) -> Ledger:
        kept.append(Ledger(home, last))
        return kept[0]

    crawl(path, [open_ledger], **changes)
    return kept[0]


def entry_of(path: Path) -> Entry:
    """State in the newest checkpoint; the file must hold all it counts, in order and without a gap."""
    last = read_checkpoint(CrawlDir.open(path))
    if last is None:
        return Entry()
    entry = last.decode_part(Ledger.name, Entry)
    lines = [int(line) for _, line in read_records(path / "toy.log", length=entry.length)]
    assert lines == list(range(1, entry.seals + 1))
    return entry


def findings(path: Path) -> dict[str, CheckResult]:
    return {finding.what: finding for finding in check_crawl(CrawlDir.open(path))}


def test_a_part_is_sealed_with_the_crawl_and_restored(tmp_path: Path) -> None:
    ledger = crawl_with_ledger(tmp_path / "c", crawl__pages=6)
    *life, end = ledger.told
    assert life[:2] == ["open", "begin"]
    assert life[2:] == ["seal", "committed"] * (len(life[2:]) // 2), "each seal was committed before the next"
    assert end == "close"
    assert entry_of(tmp_path / "c").seals == ledger.entry.seals > 2
    again = crawl_with_ledger(tmp_path / "c")
    assert again.opened_at == ledger.entry.seals
    assert {row.url for row in outcomes(tmp_path / "c")} == truth(tmp_path)


def truth(tmp_path: Path) -> set[str]:
    """Pages of an undisturbed crawl without such a part."""
    path = tmp_path / "undisturbed"
    crawl(path, [])
    return {row.url for row in outcomes(path)}


def test_a_kill_between_seal_and_commit_restores_part_and_crawl_to_the_same_moment(tmp_path: Path) -> None:
    """The power is cut at the n-th sync, for every n of the first checkpoints, and at the resume."""
    wanted, moments = truth(tmp_path), set[int]()
    for syncs in itertools.count(0, 3):
        path = tmp_path / str(syncs)
        for allowed in (syncs, 2):
            with power_cut(after=allowed):
                crawl_with_ledger(path)
            before = entry_of(path).seals
            moments.add(before)
        resumed = crawl_with_ledger(path)
        assert resumed.opened_at == before, "it began where the journal stood, not where its file ended"
        assert entry_of(path).seals == resumed.entry.seals
        assert {row.url for row in outcomes(path)} == wanted
        if before >= 3:
            break
    assert moments >= {0, 1, 2, 3}, "kills before the first checkpoint and between later ones"


def test_doctor_detects_cut_and_lost_files_of_an_unknown_part(tmp_path: Path) -> None:
    path = tmp_path / "c"
    crawl_with_ledger(path, crawl__pages=4)
    assert findings(path)[Ledger.name].healthy
    file = path / "toy.log"
    whole = file.read_bytes()
    for hurt in (whole[:-1], b"", None):
        if hurt is None:
            file.unlink()
        else:
            file.write_bytes(hurt)
        found = findings(path)
        assert not found[Ledger.name].healthy
        assert found[Ledger.name].subject == "toy.log"
        assert all(finding.healthy for what, finding in found.items() if what != Ledger.name)
        with pytest.raises(DamagedFile, match=r"toy\.log"):
            crawl_with_ledger(path)
    file.write_bytes(whole + b"written after the last checkpoint")
    assert findings(path)[Ledger.name].healthy, "longer than noted is no damage"
    assert crawl_with_ledger(path).opened_at


def test_a_run_without_the_part_leaves_it_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "c"
    there = crawl_with_ledger(path, crawl__pages=4)
    written = (path / "toy.log").read_bytes()
    crawl(path, [], crawl__pages=8)
    assert (path / "toy.log").read_bytes() == written
    last = read_checkpoint(CrawlDir.open(path))
    assert sealed_counters(last).pages == 8
    assert entry_of(path).seals == there.entry.seals
    assert crawl_with_ledger(path).opened_at == there.entry.seals


def test_two_parts_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="one name"):
        crawl(tmp_path / "c", [Ledger, Ledger])
