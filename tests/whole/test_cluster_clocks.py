"""Agents with different clocks: they exchange waits, not times."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import msgspec

from fieldmouse.clock import Clock
from fieldmouse.config.settings_file import render
from fieldmouse.crawler.builder import build_crawl
from fieldmouse.crawler.cluster_agent import CrawlToJoin
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.testing import virtual_time
from fieldmouse.testing.meadow.fetcher import MeadowFetcher
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.testing.meadow.server import Arrival
from fieldmouse.types.stats import Summary
from fieldmouse.url import Url
from fieldmouse.workers.inline_worker import InlineWorker

from .test_cluster_virtual_time import Band, charter, is_well, pages_alone, pages_of

HOURS = {"a": 0.0, "b": 7.0, "c": -9.0}
SLOW = 3.0  # seconds that some robots.txt files ask for


@dataclass(frozen=True)
class WrongClock:
    """The true clock, shifted by some seconds."""

    true: Clock
    off: float

    def now(self) -> float:
        return self.true.now() + self.off

    async def sleep(self, seconds: float) -> None:
        await self.true.sleep(seconds)


class SetRight(list[Arrival]):
    """Arrivals as a true clock would have recorded them."""

    def __init__(self, off: float) -> None:
        super().__init__()
        self.off = off

    def append(self, arrival: Arrival) -> None:
        super().append(msgspec.structs.replace(arrival, t=arrival.t - self.off))


class UnsureBand(Band):
    """Each agent's clock is off."""

    def __init__(self, path: Path, meadow: Meadow, clock: Clock, **changes: object) -> None:
        super().__init__(path, meadow, clock, **changes)  # type: ignore[arg-type]
        self.hours = dict(HOURS)

    def start(self, name: str, *, seeded: bool = False) -> asyncio.Future[Summary]:
        path, clock = self.path / name, WrongClock(self.clock, 3600.0 * self.hours[name])
        if (path / "crawl.json").exists():
            home = CrawlDir.open(path)
        else:
            home = CrawlDir.create(path, shards=1, settings=render(self.settings).encode(), key_seed=4711)
        web = MeadowFetcher(self.meadow, clock)
        web.arrivals = SetRight(clock.off)
        crew = build_crawl(
            home,
            self.settings,
            clock=clock,
            fetcher=web,
            lane=InlineWorker,
            joining=CrawlToJoin(self.board(), "fieldmouse", self.clock.now),
        )
        seeds = [Url(seed) for seed in self.meadow.seeds] if seeded else []
        task = asyncio.ensure_future(crew.crawler.crawl(seeds))
        self.living[name] = (crew, task, web)
        return task


def test_agents_with_clocks_hours_apart_are_polite_and_lose_nothing(tmp_path: Path) -> None:
    """One of them is killed, and its clock set while it is away."""
    meadow = Meadow(
        MeadowOptions(
            hosts=10, pages=100, seed=14, page_kb=1.0, links=10, robots=1.0, crawl_delay_share=0.4, crawl_delay=SLOW
        )
    )
    alone = pages_alone(tmp_path / "alone", meadow)

    async def life(clock: Clock) -> Band:
        band = UnsureBand(tmp_path, meadow, clock, board__policy="two-choices")
        await band.board().create_crawl(charter(band.settings, meadow.seeds))
        for number, name in enumerate("abc"):
            band.start(name, seeded=number == 0)
        await clock.sleep(6.0)
        await band.kill("b")
        band.hours["b"] = -30.0
        await clock.sleep(2.0)
        band.start("b")
        async with asyncio.timeout(3600.0):
            for summary in (await band.ended()).values():
                assert summary.exit == 0
        return band

    band = virtual_time.run_in_virtual_time(life)
    assert {url for name in "abc" for url in pages_of(tmp_path / name)} == alone
    is_well(band, tmp_path)
    slow = {site.authority for site in meadow.plan.sites if site.habits.crawl_delay}
    visits: dict[str, list[float]] = defaultdict(list)
    for arrival in band.arrivals:
        visits[arrival.host].append(arrival.t)
    assert slow & set(visits)
    for host in slow:
        moments = sorted(visits[host])
        assert all(after - before >= SLOW - 1e-6 for before, after in itertools.pairwise(moments)), host
