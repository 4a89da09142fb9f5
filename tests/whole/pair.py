"""Agents of one crawl with different failures each: in virtual time, on coordinators in memory."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Collection, Sequence
from pathlib import Path

from fieldmouse.clock import Clock
from fieldmouse.cluster.coordinator import Coordinator, CrawlSpec
from fieldmouse.cluster.sharded.coordinator import ShardedCoordinator
from fieldmouse.config.settings_file import Settings, render
from fieldmouse.crawler.builder import BuiltCrawl, build_crawl
from fieldmouse.crawler.cluster_agent import CrawlToJoin
from fieldmouse.crawler.retry_failed import RetryFailed
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.testing import virtual_time
from fieldmouse.testing.faults import Fault, FaultKind, FaultyDns, FaultyFetcher
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.testing.meadow.server import Arrival
from fieldmouse.testing.memory_coordinator import MemoryCoordinator, MemoryServer
from fieldmouse.types.outcome import OutcomeRow
from fieldmouse.types.stats import Summary
from fieldmouse.url import Host, Url
from fieldmouse.workers.inline_worker import InlineWorker

from .virtual_time import CALM, outcomes

DELAY = 1.0
MEADOW = MeadowOptions(hosts=12, pages=60, seeds=3, seed=8, page_kb=1.0, links=12, gamma=0.4, named=True, latency=0.1)
ALWAYS = (0.0, math.inf)


class Pair:
    """Agents of one crawl with different failures each; `dead` hosts are dead for all."""

    def __init__(
        self,
        path: Path,
        clock: Clock,
        dead: Collection[Host] = (),
        servers: int = 1,
        policy: str = "priced",
        meadow: MeadowOptions = MEADOW,
        delay: float = DELAY,
    ):
        self.path, self.clock, self.dead, self.meadow = path, clock, dead, Meadow(meadow)
        asked = {
            "crawl.seeds": list(self.meadow.seeds),
            "politeness.delay": f"{delay:g}s",
            "scope.mode": "web",
            "network.allow_private": True,
            **CALM,
            "storage.checkpoint": "3s",
            "board.policy": policy,
        }
        self.settings = Settings().override(asked)
        self.servers = [MemoryServer(clock) for _ in range(servers)]
        self.webs: dict[str, FaultyFetcher] = {}
        self.nameless = ""  # a name that does not exist
        self.crews: dict[str, tuple[BuiltCrawl, asyncio.Future[Summary]]] = {}

    def board(self) -> Coordinator:
        boards = {f"server {number}": MemoryCoordinator(server) for number, server in enumerate(self.servers)}
        return ShardedCoordinator(boards) if len(boards) > 1 else boards["server 0"]

    async def start(
        self,
        name: str,
        ills: Sequence[FaultKind] = (),
        when: tuple[float, float] = ALWAYS,
        retry_failed: RetryFailed | None = None,
    ) -> None:
        board, path = self.board(), self.path / name
        await board.create_crawl(CrawlSpec(4711, render(self.settings), tuple(self.meadow.seeds)))
        if (path / "crawl.json").exists():
            home = CrawlDir.open(path)
        else:
            home = CrawlDir.create(path, shards=1, settings=render(self.settings).encode(), key_seed=4711)
        spells = [Fault(virtual_time.EPOCH + when[0], virtual_time.EPOCH + when[1], ill) for ill in ills]
        self.webs[name] = FaultyFetcher(self.meadow, self.clock, spells, dead=self.dead)
        crew = build_crawl(
            home,
            self.settings,
            clock=self.clock,
            fetcher=self.webs[name],
            lane=InlineWorker,
            dns=self.names(spells),
            joining=CrawlToJoin(board, "fieldmouse", self.clock.now),
        )
        seeds = [Url(seed) for seed in self.meadow.seeds]
        task = asyncio.ensure_future(crew.crawler.crawl(seeds, retry_failed=retry_failed))
        self.crews[name] = crew, task

    async def kill(self, name: str) -> None:
        """Stop dead: nothing is written or sent after it."""
        crew, task = self.crews.pop(name)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await crew.close()

    def names(self, spells: Sequence[Fault]) -> FaultyDns:
        nameless = self.nameless

        class Denying(FaultyDns):
            def __init__(self, meadow: Meadow, clock: Clock):
                super().__init__(meadow, clock, spells)
                self._addresses = {name: at for name, at in self._addresses.items() if name != nameless}

        return Denying(self.meadow, self.clock)

    async def ended(self) -> dict[str, Summary]:
        summaries = {}
        for name, (crew, task) in self.crews.items():
            summaries[name] = await task
            await crew.close()
        self.crews.clear()
        return summaries

    def rows(self) -> list[OutcomeRow]:
        return [row for name in self.webs for row in outcomes(self.path / name)]

    def arrivals(self) -> list[Arrival]:
        return sorted((each for web in self.webs.values() for each in web.arrivals), key=lambda each: each.t)


def check_polite(arrivals: Sequence[Arrival]) -> None:
    times: dict[str, list[float]] = {}
    for arrival in arrivals:
        times.setdefault(arrival.host, []).append(arrival.t)
    for host, visits in times.items():
        assert all(b - a >= DELAY - 1e-6 for a, b in itertools.pairwise(visits)), host


def allowed(meadow: Meadow) -> set[str]:
    return {fact.url for fact in meadow.true_urls() if fact.allowed and fact.status == 200}
