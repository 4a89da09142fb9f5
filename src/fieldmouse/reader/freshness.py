"""Freshness report: how current the copies are, what polls find, and what other budgets would achieve.

Two numbers agree if the model is right. `expected` is the probability, averaged over pages, that a copy
still equals the page on the server. `measured` looks back over a window, gap by gap. In a gap between two
looks without a change the copy was current all the time; in a gap with a change it was current until the
first change, whose expected time follows from the page's learned change rate. The curve takes the plan of
the polling policy for another budget, and its long-run freshness from the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fieldmouse.policy import change_rate
from fieldmouse.policy.change_rate import STILL_TIME, UNDATED, UNDATED_TIME, page_blocks
from fieldmouse.reader.polling_and_packing_plans import OpenPageTable, PollingPlan, open_page_tables
from fieldmouse.refresh.apply_outcomes import BatchBuilder, RowEffect
from fieldmouse.refresh.page_table import PageTable
from fieldmouse.storage.checkpoint import sealed_outcome_bytes
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.log import read_records
from fieldmouse.url import host_of

Reals = NDArray[np.float64]
Rows = NDArray[np.int64]

_BATCH = 8192
#: Gaps of a page that teach its change rate even if they lie before the window. Pages with no gap in the window are
#: not like the others: they are polled seldom because they hardly ever change.
_RECENT = 3


class ObservedPollIntervals(NamedTuple):
    """Times between two looks at a page, one row each; `page` is its number in the page table."""

    page: Rows
    start: Reals
    end: Reals
    changed: NDArray[np.bool_]

    def select(self, chosen: NDArray[np.bool_]) -> ObservedPollIntervals:
        """The selected rows."""
        return ObservedPollIntervals(self.page[chosen], self.start[chosen], self.end[chosen], self.changed[chosen])


class FreshTimeTotals(NamedTuple):
    """Page seconds of a window: all of them, those between two looks, and those with a current copy."""

    all: float
    between: float
    good: float


def read_gaps_between_looks(home: CrawlDir, table: PageTable, length: int) -> ObservedPollIntervals:
    """All gaps of the pages in a page table. Reads the outcome log once; about 40 bytes a row."""
    keys, at, changed, offsets, unclear, withdrawn = _read_looks(home, length)
    order = np.argsort(keys, kind="stable")  # of one page: in log order
    keys, at, changed, offsets = keys[order], at[order], changed[order], offsets[order]
    again = np.flatnonzero(keys[1:] == keys[:-1]) + 1
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    for look in np.sort(place[unclear]).tolist():
        changed[look] = _has_other_bytes(table, keys, offsets, look)
    for row, times in withdrawn.items():
        look = int(place[row])
        while times and look > 0 and keys[look - 1] == keys[look]:
            look -= 1
            times -= bool(changed[look])
            changed[look] = False
    page = _page_numbers(table, keys[again])
    known = page >= 0
    again = again[known]
    return ObservedPollIntervals(page[known], at[again - 1], at[again], changed[again])


_Looked = tuple[NDArray[np.uint64], Reals, NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64], dict[int, int]]


def _read_looks(home: CrawlDir, length: int) -> _Looked:
    """Every look in the log: page, time, whether a change was found, offset of its row.

    Then the indices of looks whose row does not say whether the page changed, and of looks that withdrew
    earlier changes, with their number.
    """
    builder = BatchBuilder(home.identity.key_seed)
    parts: list[tuple[NDArray[np.uint64], Reals, NDArray[np.bool_], NDArray[np.int64]]] = []
    unclear: list[NDArray[np.int64]] = []
    withdrawn: dict[int, int] = {}
    count = 0

    def take() -> None:
        nonlocal count
        batch = builder.take_batch()
        looks = batch.effects & RowEffect.ANSWERED != 0
        changed = (batch.effects & RowEffect.POLL != 0) & (batch.effects & RowEffect.CHANGED != 0)
        parts.append((batch.keys[looks], batch.at[looks], changed[looks], batch.offsets[looks]))
        unclear.append(count + np.flatnonzero(batch.effects[looks] & RowEffect.COMPARE_DIGEST))
        taken_back = batch.withdrawn[looks]
        withdrawn.update({count + int(row): int(taken_back[row]) for row in np.flatnonzero(taken_back)})
        count += int(np.count_nonzero(looks))

    for offset, record in read_records(home / "outcomes.log", length=length) if length else ():
        builder.add(offset, record)
        if len(builder) >= _BATCH:
            take()
    if len(builder):
        take()
    if not parts:
        none = np.empty(0, np.int64)
        return none.astype(np.uint64), none.astype(float), none.astype(bool), none, none, {}
    keys, at, changed, offsets = (np.concatenate(column) for column in zip(*parts, strict=True))
    return keys, at, changed, offsets, np.concatenate(unclear), withdrawn


def _has_other_bytes(table: PageTable, keys: NDArray[np.uint64], offsets: NDArray[np.int64], look: int) -> bool:
    """Whether the bytes of a look differ from those of the newest copy before it."""
    now = table.read_logged_outcome(int(offsets[look])).digest
    while look > 0 and keys[look - 1] == keys[look]:
        look -= 1
        before = table.read_logged_outcome(int(offsets[look])).digest
        if before:
            return before != now
    return False


def _page_numbers(table: PageTable, keys: NDArray[np.uint64]) -> Rows:
    """Page numbers of these keys in the page table; -1 for unknown keys."""
    table_keys = table.column("key")
    if not len(table_keys):
        return np.full(len(keys), -1, np.int64)
    order = np.argsort(table_keys)
    place = np.minimum(np.searchsorted(table_keys, keys, sorter=order), len(table_keys) - 1)
    rows = order[place].astype(np.int64)
    return np.where(table_keys[rows] == keys, rows, -1)


def measure_page_seconds(gaps: ObservedPollIntervals, looked: Reals, start: float, end: float) -> FreshTimeTotals:
    """How long copies existed and were current between two times; `looked` are the pages' last looks.

    Pages with `looked` 0 do not count and must have no gap. Change rates are learned anew from these gaps,
    all with equal weight, because the beliefs in the page table discount old observations.
    """
    gaps = gaps.select(gaps.start < end)
    belief = _learn_change_rates(gaps.select((gaps.end > start) | (_count_later_gaps(gaps) < _RECENT)), len(looked))
    law = change_rate.fit_population(belief)
    gaps = gaps.select(gaps.end > start)
    length, before = gaps.end - gaps.start, np.maximum(start - gaps.start, 0.0)
    changed, still = gaps.changed, np.minimum(gaps.end, end) - gaps.start - before
    good = float(still[~changed].sum())
    good += _sum_expected_seconds(
        belief[gaps.page[changed]], law, before[changed], length[changed], _fresh_seconds_until_change
    )
    there = np.flatnonzero((looked > 0) & (looked < end))
    before = np.maximum(start - looked[there], 0.0)
    since = end - looked[there]
    good += _sum_expected_seconds(belief[there], law, before, since, _fresh_seconds_since_look)
    between = float(still.sum())
    return FreshTimeTotals(between + float((since - before).sum()), between, good)


def _count_later_gaps(gaps: ObservedPollIntervals) -> Rows:
    """Number of later gaps of the same page, for each gap. Gaps of a page must be adjacent and in order."""
    last = np.flatnonzero(np.append(gaps.page[1:] != gaps.page[:-1], True)) if len(gaps.page) else gaps.page
    ends = np.repeat(last, np.diff(last, prepend=-1))
    return np.asarray(ends - np.arange(len(gaps.page)), np.int64)


def _learn_change_rates(gaps: ObservedPollIntervals, pages: int) -> NDArray[np.float32]:
    """Beliefs learned from these gaps, per page."""
    belief = change_rate.empty_beliefs(pages)
    length, changed = gaps.end - gaps.start, gaps.changed
    belief[:, STILL_TIME] = np.bincount(gaps.page[~changed], length[~changed], pages)
    belief[:, UNDATED] = np.bincount(gaps.page[changed], minlength=pages)
    belief[:, UNDATED_TIME] = np.bincount(gaps.page[changed], length[changed], pages)
    return belief


_Good = Callable[[Reals, Reals, Reals], Reals]


def _sum_expected_seconds(
    belief: NDArray[np.float32], law: change_rate.ChangeRatePrior, before: Reals, gap: Reals, good: _Good
) -> float:
    total = 0.0
    for block in page_blocks(len(belief)):
        likely = change_rate.posterior(belief[block], law)
        total += float((likely * good(law.rates, before[block, None], gap[block, None])).sum())
    return total


def _fresh_seconds_until_change(rate: Reals, before: Reals, gap: Reals) -> Reals:
    """Current time after `before` in a gap with a change: mean of the part of an exponential time beyond it.

    >>> _fresh_seconds_until_change(np.array([1e-6, 1.0, 1e6]), np.zeros(1), np.full(1, 2.0)).round(3).tolist()
    [1.0, 0.687, 0.0]
    >>> _fresh_seconds_until_change(np.array([1e-6]), np.ones(1), np.full(1, 2.0)).round(3).tolist()
    [0.25]
    """
    rest = gap - before
    # A negligible rate: the change is uniform over the gap.
    low = rate * gap < 1e-3
    rate = np.where(low, 1.0 / gap, rate)
    part = np.exp(-rate * before) * (-np.expm1(-rate * rest) / rate - rest * np.exp(-rate * rest))
    return np.asarray(np.where(low, rest * rest / (2 * gap), part / -np.expm1(-rate * gap)))


def _fresh_seconds_since_look(rate: Reals, before: Reals, since: Reals) -> Reals:
    """Current time after `before` of a copy with no later look."""
    rest = since - before
    return np.asarray(np.exp(-rate * before) * rest * change_rate.fresh_share(rate * rest))


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
    homes: Sequence[CrawlDir],
    now: float,
    *,
    budgets: Sequence[float] = (),
    window: float = WINDOW,
    top: int = 5,
    policy: str | None = None,
) -> FreshnessReport:
    """Freshness of one crawl or several; the pages of all of them count as those of one.

    `budgets` in polls an hour; by default from a quarter to four times the present one. `policy` is the polling
    policy that plans; None: that of the last refresh.
    """
    with open_page_tables(homes) as opened:
        if not opened:
            return FreshnessReport(now, 0, 0, 0)
        return _make_report(PollingPlan(opened, policy), opened, now, budgets, window, top)


def _make_report(
    planner: PollingPlan, opened: list[OpenPageTable], now: float, budgets: Sequence[float], window: float, top: int
) -> FreshnessReport:
    belief, pages = planner.belief, len(planner.belief)
    polls, changes = (sum(int(table.column(name).sum()) for table in planner.tables) for name in ("polls", "changes"))
    hourly = planner.budget * 3600 if planner.budget else None
    useful = changes / polls if polls else None
    report = FreshnessReport(now, pages, polls, changes, None, None, useful, hourly, policy=planner.policy_name)
    if polls < _FEWEST or not pages:
        return report
    law = change_rate.fit_population(belief)
    since = np.maximum(now - planner.table_column("looked"), 0.0)
    expected = float(change_rate.probability_current(belief, since, law).mean())
    measured, span, pace = _measure_freshness(opened, planner, window)
    base = report.budget or pace
    asked = sorted(set(budgets) or ({base * step for step in _STEPS} if base else set()))
    curve = [BudgetPoint(budget, planner.freshness_at_budget(budget / 3600, law)) for budget in asked]
    tops = {"top_hosts": _most_polled_hosts(planner, top), "top_pages": _most_polled_pages(planner, top)}
    rates = {"expected": expected, "measured": measured, "window": span, "polls_an_hour": pace, "curve": curve}
    return msgspec.structs.replace(report, **rates, **tops)


def _measure_freshness(
    opened: list[OpenPageTable], planner: PollingPlan, window: float
) -> tuple[float | None, tuple[float, float] | None, float | None]:
    """The share of current page time, the window, and polls an hour in it."""
    all_gaps, all_looks, before = [], [], 0
    for (home, last, table, _), rows in zip(opened, planner.rows, strict=True):
        looked = np.zeros(len(table))
        looked[rows] = table.column("looked")[rows]
        gaps = read_gaps_between_looks(home, table, sealed_outcome_bytes(last))
        gaps = gaps.select(looked[gaps.page] > 0)
        all_gaps.append(gaps._replace(page=gaps.page + before))
        all_looks.append(looked)
        before += len(table)
    gaps = ObservedPollIntervals(*(np.concatenate(column) for column in zip(*all_gaps, strict=True)))
    looked = np.concatenate(all_looks)
    if not len(gaps.page):
        return None, None, None
    end = float(gaps.end.max())
    start = max(float(gaps.start.min()), end - window)
    span = end - start
    if span <= 0:
        return None, None, None
    times = measure_page_seconds(gaps, looked, start, end)
    pace = float(np.count_nonzero(gaps.end > start)) / span * 3600
    enough = times.between >= _BETWEEN * times.all
    return (times.good / times.all if enough else None), (start, end), pace


def _most_polled_pages(planner: PollingPlan, most: int) -> list[PolledPage]:
    polls, changes, rates = planner.table_column("polls"), planner.table_column("changes"), planner.present_poll_rates()
    pages = []
    for place in _indexes_of_largest(polls, most):
        every = float(1 / rates[place]) if rates[place] else None
        pages.append(PolledPage(planner.url_of(place), int(polls[place]), int(changes[place]), every))
    return pages


def _most_polled_hosts(planner: PollingPlan, most: int) -> list[PolledHost]:
    columns = (None, planner.table_column("polls"), planner.table_column("changes"))
    pages, polls, changes = (np.bincount(planner.host_of_page, column, planner.host_count) for column in columns)
    hosts = []
    for number in _indexes_of_largest(polls, most):
        name = host_of(planner.url_of(int(np.flatnonzero(planner.host_of_page == number)[0])))
        hosts.append(PolledHost(name, int(pages[number]), int(polls[number]), int(changes[number])))
    return hosts


def _indexes_of_largest(values: NDArray[np.number], top: int) -> list[int]:
    order = np.argsort(-values.astype(np.float64), kind="stable")[:top]
    return [int(place) for place in order if values[place] > 0]
