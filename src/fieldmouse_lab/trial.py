"""Trial of one policy on one synthetic web: a whole crawl in virtual time, compared with the ideal.

Every stage is the real one except for the network and the worker processes, and the clock is virtual: a
quarter of an hour takes seconds and is reproducible. The meadow is calm (no failures, no exclusions), so a
crawl misses pages only for lack of hosts to visit.

The ideal is the sum over hosts of min(size, time / delay): every host is visited from the start, whenever
its delay allows. In a time of n delays a host can be requested n + 1 times, and the first request is for
its robots.txt. The ideal can therefore be reached, but not exceeded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from numpy.random import default_rng

from fieldmouse.clock import Clock
from fieldmouse.config.settings_file import Settings, render
from fieldmouse.crawler.builder import build_crawl
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.testing import virtual_time
from fieldmouse.testing.meadow.fetcher import MeadowFetcher
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import CALM, MeadowOptions
from fieldmouse.testing.meadow.paths import path_of
from fieldmouse.testing.meadow.plan import host_sizes
from fieldmouse.types.stats import LiveStats, Summary
from fieldmouse.url import Url
from fieldmouse.workers.inline_worker import InlineWorker


@dataclass(frozen=True, slots=True)
class PolicyTrial:
    """Conditions that are the same for all policies. Times are seconds."""

    hosts: int = 500
    pages: int = 20_000
    gamma: float = 1.5  # host i's share of the pages is proportional to i**-gamma
    front: int | None = 48  # hosts online at most; None: the default front, which follows the demand
    delay: float = 10.0
    time: float = 1000.0
    latency: float = 0.2
    listed: bool = True  # every URL is known from the start, in random order; otherwise only three seeds
    seed: int = 1

    def meadow(self) -> Meadow:
        return Meadow(
            MeadowOptions(
                hosts=self.hosts,
                pages=self.pages,
                gamma=self.gamma,
                seed=self.seed,
                latency=self.latency,
                page_kb=1.0,
                links=5 if self.listed else 30,
                compression=False,
                changing=0.0,
                **CALM,
            )
        )

    def ideal(self, time: float | None = None) -> float:
        """Number of pages that could be fetched in the trial's time, or in its first `time` seconds."""
        most = (self.time if time is None else time) / self.delay
        return sum(min(size, most) for size in host_sizes(self.pages, self.hosts, self.gamma))

    def starts(self, meadow: Meadow) -> list[Url]:
        if not self.listed:
            return meadow.seeds
        urls = [Url(f"{site.origin}{path_of(site, page)}") for site in meadow.plan.sites for page in range(site.size)]
        return [urls[place] for place in default_rng(self.seed).permutation(len(urls)).tolist()]

    def with_seed(self, seed: int) -> PolicyTrial:
        return replace(self, seed=seed)


@dataclass(frozen=True, slots=True)
class TrialResult:
    """Result of a trial. `visits` are request times since the start, robots.txt included."""

    summary: Summary
    readings: Sequence[LiveStats]
    visits: Sequence[float]


def run_trial(trial: PolicyTrial, policy: str, directory: Path) -> TrialResult:
    """Crawl the trial's meadow under `policy` in a new crawl directory."""
    meadow = trial.meadow()
    starts = trial.starts(meadow)
    front = {} if trial.front is None else {"frontier.front_min": trial.front, "frontier.front_max": trial.front}
    settings = Settings().override(
        {
            "crawl.time": f"{trial.time}s",
            "scope.mode": "web",
            "politeness.delay": f"{trial.delay}s",
            "network.allow_private": True,
            "fetch.concurrency": max(128, 2 * (trial.front or 0)),  # always enough: the front is under test
            "frontier.policy": policy,
            **front,
            "storage.checkpoint": "1h",
            "storage.min_free": "0B",
        }
    )
    # The secret of its hashes decides the order of some URLs; it must follow from the seed.
    told = render(settings).encode()
    home = CrawlDir.create(directory, shards=1, settings=told, key_seed=trial.seed)
    readings: list[LiveStats] = []

    async def life(clock: Clock) -> TrialResult:
        fetcher = MeadowFetcher(meadow, clock)
        crawl_parts = build_crawl(home, settings, [readings.append], clock=clock, fetcher=fetcher, lane=InlineWorker)
        began = clock.now()
        try:
            summary = await crawl_parts.crawler.crawl(starts)
        finally:
            await crawl_parts.close()
        return TrialResult(summary, readings, [arrival.t - began for arrival in fetcher.arrivals])

    return virtual_time.run_in_virtual_time(life)
