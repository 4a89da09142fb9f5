"""How fresh the copies are, what the polls bring, and what more or fewer of them would bring.

Two numbers that must agree if the model is right: `expected` asks for each page how likely its copy still
is what the server has; `measured` looks back over a window, gap by gap (`gaps.py`). The curve asks the policy
that polls what it would do with another budget, and the model what that is worth in the long run.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from fieldmouse.crawldir import Checkpoint, CrawlDir, sealed_outcomes
from fieldmouse.policy import change
from fieldmouse.reading.gaps import read_gaps, tenure
from fieldmouse.reading.moment import look
from fieldmouse.reading.planning import Planner
from fieldmouse.refresh.ledger import Ledger
from fieldmouse.refresh.reading import read_ledger, sealed_policy
from fieldmouse.url import host_of

Reals = NDArray[np.float64]

WINDOW = 7 * 86_400.0
_FEWEST = 5  # polls before anything is said
_BETWEEN = 0.4  # share of the window's page time that must lie between two looks
_STEPS = (0.25, 0.5, 1.0, 2.0, 4.0)


class BudgetPoint(msgspec.Struct, frozen=True):
    """What a budget would bring in the long run, by the model."""

    budget: float  # polls an hour
    fresh: float  # share of time in which a page's copy is current, mean over pages


class PolledPage(msgspec.Struct, frozen=True):
    """A page and what its polls bring."""

    url: str
    polls: int
    changes: int  # that they found
    every: float | None  # seconds between two polls by the present plan; None: it is not polled


class PolledHost(msgspec.Struct, frozen=True):
    host: str
    pages: int
    polls: int
    changes: int


class FreshnessReport(msgspec.Struct, frozen=True):
    """As of the newest checkpoint, at `at`. Shares are between 0 and 1; None where too little is known."""

    at: float
    pages: int  # of which there is a copy
    polls: int  # so far
    changes: int  # that they found
    expected: float | None = None
    measured: float | None = None
    useful_ratio: float | None = None  # changes for each poll
    budget: float | None = None  # polls an hour; None: only politeness bounds them
    polls_an_hour: float | None = None  # in the window
    policy: str = ""
    window: tuple[float, float] | None = None  # of what was measured; epoch seconds
    curve: list[BudgetPoint] = []
    top_hosts: list[PolledHost] = []
    top_pages: list[PolledPage] = []


def read_freshness(
    home: CrawlDir,
    now: float,
    *,
    budgets: Sequence[float] = (),
    window: float = WINDOW,
    top: int = 5,
) -> FreshnessReport:
    """`budgets` in polls an hour; without them from a quarter to four times the present one."""

    def at(last: Checkpoint) -> FreshnessReport:
        ledger = read_ledger(home, last)
        try:
            return _report(home, last, ledger, now, budgets, window, top)
        finally:
            ledger.close()

    return look(home, at, before=FreshnessReport(now, 0, 0, 0))


def _report(
    home: CrawlDir, last: Checkpoint, ledger: Ledger, now: float, budgets: Sequence[float], window: float,
    top: int,
) -> FreshnessReport:  # fmt: skip
    planner = Planner(home, last, ledger)
    rows, belief = planner.rows, planner.belief
    polls = int(ledger.column("polls").sum())
    changes = int(ledger.column("changes").sum())
    report = FreshnessReport(
        now, len(rows), polls, changes, policy=sealed_policy(last),
        budget=ledger.budget * 3600 if ledger.budget else None,
        useful_ratio=changes / polls if polls else None,
    )  # fmt: skip
    if polls < _FEWEST or not len(rows):
        return report
    law = change.population(belief)
    since = np.maximum(now - ledger.take("looked", rows), 0.0)
    expected = float(change.current(belief, since, law).mean())
    measured, span, pace = _measure(home, last, ledger, rows, window)
    base = report.budget or pace
    asked = sorted(set(budgets) or ({base * step for step in _STEPS} if base else set()))
    curve = [BudgetPoint(budget, planner.fresh(budget / 3600, law)) for budget in asked]
    return msgspec.structs.replace(
        report, expected=expected, measured=measured, window=span, polls_an_hour=pace, curve=curve,
        top_hosts=_top_hosts(ledger, rows, top),
        top_pages=_top_pages(ledger, rows, planner.present(), top),
    )  # fmt: skip


def _measure(
    home: CrawlDir, last: Checkpoint, ledger: Ledger, rows: NDArray[np.intp], window: float
) -> tuple[float | None, tuple[float, float] | None, float | None]:  # fmt: skip
    """The share of time, the window, and polls an hour in it."""
    gaps = read_gaps(home, ledger, sealed_outcomes(last))
    looked = np.zeros(len(ledger))
    looked[rows] = ledger.column("looked")[rows]
    gaps = gaps.where(looked[gaps.page] > 0)
    if not len(gaps.page):
        return None, None, None
    end = float(gaps.end.max())
    start = max(float(gaps.start.min()), end - window)
    span = end - start
    if span <= 0:
        return None, None, None
    found = tenure(gaps, looked, start, end)
    pace = float(np.count_nonzero(gaps.end > start)) / span * 3600
    enough = found.between >= _BETWEEN * found.all
    return (found.good / found.all if enough else None), (start, end), pace


def _top_pages(ledger: Ledger, rows: NDArray[np.intp], rates: Reals, top: int) -> list[PolledPage]:
    polls, changes = ledger.column("polls")[rows], ledger.column("changes")[rows]
    found = []
    for place in _largest(polls, top):
        row = ledger.row_at(int(ledger.column("standing")[rows[place]]))
        every = float(1 / rates[place]) if rates[place] else None
        found.append(PolledPage(row.url, int(polls[place]), int(changes[place]), every))
    return found


def _top_hosts(ledger: Ledger, rows: NDArray[np.intp], top: int) -> list[PolledHost]:
    hosts = ledger.column("host")[rows].astype(np.int64)
    polls, changes = (
        np.bincount(hosts, ledger.column(name)[rows], ledger.hosts) for name in ("polls", "changes")
    )
    pages = np.bincount(hosts, minlength=ledger.hosts)
    found = []
    for number in _largest(polls, top):
        some = rows[np.flatnonzero(hosts == number)[0]]
        name = host_of(ledger.row_at(int(ledger.column("standing")[some])).url)
        found.append(PolledHost(name, int(pages[number]), int(polls[number]), int(changes[number])))
    return found


def _largest(values: NDArray[np.number], top: int) -> list[int]:
    order = np.argsort(-values.astype(np.float64), kind="stable")[:top]
    return [int(place) for place in order if values[place] > 0]
