"""Trial of a refresh: a synthetic web is crawled once and then kept fresh under a budget.

All pages change, at log-normal rates unknown to the crawler. The meadow is otherwise calm, so a policy can
only err in its choice of polls. `keep` runs in virtual time, with all stages real except for the network
and the worker processes; `wire.py` does the same with real ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import numpy as np

from fieldmouse.agent.build import build
from fieldmouse.clock import Clock
from fieldmouse.crawldir import CrawlDir
from fieldmouse.indexer.inline import InlineLane
from fieldmouse.lab import bottle
from fieldmouse.lab.meadow.arrivals import Arrival
from fieldmouse.lab.meadow.changelog import MeadowChange, changes_after
from fieldmouse.lab.meadow.fetcher import MeadowFetcher
from fieldmouse.lab.meadow.meadow import Meadow
from fieldmouse.lab.meadow.options import MeadowOptions
from fieldmouse.lab.refresh.truth import changes_of, current_share, looks_of
from fieldmouse.policy import change
from fieldmouse.policy.polling import Optimal
from fieldmouse.reading import ReadingRoom
from fieldmouse.reading.freshness import FreshnessReport, read_freshness
from fieldmouse.settings import Settings, render
from fieldmouse.settings.order import Order
from fieldmouse.url import Url

_REVISION = re.compile(rb"Revision (\d+)\.")


@dataclass(frozen=True, slots=True)
class Upkeep:
    """Conditions that are the same for all policies.

    A round is the time in which the budget allows one poll of every page.
    """

    hosts: int = 20
    pages: int = 5000
    pace: float = 20_000.0  # polls per hour
    patience: float = 4.0  # rounds between two changes of the median page
    sigma: float = 2.0  # of the logarithm of the rates
    # share of hosts with false modification dates; a fifth of the hosts send none in any case
    lies: float = 0.0
    rounds: int = 8
    counted: int = 4  # number of last rounds in which freshness is measured
    delay: float = 0.25  # seconds between two visits to a host
    # per round: a page is polled at most once between two checkpoints, so too few would limit frequent polls
    checkpoints: int = 60

    @property
    def round(self) -> float:
        """Duration of a round in seconds."""
        return self.pages / self.pace * 3600

    def options(self, seed: int) -> MeadowOptions:
        return MeadowOptions(
            hosts=self.hosts, pages=self.pages, gamma=0.5, seed=seed, latency=self.delay / 20, page_kb=1.0,
            links=15, compression=False, duplicates=0.0, changing=1.0, rewriting=True,
            change_every=self.patience * self.round, change_sigma=self.sigma, robots=0.0, sitemaps=0.0,
            private=0.0, nofollow=0.0, redirects=0.0, not_found=0.0, server_error=0.0, broken=0.0, busy=0.0,
            traps=0.0, date_lies=self.lies,
        )  # fmt: skip

    def settings(self, policy: str) -> dict[str, str]:
        return {
            "scope.mode": "web", "politeness.delay": f"{self.delay}s", "network.allow_private": "true",
            "storage.min_free": "0B", "refresh.policy": policy, "refresh.budget": f"{self.pace:.0f}/h",
            "storage.checkpoint": f"{self.round / self.checkpoints:.3f}s",
        }  # fmt: skip

    def optimum(self, meadow: Meadow) -> float:
        """Theoretical long-run freshness with all rates known."""
        rates = np.array([meadow.rate(fact.url) for fact in meadow.truth()])
        known = Optimal(rates)
        polls = known.plan(known.begin(len(rates)), change.begin(len(rates)), self.pace / 3600)
        shares = change.fresh_share(rates / np.maximum(polls, 1e-300))
        return float(np.where(polls > 0, shares, 0.0).mean())


@dataclass(frozen=True, slots=True)
class Kept:
    """Freshness under one policy: the crawler's report and the truth.

    fresh: share of time in which copies were current, in the window of the report. fresh_now: share of
    copies that matched the meadow at the end. course: `fresh` of each round, from the first.
    """

    report: FreshnessReport
    fresh: float
    fresh_now: float
    course: tuple[float, ...]

    @property
    def error(self) -> float:
        """Excess of the reported freshness over the truth in the measured time."""
        return (self.report.measured or 0.0) - self.fresh

    @property
    def error_now(self) -> float:
        """Excess of the expected freshness at the end over the truth."""
        return (self.report.expected or 0.0) - self.fresh_now


def keep(upkeep: Upkeep, policy: str, directory: Path, seed: int) -> Kept:
    """Crawl the meadow of a seed and keep it fresh, in virtual time."""
    meadow = Meadow(upkeep.options(seed))
    settings = Settings().override({**upkeep.settings(policy), "crawl.seeds": list(meadow.seeds)})
    home = CrawlDir.create(directory, shards=1, settings=render(settings).encode(), key_seed=seed)
    arrivals: list[Arrival] = []
    crawled = _live(home, settings, meadow, arrivals, bottle.EPOCH, None)
    timed = settings.override({"crawl.time": f"{upkeep.rounds * upkeep.round}s"})
    ended = _live(home, timed, meadow, arrivals, crawled, Order(hold=True, only=True))
    report = read_freshness(home, ended, window=upkeep.counted * upkeep.round)
    changes = takewhile(lambda change: change.t <= ended, changes_after(meadow, bottle.EPOCH))
    return judged(upkeep, report, home.path, meadow, arrivals, changes, crawled)


def _live(
    home: CrawlDir, settings: Settings, meadow: Meadow, arrivals: list[Arrival], epoch: float,
    order: Order | None,
) -> float:  # fmt: skip
    """Run a crawl, or with an order a refresh; return its end time."""

    async def life(clock: Clock) -> float:
        fetcher = MeadowFetcher(meadow, clock)
        crew = build(home, settings, clock=clock, fetcher=fetcher, lane=InlineLane, order=order)
        try:
            await crew.agent.crawl([] if order else meadow.seeds)
        finally:
            await crew.close()
        arrivals.extend(fetcher.arrivals)
        return clock.now()

    return bottle.run(life, epoch=epoch)


def judged(
    upkeep: Upkeep, report: FreshnessReport, crawl: Path, meadow: Meadow, arrivals: Iterable[Arrival],
    changes: Iterable[MeadowChange], began: float,
) -> Kept:  # fmt: skip
    """Compare a report with the truth; `began` is the start of the refresh."""
    looks, changed = looks_of(arrivals), changes_of(changes)
    urls = [fact.url for fact in meadow.truth()]
    assert report.window is not None, "it was polled for long enough"
    edges = began + upkeep.round * np.arange(upkeep.rounds + 1)
    course = [
        current_share(urls, looks, changed, start, end)
        for start, end in zip(edges.tolist(), edges[1:].tolist(), strict=False)
    ]
    fresh = current_share(urls, looks, changed, *report.window)
    return Kept(report, fresh, _share_now(crawl, meadow, urls, report.at), tuple(course))


def _share_now(crawl: Path, meadow: Meadow, urls: list[Url], now: float) -> float:
    """Share of archived copies with the revision that the meadow shows now."""
    current = 0
    for page in ReadingRoom(crawl).pages():
        shown, version = _REVISION.search(page.body), meadow.version(Url(page.url), now)
        current += shown is not None and version is not None and int(shown[1]) == version.number
    return current / len(urls)
