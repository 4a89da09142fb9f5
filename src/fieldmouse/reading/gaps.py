"""Time during which copies were current, from the gaps between two looks at a page.

At each look the copy is current again. If the second look of a gap finds nothing new, the copy was current
for the whole gap. If it finds a change, the copy was current until the first change. The time of that
change is unknown; its expected value follows from the page's learned change rate. The same holds for the
time since the last look. So the sum is measured where looks are close, and never claims more than they
show.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fieldmouse.crawldir import CrawlDir, records
from fieldmouse.policy import change
from fieldmouse.policy.change.belief import BLIND, STILL, UNDATED
from fieldmouse.policy.change.population import blocks
from fieldmouse.refresh.ledger import Ledger
from fieldmouse.refresh.looks import BatchBuilder, Said

Reals = NDArray[np.float64]
Rows = NDArray[np.int64]

_BATCH = 8192
_RECENT = 3
"""Gaps of a page that teach its change rate even if they lie before the window. Pages with no gap in the
window are not like the others: they are polled seldom because they hardly ever change."""


class Gaps(NamedTuple):
    """Times between two looks at a page, one row each; `page` is its number in the page table."""

    page: Rows
    start: Reals
    end: Reals
    changed: NDArray[np.bool_]

    def where(self, chosen: NDArray[np.bool_]) -> Gaps:
        """The selected rows."""
        return Gaps(self.page[chosen], self.start[chosen], self.end[chosen], self.changed[chosen])


class Tenure(NamedTuple):
    """Page seconds of a window: all of them, those between two looks, and those with a current copy."""

    all: float
    between: float
    good: float


def read_gaps(home: CrawlDir, ledger: Ledger, length: int) -> Gaps:
    """All gaps of the pages in a page table. Reads the outcome log once; about 40 bytes a row."""
    keys, at, changed, offsets, unclear, withdrawn = _looks(home, length)
    order = np.argsort(keys, kind="stable")  # of one page: in log order
    keys, at, changed, offsets = keys[order], at[order], changed[order], offsets[order]
    again = np.flatnonzero(keys[1:] == keys[:-1]) + 1
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    for look in np.sort(place[unclear]).tolist():
        changed[look] = _differs(ledger, keys, offsets, look)
    for row, times in withdrawn.items():
        look = int(place[row])
        while times and look > 0 and keys[look - 1] == keys[look]:
            look -= 1
            times -= bool(changed[look])
            changed[look] = False
    page = _numbers(ledger, keys[again])
    known = page >= 0
    again = again[known]
    return Gaps(page[known], at[again - 1], at[again], changed[again])


_Looked = tuple[
    NDArray[np.uint64], Reals, NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64], dict[int, int]
]


def _looks(home: CrawlDir, length: int) -> _Looked:
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
        batch = builder.take()
        looks = batch.said & Said.LOOK != 0
        changed = (batch.said & Said.POLL != 0) & (batch.said & Said.CHANGED != 0)
        parts.append((batch.keys[looks], batch.at[looks], changed[looks], batch.offsets[looks]))
        unclear.append(count + np.flatnonzero(batch.said[looks] & Said.ASK_DIGEST))
        taken_back = batch.withdrawn[looks]
        withdrawn.update({count + int(row): int(taken_back[row]) for row in np.flatnonzero(taken_back)})
        count += int(np.count_nonzero(looks))

    for offset, record in records(home / "outcomes.log", length=length) if length else ():
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


def _differs(ledger: Ledger, keys: NDArray[np.uint64], offsets: NDArray[np.int64], look: int) -> bool:
    """Whether the bytes of a look differ from those of the newest copy before it."""
    now = ledger.row_at(int(offsets[look])).digest
    while look > 0 and keys[look - 1] == keys[look]:
        look -= 1
        before = ledger.row_at(int(offsets[look])).digest
        if before:
            return before != now
    return False


def _numbers(ledger: Ledger, keys: NDArray[np.uint64]) -> Rows:
    """Page numbers of these keys in the page table; -1 for unknown keys."""
    table_keys = ledger.column("key")
    if not len(table_keys):
        return np.full(len(keys), -1, np.int64)
    order = np.argsort(table_keys)
    place = np.minimum(np.searchsorted(table_keys, keys, sorter=order), len(table_keys) - 1)
    rows = order[place].astype(np.int64)
    return np.where(table_keys[rows] == keys, rows, -1)


def tenure(gaps: Gaps, looked: Reals, start: float, end: float) -> Tenure:
    """How long copies existed and were current between two times; `looked` are the pages' last looks.

    Pages with `looked` 0 do not count and must have no gap. Change rates are learned anew from these gaps,
    all with equal weight, because the beliefs in the page table discount old observations.
    """
    gaps = gaps.where(gaps.start < end)
    belief = _beliefs(gaps.where((gaps.end > start) | (_newer(gaps) < _RECENT)), len(looked))
    law = change.population(belief)
    gaps = gaps.where(gaps.end > start)
    length, before = gaps.end - gaps.start, np.maximum(start - gaps.start, 0.0)
    changed, still = gaps.changed, np.minimum(gaps.end, end) - gaps.start - before
    good = float(still[~changed].sum())
    good += _sum(belief[gaps.page[changed]], law, before[changed], length[changed], _until_change)
    there = np.flatnonzero((looked > 0) & (looked < end))
    before = np.maximum(start - looked[there], 0.0)
    since = end - looked[there]
    good += _sum(belief[there], law, before, since, _while_unseen)
    between = float(still.sum())
    return Tenure(between + float((since - before).sum()), between, good)


def _newer(gaps: Gaps) -> Rows:
    """Number of later gaps of the same page, for each gap. Gaps of a page must be adjacent and in order."""
    last = np.flatnonzero(np.append(gaps.page[1:] != gaps.page[:-1], True)) if len(gaps.page) else gaps.page
    ends = np.repeat(last, np.diff(last, prepend=-1))
    return np.asarray(ends - np.arange(len(gaps.page)), np.int64)


def _beliefs(gaps: Gaps, pages: int) -> NDArray[np.float32]:
    """Beliefs learned from these gaps, per page."""
    belief = change.begin(pages)
    length, changed = gaps.end - gaps.start, gaps.changed
    belief[:, STILL] = np.bincount(gaps.page[~changed], length[~changed], pages)
    belief[:, UNDATED] = np.bincount(gaps.page[changed], minlength=pages)
    belief[:, BLIND] = np.bincount(gaps.page[changed], length[changed], pages)
    return belief


_Good = Callable[[Reals, Reals, Reals], Reals]


def _sum(
    belief: NDArray[np.float32], law: change.Population, before: Reals, gap: Reals, good: _Good
) -> float:
    total = 0.0
    for block in blocks(len(belief)):
        likely = change.posterior(belief[block], law)
        total += float((likely * good(law.rates, before[block, None], gap[block, None])).sum())
    return total


def _until_change(rate: Reals, before: Reals, gap: Reals) -> Reals:
    """Current time after `before` in a gap with a change: mean of the part of an exponential time beyond it.

    >>> _until_change(np.array([1e-6, 1.0, 1e6]), np.zeros(1), np.full(1, 2.0)).round(3).tolist()
    [1.0, 0.687, 0.0]
    >>> _until_change(np.array([1e-6]), np.ones(1), np.full(1, 2.0)).round(3).tolist()
    [0.25]
    """
    rest = gap - before
    # A negligible rate: the change is uniform over the gap.
    low = rate * gap < 1e-3
    rate = np.where(low, 1.0 / gap, rate)
    part = np.exp(-rate * before) * (-np.expm1(-rate * rest) / rate - rest * np.exp(-rate * rest))
    return np.asarray(np.where(low, rest * rest / (2 * gap), part / -np.expm1(-rate * gap)))


def _while_unseen(rate: Reals, before: Reals, since: Reals) -> Reals:
    """Current time after `before` of a copy with no later look."""
    rest = since - before
    return np.asarray(np.exp(-rate * before) * rest * change.fresh_share(rate * rest))
