"""Crawl of a synthetic web with an artificially slow indexer, in virtual time, and the course of its buffer.

All stages are the live ones, except for the network and the duration of indexing, which is drawn from a
known distribution, one page at a time. The gauge's totals are recorded once a second, so that means over
parts of a crawl can be given with confidence intervals.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np

from fieldmouse.clock import Clock
from fieldmouse.config.settings_file import Settings, render
from fieldmouse.control.buffer_trace import BufferMetrics, BufferTotals
from fieldmouse.control.concurrency_decision_log import ControlPeriod, control_periods
from fieldmouse.crawler.builder import build_crawl
from fieldmouse.policy.concurrency_thresholds import ExponentialLifetime, FixedLifetime, PageLifetime, Thresholds
from fieldmouse.queueing.model.model import CostWeights
from fieldmouse.queueing.model.phase_type import PhaseType
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.testing import virtual_time
from fieldmouse.testing.meadow.fetcher import MeadowFetcher
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.types.outcome import Failed, Moved, Page, Response, Unchanged
from fieldmouse.types.request import Request
from fieldmouse.types.stats import LiveStats, Summary
from fieldmouse.url import Host, Url
from fieldmouse.workers.inline_worker import InlineWorker


class SlowIndexerLane(InlineWorker):
    """Shard that holds one page until its service time has passed."""

    service: Callable[[], float]  # seconds for the next page, set by `slow_lane_class`
    _busy = False

    @property
    def has_room(self) -> bool:
        return super().has_room and not self._busy

    @property
    def outstanding_pages(self) -> int:
        return self._busy + super().outstanding_pages

    def send(self, number: int, outcome: Page | Unchanged | Moved | Failed) -> None:
        assert not self._busy, "one page at a time"
        self._busy = True
        asyncio.get_running_loop().call_later(self.service(), self._serve, number, outcome)

    def _serve(self, number: int, outcome: Page | Unchanged | Moved | Failed) -> None:
        if self._shard is None:
            return  # closed in the meantime; the answer is not needed
        self._answers.append(self._shard.process_outcome(number, outcome))
        self._busy = False
        self._deliver_results()


def slow_lane_class(draw: Callable[[], float]) -> type[SlowIndexerLane]:
    """Return a lane class whose service times in seconds come from `draw`."""

    class Drawn(SlowIndexerLane):
        service = staticmethod(draw)

    return Drawn


@dataclass(frozen=True, eq=False)
class SlowIndexerSetup:
    """Parameters of fetch workers, buffer and indexer. Times in seconds."""

    service: PhaseType
    lifetime: float = math.inf  # mean; exponential, as if pages changed at random
    capacity: int = 10  # pages in the buffer and in service
    latency: float = 0.2  # mean time of a fetch
    robots: int = 4
    change_at: float = math.inf  # when the web and the indexer change
    service_after: PhaseType | None = None  # from then on; None for no change
    latency_factor: float = 1.0  # by which fetches take longer from then on
    cost: CostWeights = field(
        default_factory=lambda: CostWeights(loss=1.0, obs=1.0, sojourn=1.0, robots=0.05, star=10.0)
    )
    time: float = 300.0
    hosts: int = 60
    pages: int = 16_000

    def meadow(self, seed: int) -> Meadow:
        return Meadow(
            MeadowOptions(
                hosts=self.hosts,
                pages=self.pages,
                seed=seed,
                latency=self.latency,
                latency_spread=0.3,
                page_kb=1.0,
                links=15,
                seeds=10,
                robots=0.0,
                sitemaps=0.0,
                traps=0.0,
                busy=0.0,
                duplicates=0.0,
                changing=0.0,
                compression=False,
            )
        )

    def settings(self, changes: dict[str, object]) -> Settings:
        cost = self.cost
        return Settings().override(
            {
                "crawl.time": f"{self.time}s",
                "politeness.delay": "0s",
                "politeness.obey_robots_txt": False,
                "network.allow_private": True,
                "storage.checkpoint": "1h",
                "storage.min_free": "0B",
                "fetch.concurrency": self.robots,
                "buffer.pages": self.capacity,
                "buffer.when_full": "lose",
                "control.trace": "0B",
                "index.store_text": False,
                "cost.loss": cost.loss,
                "cost.obsolete": cost.obs,
                "cost.response": cost.sojourn,
                "cost.robots": cost.robots,
                "cost.starvation": cost.star,
                **changes,
            }
        )


@dataclass(frozen=True, slots=True)
class SlowIndexerRun:
    """Course of a crawl: readings and the gauge's totals for each second, and the rules it followed."""

    summary: Summary
    readings: Sequence[LiveStats]
    totals: Sequence[BufferTotals]
    chapters: Sequence[ControlPeriod]

    def between(self, start: float, end: float = math.inf) -> BufferTotals:
        """Totals between two seconds of the crawl."""
        last = len(self.totals) - 1
        return self.totals[int(min(end, last))].since(self.totals[int(min(start, last))])

    def batches(self, start: float, seconds: float) -> list[BufferMetrics]:
        """Means over consecutive intervals of the given length."""
        edges = np.arange(start, len(self.totals), seconds)
        return [BufferMetrics.measured(self.between(a, b)) for a, b in pairwise(edges)]


