"""Trial of a refresh: a synthetic web is crawled once and then kept fresh under a budget.

All pages change, at log-normal rates unknown to the crawler. The meadow is otherwise calm, so a policy
can only err in its choice of polls. The trial runs in virtual time, with all stages real except for the
network and the worker processes, or on real processes and sockets, where a round is a minute instead of a
day.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise, takewhile
from pathlib import Path

import msgspec
import numpy as np

from fieldmouse.clock import Clock
from fieldmouse.config.sections import RefreshRunMode
from fieldmouse.config.settings_file import Settings, render
from fieldmouse.crawler.builder import build_crawl
from fieldmouse.errors import FieldmouseError
from fieldmouse.policy import change_rate
from fieldmouse.policy.polling.policies import OptimalPolicy
from fieldmouse.reader.crawl_reader import CrawlReader
from fieldmouse.reader.freshness import FreshnessReport, read_freshness
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.testing import virtual_time
from fieldmouse.testing.meadow.fetcher import MeadowFetcher
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import CALM, MeadowOptions
from fieldmouse.testing.meadow.serve import MeadowChange, meadow_process, page_changes_after
from fieldmouse.testing.meadow.server import Arrival, read_arrivals
from fieldmouse.url import Url
from fieldmouse.workers.inline_worker import InlineWorker
from fieldmouse_lab.refresh.truth import change_times, current_share, request_times

_REVISION = re.compile(rb"Revision (\d+)\.")


@dataclass(frozen=True, slots=True)
class RefreshTrial:
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
            hosts=self.hosts,
            pages=self.pages,
            gamma=0.5,
            seed=seed,
            latency=self.delay / 20,
            page_kb=1.0,
            links=15,
            compression=False,
            changing=1.0,
            rewriting=True,
            change_every=self.patience * self.round,
            change_sigma=self.sigma,
            date_lies=self.lies,
            **CALM,
        )

    def settings(self, policy: str) -> dict[str, str]:
        return {
            "scope.mode": "web",
            "politeness.delay": f"{self.delay}s",
            "network.allow_private": "true",
            "storage.min_free": "0B",
            "refresh.policy": policy,
            "refresh.budget": f"{self.pace:.0f}/h",
            "storage.checkpoint": f"{self.round / self.checkpoints:.3f}s",
        }

    def optimum(self, meadow: Meadow) -> float:
        """Theoretical long-run freshness with all rates known."""
        rates = np.array([meadow.change_rate(fact.url) for fact in meadow.true_urls()])
        known = OptimalPolicy(rates)
        polls = known.plan(known.initial_state(len(rates)), change_rate.empty_beliefs(len(rates)), self.pace / 3600)
        shares = change_rate.fresh_share(rates / np.maximum(polls, 1e-300))
        return float(np.where(polls > 0, shares, 0.0).mean())


@dataclass(frozen=True, slots=True)
class RefreshTrialResult:
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


def run_virtual_refresh(upkeep: RefreshTrial, policy: str, directory: Path, seed: int) -> RefreshTrialResult:
    """Crawl the meadow of a seed and keep it fresh, in virtual time."""
    meadow = Meadow(upkeep.options(seed))
    settings = Settings().override({**upkeep.settings(policy), "crawl.seeds": list(meadow.seeds)})
    home = CrawlDir.create(directory, shards=1, settings=render(settings).encode(), key_seed=seed)
    arrivals: list[Arrival] = []
    crawled = _live(home, settings, meadow, arrivals, virtual_time.EPOCH, None)
    timed = settings.override({"crawl.time": f"{upkeep.rounds * upkeep.round}s"})
    ended = _live(home, timed, meadow, arrivals, crawled, RefreshRunMode(hold_waiting=True, refresh_only=True))
    report = read_freshness([home], ended, window=upkeep.counted * upkeep.round)
    changes = takewhile(lambda change: change.t <= ended, page_changes_after(meadow, virtual_time.EPOCH))
    return compare_with_truth(upkeep, report, home.path, meadow, arrivals, changes, crawled)


def _live(
    home: CrawlDir,
    settings: Settings,
    meadow: Meadow,
    arrivals: list[Arrival],
    epoch: float,
    order: RefreshRunMode | None,
) -> float:
    """Run a crawl, or with an order a refresh; return its end time."""

    async def life(clock: Clock) -> float:
        fetcher = MeadowFetcher(meadow, clock)
        crawl_parts = build_crawl(home, settings, clock=clock, fetcher=fetcher, lane=InlineWorker, order=order)
        try:
            await crawl_parts.crawler.crawl([] if order else meadow.seeds)
        finally:
            await crawl_parts.close()
        arrivals.extend(fetcher.arrivals)
        return clock.now()

    return virtual_time.run_in_virtual_time(life, epoch=epoch)


def compare_with_truth(
    upkeep: RefreshTrial,
    report: FreshnessReport,
    crawl: Path,
    meadow: Meadow,
    arrivals: Iterable[Arrival],
    changes: Iterable[MeadowChange],
    began: float,
) -> RefreshTrialResult:
    """Compare a report with the truth; `began` is the start of the refresh."""
    looks, changed = request_times(arrivals), change_times(changes)
    urls = [fact.url for fact in meadow.true_urls()]
    assert report.window is not None, "it was polled for long enough"
    edges = began + upkeep.round * np.arange(upkeep.rounds + 1)
    course = [current_share(urls, looks, changed, *span) for span in pairwise(edges.tolist())]
    fresh = current_share(urls, looks, changed, *report.window)
    return RefreshTrialResult(report, fresh, _share_now(crawl, meadow, urls, report.at), tuple(course))


def _share_now(crawl: Path, meadow: Meadow, urls: list[Url], now: float) -> float:
    """Share of archived copies with the revision that the meadow shows now."""
    current = 0
    for page in CrawlReader(crawl).pages():
        shown, version = _REVISION.search(page.body), meadow.page_version(Url(page.url), now)
        current += shown is not None and version is not None and int(shown[1]) == version.number
    return current / len(urls)


def run_live_refresh(upkeep: RefreshTrial, policy: str, directory: Path, seed: int) -> RefreshTrialResult:
    """Crawl the meadow of a seed and keep it fresh, in separate processes."""
    atlas, arrivals, changes = (directory / name for name in ("atlas", "arrivals.jsonl", "changes.jsonl"))
    directory.mkdir()
    options = msgspec.structs.replace(
        upkeep.options(seed), port=0, arrivals=arrivals, changes=changes, follow_parent=True
    )
    settings = [word for name, value in upkeep.settings(policy).items() for word in ("--set", f"{name}={value}")]
    with meadow_process(options) as ready:
        _run("crawl", str(atlas), *(word for url in ready.seeds for word in ("--seed", url)), *settings)
        began = time.time()
        _run("refresh", str(atlas), "--for", f"{upkeep.rounds * upkeep.round}s")
        window = f"{upkeep.counted * upkeep.round}s"
        report = msgspec.json.decode(_run("freshness", str(atlas), "--window", window), type=FreshnessReport)
    told = [msgspec.json.decode(line, type=MeadowChange) for line in changes.read_bytes().splitlines()]
    return compare_with_truth(upkeep, report, atlas, Meadow(options, ready.port), read_arrivals(arrivals), told, began)


def _run(*words: str) -> bytes:
    command = [sys.executable, "-m", "fieldmouse", *words, "--json"]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).decode(errors="replace").strip()
        raise FieldmouseError(f"`fieldmouse {words[0]}` ended with exit code {done.returncode}: {said}")
    return done.stdout
