"""Crawl of a synthetic web with a slow indexer, in virtual time, and the course of its buffer.

All stages are the live ones, except for the network and the duration of indexing, which is drawn from a
known distribution (`slowlane`). The gauge's totals are recorded once a second, so that means over parts of
a crawl can be given with confidence intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from fieldmouse.agent.build import build
from fieldmouse.clock import Clock
from fieldmouse.control.controllog import Chapter, chapters
from fieldmouse.control.gauge import Fare, Totals
from fieldmouse.crawldir import CrawlDir
from fieldmouse.lab import bottle
from fieldmouse.lab.meadow.fetcher import MeadowFetcher
from fieldmouse.lab.meadow.meadow import Meadow
from fieldmouse.lab.meadow.options import MeadowOptions
from fieldmouse.lab.slowlane import slow_lane
from fieldmouse.policy.obsolescence import Exponential, Obsolescence, SameForAll
from fieldmouse.queueing.model.entries import FloatArray
from fieldmouse.queueing.model.model import Cost
from fieldmouse.queueing.model.ph import PhaseType
from fieldmouse.records import Reading, Summary
from fieldmouse.settings import Settings, render
from fieldmouse.url import Url


@dataclass(frozen=True, eq=False)
class Situation:
    """Parameters of fetch workers, buffer and indexer. Times in seconds."""

    service: PhaseType
    lifetime: float = math.inf  # mean; exponential, as if pages changed at random
    capacity: int = 10  # pages in the buffer and in service
    latency: float = 0.2  # mean time of a fetch
    robots: int = 4
    cost: Cost = field(default_factory=lambda: Cost(loss=1.0, obs=1.0, sojourn=1.0, robots=0.05, star=10.0))
    time: float = 300.0
    hosts: int = 60
    pages: int = 16_000

    def meadow(self, seed: int) -> Meadow:
        return Meadow(
            MeadowOptions(
                hosts=self.hosts, pages=self.pages, seed=seed, latency=self.latency, latency_spread=0.3,
                page_kb=1.0, links=15, seeds=10, robots=0.0, sitemaps=0.0, traps=0.0, busy=0.0,
                duplicates=0.0, changing=0.0, compression=False,
            )
        )  # fmt: skip

    def settings(self, changes: dict[str, object]) -> Settings:
        cost = self.cost
        return Settings().override(
            {
                "crawl.time": f"{self.time}s", "politeness.delay": "0s", "politeness.obey_robots_txt": False,
                "network.allow_private": True, "storage.checkpoint": "1h", "storage.min_free": "0B",
                "fetch.concurrency": self.robots, "buffer.pages": self.capacity, "buffer.when_full": "lose",
                "control.trace": "0B", "cost.loss": cost.loss, "cost.obsolete": cost.obs,
                "cost.response": cost.sojourn, "cost.robots": cost.robots, "cost.starvation": cost.star,
                **changes,
            }
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class GovernedCourse:
    """Course of a crawl: readings and the gauge's totals for each second, and the rules it followed."""

    summary: Summary
    readings: Sequence[Reading]
    totals: Sequence[Totals]
    chapters: Sequence[Chapter]

    def between(self, start: float, end: float = math.inf) -> Totals:
        """Totals between two seconds of the crawl."""
        last = len(self.totals) - 1
        return self.totals[int(min(end, last))].since(self.totals[int(min(start, last))])

    def batches(self, start: float, seconds: float) -> list[Fare]:
        """Means over consecutive intervals of the given length."""
        edges = np.arange(start, len(self.totals), seconds)
        return [Fare.measured(self.between(a, b)) for a, b in pairwise(edges)]


def crawl(situation: Situation, path: Path, seed: int, changes: dict[str, object]) -> GovernedCourse:
    """Crawl with these settings changed; the same seed gives the same crawl."""
    meadow = situation.meadow(seed)
    settings = situation.settings({"crawl.seeds": list(meadow.seeds), **changes})
    # A crawl's secret decides the order in which URLs leave the sieve; here it must follow from the seed.
    home = CrawlDir.create(path, shards=1, settings=render(settings).encode(), key_seed=seed)
    times = _Drawn(situation.service, np.random.default_rng([seed, 1]))
    fading: Obsolescence = SameForAll()
    if situation.lifetime < math.inf:
        fading = Exponential(situation.lifetime, np.random.default_rng([seed, 2]))
    readings: list[Reading] = []
    totals: list[Totals] = []

    async def life(clock: Clock) -> Summary:
        def note(reading: Reading) -> None:
            readings.append(reading)
            totals.append(crew.stages.trace.totals())

        crew = build(
            home, settings, [note], clock=clock, fetcher=MeadowFetcher(meadow, clock),
            lane=slow_lane(lambda: float(next(times))), obsolescence=fading,
        )  # fmt: skip
        try:
            return await crew.agent.crawl([Url(url) for url in meadow.seeds])
        finally:
            await crew.close()

    summary = bottle.run(life)
    return GovernedCourse(summary, readings[:-1], totals[:-1], chapters(home / "control.log"))


class _Drawn:
    """Endless service times, drawn in blocks."""

    def __init__(self, law: PhaseType, chance: np.random.Generator):
        self._law, self._chance = law, chance
        self._ahead: FloatArray = np.empty(0)
        self._at = 0

    def __next__(self) -> float:
        if self._at == len(self._ahead):
            self._ahead, self._at = self._law.sample(self._chance, 1024), 0
        self._at += 1
        return float(self._ahead[self._at - 1])