class ChangingWebFetcher:
    """Fetcher whose fetches take `factor` times as long from a time on."""

    def __init__(self, fetcher: MeadowFetcher, clock: Clock, change_at: float, factor: float):
        self._fetcher, self._clock, self._change_at, self._factor = fetcher, clock, change_at, factor

    async def fetch(
        self, link: Request, host: Host, address: str, *, body_limit: int | None = None
    ) -> Response | Failed:
        response = await self._fetcher.fetch(link, host, address, body_limit=body_limit)
        if isinstance(response, Response) and response.started_at >= self._change_at:
            await self._clock.sleep((self._factor - 1.0) * (response.ended_at - response.started_at))
            response = msgspec.structs.replace(response, ended_at=self._clock.now())
        return response

    async def close(self) -> None:
        await self._fetcher.close()


#: Rule for the next second of a crawl, from the reading and the totals of the last one; None keeps the rule.
RuleController = Callable[[LiveStats, BufferTotals], Thresholds | None]


def crawl_with_slow_indexer(
    situation: SlowIndexerSetup,
    path: Path,
    seed: int,
    changes: dict[str, object],
    controller: RuleController = lambda reading, totals: None,
) -> SlowIndexerRun:
    """Crawl with these settings changed; the same seed gives the same crawl. Each second `controller` sets the rule."""
    meadow = situation.meadow(seed)
    settings = situation.settings({"crawl.seeds": list(meadow.seeds), **changes})
    # A crawl's secret decides the order in which URLs leave the sieve; here it must follow from the seed.
    home = CrawlDir.create(path, shards=1, settings=render(settings).encode(), key_seed=seed)
    times = _service_times(situation.service, np.random.default_rng([seed, 1]))
    later = _service_times(situation.service_after or situation.service, np.random.default_rng([seed, 3]))
    change_at = virtual_time.EPOCH + situation.change_at
    fading: PageLifetime = FixedLifetime()
    if situation.lifetime < math.inf:
        fading = ExponentialLifetime(situation.lifetime, np.random.default_rng([seed, 2]))
    readings: list[LiveStats] = []
    totals: list[BufferTotals] = []

    async def life(clock: Clock) -> Summary:
        def note(reading: LiveStats) -> None:
            readings.append(reading)
            totals.append(crawl_parts.stages.trace.totals())
            rule = controller(reading, totals[-1].since(totals[-2]) if len(totals) > 1 else totals[-1])
            if rule is not None:
                crawl_parts.stages.pool.set_rule(rule)

        crawl_parts = build_crawl(
            home,
            settings,
            [note],
            clock=clock,
            fetcher=ChangingWebFetcher(MeadowFetcher(meadow, clock), clock, change_at, situation.latency_factor),
            lane=slow_lane_class(lambda: next(times if clock.now() < change_at else later)),
            obsolescence=fading,
        )
        try:
            return await crawl_parts.crawler.crawl([Url(url) for url in meadow.seeds])
        finally:
            await crawl_parts.close()

    summary = virtual_time.run_in_virtual_time(life)
    return SlowIndexerRun(summary, readings[:-1], totals[:-1], control_periods(home / "control.log"))


def _service_times(law: PhaseType, rng: np.random.Generator) -> Iterator[float]:
    """Yield service times without end; they are drawn in blocks."""
    while True:
        yield from law.sample(rng, 1024).tolist()
