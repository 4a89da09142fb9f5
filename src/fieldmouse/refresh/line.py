"""Who comes due in the next seconds: found by one walk through all pages, a block at a time.

However many pages there are, and were all of them overdue, a block of them is in memory at once, and no more
than `MOST` stand in line. If there are more, they are looked for when those in line have been asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fieldmouse.refresh.columns import Rows
from fieldmouse.refresh.ledger import Ledger
from fieldmouse.refresh.looks import Flag

Reals = NDArray[np.float64]
Marks = NDArray[np.bool_]

MOST = 4096
_BLOCK = 1 << 16
_BUSY = Flag.ASKED | Flag.ABSENT


class PageBlock(NamedTuple):
    """Some pages one after the other."""

    rows: Rows
    flags: NDArray[np.uint16]
    hosts: NDArray[np.uint32]

    def free(self, open_hosts: Marks) -> Marks:
        """Which of them may be asked, if these hosts may be."""
        free: Marks = (self.flags & _BUSY == 0) & open_hosts[self.hosts]
        return free


def blocks_of(ledger: Ledger) -> Iterator[PageBlock]:
    for start in range(0, len(ledger), _BLOCK):
        rows = np.arange(start, min(start + _BLOCK, len(ledger)))
        yield PageBlock(rows, ledger.take("flags", rows), ledger.take("host", rows))


def waits(ledger: Ledger, rows: Rows, rates: Reals, trust: Reals) -> Reals:
    """Seconds between the last try of each page and its next poll; `trust` in hints, by host."""
    wait = 1.0 / rates
    never = ledger.take("polls", rows) == 0
    # The keys are hashes: their top bits are as good as dice.
    part = (ledger.take("key", rows) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    wait = np.where(never, np.maximum(part, 1e-6) * wait, wait)
    hinted = np.flatnonzero(ledger.take("flags", rows) & Flag.HINTED)
    wait[hinted] *= 1.0 - trust[ledger.take("host", rows[hinted])]
    return wait


class Line:
    """Pages in the order in which they come due, until it is time to look again; `cut`: there are more."""

    def __init__(self, rows: Rows, hosts: Rows, due: Reals, until: float, *, cut: bool):
        self._pages = list(zip(rows.tolist(), hosts.tolist(), due.tolist(), strict=True))
        self._next, self.until, self._cut = 0, until, cut

    @property
    def passed(self) -> bool:
        """Whether all of it was taken, and there are more."""
        return self._cut and self._next >= len(self._pages)

    def next_at(self) -> float:
        return self.until if self._next >= len(self._pages) else min(self.until, self._pages[self._next][2])

    def take(self, now: float, most: int, asked: NDArray[np.int64], most_open: int) -> Rows:
        """Those that are due; where a host has enough under way, a page waits until the next look."""
        chosen: list[int] = []
        more: dict[int, int] = {}
        while self._next < len(self._pages) and len(chosen) < most:
            row, host, due = self._pages[self._next]
            if due > now:
                break
            self._next += 1
            under_way = more.get(host, 0)
            if asked[host] + under_way < most_open:
                more[host] = under_way + 1
                chosen.append(row)
        return np.array(chosen, np.int64)


NOBODY = Line(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), -math.inf, cut=False)


class Candidates:
    """The pages that are most late, out of all that were seen."""

    def __init__(self) -> None:
        self._rows, self._late, self._due = np.empty(0, np.int64), np.empty(0), np.empty(0)
        self._cut = False

    def add(self, rows: Rows, late: Reals, due: Reals) -> None:
        """Some more, with the intervals that have passed since each was due for a try, and when it is due."""
        self._rows = np.concatenate([self._rows, rows])
        self._late, self._due = np.concatenate([self._late, late]), np.concatenate([self._due, due])
        if len(self._rows) > MOST:
            self._keep(np.argpartition(-self._late, MOST)[:MOST])
            self._cut = True

    def _keep(self, chosen: NDArray[np.intp]) -> None:
        self._rows, self._late, self._due = self._rows[chosen], self._late[chosen], self._due[chosen]

    def line(self, ledger: Ledger, until: float, rest: float) -> Line:
        """Those due before `until`; if there are none, the next look is when somebody is, or at `rest`."""
        first = float(self._due.min(initial=math.inf))
        until = until if first <= until else min(first, max(until, rest))
        self._keep(np.flatnonzero(self._due <= until))
        self._keep(np.lexsort((-self._late, self._due)))
        return Line(self._rows, ledger.take("host", self._rows), self._due, until, cut=self._cut)
