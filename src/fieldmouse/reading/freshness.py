"""Freshness report: how current the copies are, what polls find, and what other budgets would achieve.

Two numbers agree if the model is right. `expected` is the probability, averaged over pages, that a copy
still equals the page on the server. `measured` looks back over a window, gap by gap (`gaps.py`). The curve
takes the plan of the polling policy for another budget, and its long-run freshness from the model.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from fieldmouse.crawldir import CrawlDir, sealed_outcomes
from fieldmouse.policy import change
from fieldmouse.reading.gaps import Gaps, read_gaps, tenure
from fieldmouse.reading.planning import Planner
from fieldmouse.reading.shelf import LedgerShelf, shelves
from fieldmouse.refresh.ledger import Ledger
from fieldmouse.refresh.reading import sealed_policy
from fieldmouse.url import Url, host_of

WINDOW = 7 * 86_400.0
_FEWEST = 5  # polls needed for a report
_BETWEEN = 0.4  # share of the window's page time that must lie between two looks
_STEPS = (0.25, 0.5, 1.0, 2.0, 4.0)


class BudgetPoint(msgspec.Struct, frozen=True):
    """Long-run freshness at a budget, by the model."""

    budget: float  # polls an hour
    fresh: float  # share of time in which a page's copy is current, mean over pages


class PolledPage(msgspec.Struct, frozen=True):
    """A page with its polls and the changes they found."""

    url: str
    polls: int
    changes: int  # found by these polls
    every: float | None  # seconds between two polls in the present plan; None: not polled


class PolledHost(msgspec.Struct, frozen=True):
    host: str
    pages: int
    polls: int
    changes: int


class FreshnessReport(msgspec.Struct, frozen=True):
    """State at the newest checkpoint, at `at`. Shares are between 0 and 1; None where too little is known."""

    at: float
    pages: int  # with a copy
    polls: int  # in all
    changes: int  # found by these polls
    expected: float | None = None
    measured: float | None = None
    useful_ratio: float | None = None  # changes for each poll
    budget: float | None = None  # polls an hour; None: only politeness bounds them
    polls_an_hour: float | None = None  # in the window
    policy: str = ""
    window: tuple[float, float] | None = None  # measured time; epoch seconds
    curve: list[BudgetPoint] = []
    top_hosts: list[PolledHost] = []
    top_pages: list[PolledPage] = []


def read_freshness(
    home: CrawlDir,
    now: float,
    *,
    others: Sequence[CrawlDir] = (),
    budgets: Sequence[float] = (),
    window: float = WINDOW,
    top: int = 5,
) -> FreshnessReport:
    """Freshness of a crawl.

    `budgets` in polls an hour; by default from a quarter to four times the present one.

    With `others`, the pages of all these crawls count as those of one.
    """
    with shelves([home, *others]) as opened:
        return _report(opened, now, budgets, window, top) if opened else FreshnessReport(now, 0, 0, 0)


def _report(
    opened: list[LedgerShelf], now: float, budgets: Sequence[float], window: float, top: int
) -> FreshnessReport:
    planner, ledgers = Planner(opened), [shelf.ledger for shelf in opened]
    belief, pages = planner.belief, len(planner.belief)
    polls, changes = (
        sum(int(ledger.column(name).sum()) for ledger in ledgers) for name in ("polls", "changes")
    )
    hourly = planner.budget * 3600 if planner.budget else None
    useful = changes / polls if polls else None
    policy = sealed_policy(opened[0].last)
    report = FreshnessReport(now, pages, polls, changes, None, None, useful, hourly, policy=policy)
    if polls < _FEWEST or not pages:
        return report
    law = change.population(belief)
    since = np.maximum(now - planner.column("looked", ledgers), 0.0)
    expected = float(change.current(belief, since, law).mean())
    measured, span, pace = _measure(opened, planner, window)
    base = report.budget or pace
    asked = sorted(set(budgets) or ({base * step for step in _STEPS} if base else set()))
    curve = [BudgetPoint(budget, planner.fresh(budget / 3600, law)) for budget in asked]
    most = _MostPolled(planner, ledgers)
    tops = {"top_hosts": most.hosts(top), "top_pages": most.pages(top), "curve": curve}
    rates = {"expected": expected, "measured": measured, "window": span, "polls_an_hour": pace}
    return msgspec.structs.replace(report, **rates, **tops)


def _measure(
    opened: list[LedgerShelf], planner: Planner, window: float
) -> tuple[float | None, tuple[float, float] | None, float | None]:
    """The share of current page time, the window, and polls an hour in it."""
    all_gaps, all_looks, before = [], [], 0
    for (home, last, ledger), rows in zip(opened, planner.rows, strict=True):
        looked = np.zeros(len(ledger))
        looked[rows] = ledger.column("looked")[rows]
        gaps = read_gaps(home, ledger, sealed_outcomes(last))
        gaps = gaps.where(looked[gaps.page] > 0)
        all_gaps.append(gaps._replace(page=gaps.page + before))
        all_looks.append(looked)
        before += len(ledger)
    gaps = Gaps(*(np.concatenate(column) for column in zip(*all_gaps, strict=True)))
    looked = np.concatenate(all_looks)
    if not len(gaps.page):
        return None, None, None
    end = float(gaps.end.max())
    start = max(float(gaps.start.min()), end - window)
    span = end - start
    if span <= 0:
        return None, None, None
    times = tenure(gaps, looked, start, end)
    pace = float(np.count_nonzero(gaps.end > start)) / span * 3600
    enough = times.between >= _BETWEEN * times.all
    return (times.good / times.all if enough else None), (start, end), pace


class _MostPolled:
    """The hosts and pages with the most polls."""

    def __init__(self, planner: Planner, ledgers: list[Ledger]):
        self._planner, self._ledgers = planner, ledgers
        self._polls, self._changes = (planner.column(name, ledgers) for name in ("polls", "changes"))
        self._ends = np.cumsum([len(rows) for rows in planner.rows])

    def _url(self, place: int) -> str:
        """URL of a page, by its index among the planned pages."""
        which = int(np.searchsorted(self._ends, place, side="right"))
        ledger, rows = self._ledgers[which], self._planner.rows[which]
        number = rows[place - (self._ends[which] - len(rows))]
        return ledger.row_at(int(ledger.column("standing")[number])).url

    def pages(self, top: int) -> list[PolledPage]:
        rates, pages = self._planner.present(), []
        for place in _largest(self._polls, top):
            every = float(1 / rates[place]) if rates[place] else None
            counts = int(self._polls[place]), int(self._changes[place])
            pages.append(PolledPage(self._url(place), *counts, every))
        return pages

    def hosts(self, top: int) -> list[PolledHost]:
        hosts = self._planner.host
        polls, changes = (
            np.bincount(hosts, column, self._planner.hosts) for column in (self._polls, self._changes)
        )
        pages, polled = np.bincount(hosts, minlength=self._planner.hosts), []
        for number in _largest(polls, top):
            name = host_of(Url(self._url(int(np.flatnonzero(hosts == number)[0]))))
            polled.append(PolledHost(name, int(pages[number]), int(polls[number]), int(changes[number])))
        return polled


def _largest(values: NDArray[np.number], top: int) -> list[int]:
    order = np.argsort(-values.astype(np.float64), kind="stable")[:top]
    return [int(place) for place in order if values[place] > 0]
