"""Queue of the pages that come due in the next seconds, found by one scan over all pages.

The scan holds one block of pages in memory, and the queue at most `MOST` pages, even if all pages are
overdue. The rest is found by the next scan, after the queued pages have been asked.
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
    """Block of consecutive pages."""

    rows: Rows
    flags: NDArray[np.uint16]
    hosts: NDArray[np.uint32]

    def free(self, open_hosts: Marks) -> Marks:
        """Mask of the pages that may be asked, given a mask of the hosts that may be asked."""
        free: Marks = (self.flags & _BUSY == 0) & open_hosts[self.hosts]
        return free


def blocks_of(ledger: Ledger) -> Iterator[PageBlock]:
    for start in range(0, len(ledger), _BLOCK):
        rows = np.arange(start, min(start + _BLOCK, len(ledger)))
        yield PageBlock(rows, ledger.take("flags", rows), ledger.take("host", rows))


def waits(ledger: Ledger, rows: Rows, rates: Reals, trust: Reals) -> Reals:
    """Seconds between the last try of each page and its next poll; `trust` is the weight of hints by host."""
    wait = 1.0 / rates
    never = ledger.take("polls", rows) == 0
    # The keys are hashes: their top bits serve as random numbers.
    part = (ledger.take("key", rows) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    wait = np.where(never, np.maximum(part, 1e-6) * wait, wait)
    hinted = np.flatnonzero(ledger.take("flags", rows) & Flag.HINTED)
    wait[hinted] *= 1.0 - trust[ledger.take("host", rows[hinted])]
    return wait


class Line:
    """Pages in the order in which they come due, valid until the time `until`.

    `cut` means that more pages are due than the queue holds.
    """

    def __init__(self, rows: Rows, hosts: Rows, due: Reals, until: float, *, cut: bool):
        self._pages = list(zip(rows.tolist(), hosts.tolist(), due.tolist(), strict=True))
        self._next, self.until, self._cut = 0, until, cut

    @property
    def passed(self) -> bool:
        """Whether all queued pages were taken and more are due."""
        return self._cut and self._next >= len(self._pages)

    def next_at(self) -> float:
        return self.until if self._next >= len(self._pages) else min(self.until, self._pages[self._next][2])

    def take(self, now: float, most: int, asked: NDArray[np.int64], most_open: int) -> Rows:
        """Take at most `most` due pages; pages of a host with `most_open` polls in flight wait for the next
        scan."""
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
    """Collector of the most overdue pages of a scan."""

    def __init__(self) -> None:
        self._rows, self._late, self._due = np.empty(0, np.int64), np.empty(0), np.empty(0)
        self._cut = False

    def add(self, rows: Rows, late: Reals, due: Reals) -> None:
        """Add pages; `late` counts the intervals since each page's last try, `due` is when it is due."""
        self._rows = np.concatenate([self._rows, rows])
        self._late, self._due = np.concatenate([self._late, late]), np.concatenate([self._due, due])
        if len(self._rows) > MOST:
            self._keep(np.argpartition(-self._late, MOST)[:MOST])
            self._cut = True

    def _keep(self, chosen: NDArray[np.intp]) -> None:
        self._rows, self._late, self._due = self._rows[chosen], self._late[chosen], self._due[chosen]

    def line(self, ledger: Ledger, until: float, rest: float) -> Line:
        """Queue of the pages due before `until`.

        If there are none, the queue lasts until the first page is due, at most until `rest`.
        """
        first = float(self._due.min(initial=math.inf))
        until = until if first <= until else min(first, max(until, rest))
        self._keep(np.flatnonzero(self._due <= until))
        self._keep(np.lexsort((-self._late, self._due)))
        return Line(self._rows, ledger.take("host", self._rows), self._due, until, cut=self._cut)
