"""Which pages are polled now: each at an even pace that a plan has given it, and never more than the budget.

A policy plans a rate for every page. A page is due when one interval (1 / rate) has passed since it was last
tried; a page that was never polled when a part of it has, another part for each page, so that a site that
was crawled in one go is not polled in one go. Among those that are due the one comes first that is
late by most of its intervals. A host has only so many polls under way: one that is slow cannot
hold all of the budget.

Nothing here is sorted or kept in heaps a page. From time to time all pages are looked through at once
for those that come due before the next time (`_Line`); in between a call costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Executor, Future

import numpy as np
from numpy.typing import NDArray

from fieldmouse.policy import change
from fieldmouse.policy.polling import PollingPolicy
from fieldmouse.records import Link
from fieldmouse.refresh.bucket import Bucket
from fieldmouse.refresh.columns import Rows
from fieldmouse.refresh.fold import is_odd
from fieldmouse.refresh.ledger import Ledger
from fieldmouse.refresh.looks import Flag
from fieldmouse.refresh.polling import Polls, ReadHeaders
from fieldmouse.refresh.signals import ReadAnswer, SignalReader, weights

Reals = NDArray[np.float64]

RETRY = 7 * 86_400.0
_PATIENT = 15.0  # seconds of a host's polls that may be under way
_FEWEST = 8  # polls of a host that may be under way, however slow it is
_SHARE = 0.1  # of the budget, at most, for what is no page
_LINE = 4096


class Scheduler:
    """What to poll next. Times are epoch seconds, rates are polls a second.

    budget: None means that only politeness bounds it: `host_rate` polls a second of each host.
    once_since: poll what was last tried before then, once, and nothing else.
    retry: seconds between two polls of what is gone, moved, failed or refused.
    read_answer: reads sitemaps and feeds that were polled from the archive; None: nobody reads them.
    pool: where plans are made while others go on; None makes them when they are wanted.
    """

    def __init__(
        self, ledger: Ledger, policy: PollingPolicy, budget: float | None = None, *,
        host_rate: float | None = None, host_open: int | None = None, once_since: float | None = None,
        retry: float = RETRY, read_headers: ReadHeaders | None = None,
        read_answer: ReadAnswer | None = None, pool: Executor | None = None,
    ):  # fmt: skip
        self._ledger, self._policy, self._budget = ledger, policy, budget
        self._host_rate, self._since, self._retry, self._pool = host_rate, once_since, retry, pool
        self._most_open = host_open or max(_FEWEST, math.ceil(_PATIENT * (host_rate or 0.0)))
        self._bucket = Bucket(budget, ledger.purse)
        self._polls = Polls(ledger, read_headers) if read_headers else Polls(ledger)
        self._signals = SignalReader(ledger, read_answer, pool) if read_answer else None
        self._rates: Reals = np.empty(0)  # in `once`: what a poll pays
        self._planned_at = -math.inf
        self._planning: Future[Reals] | None = None
        self._line = _NOBODY
        ledger.note_budget(budget)

    def due(self, now: float, room: int) -> list[Link]:
        """Polls that go out now, at most `room`, what pays most first; the ledger marks them as asked."""
        self._plan(now)
        if self._signals is not None and self._signals.look():
            self._line = _NOBODY
        most = int(min(room, self._bucket.whole(now)))
        links: list[Link] = []
        while len(links) < most:
            if now >= self._line.until or self._line.passed:
                self._line = self._look_through(now)
            rows = self._line.take(now, most - len(links), self._ledger.asked_by_host, self._most_open)
            links += self._polls.links(rows)
            self._ledger.ask(rows)
            if not self._line.passed:
                break
        self._bucket.spend(len(links))
        self._ledger.note_purse(self._bucket.purse)
        return links

    def next_at(self, now: float) -> float | None:
        """When it wants to be asked again; None if nothing will ever be due by what is known now."""
        if self._planning is not None:
            return now + 0.1
        if not len(self._ledger) or (self._since is not None and not self.left):
            return None
        return max(self._line.next_at(), self._bucket.next_at(now))

    @property
    def left(self) -> int:
        """In `once`: how many are still to be polled, those under way included."""
        return int(np.count_nonzero(self._wanted())) if self._since is not None else 0

    def rates(self) -> Reals:
        """Polls a second of each page by the newest plan; those that came since have the others' mean."""
        missing = len(self._ledger) - len(self._rates)
        if missing > 0:
            mean = float(self._rates.mean()) if len(self._rates) else 0.0
            self._rates = np.concatenate([self._rates, np.full(missing, mean)])
        return self._rates

    # -- planning

    def _plan(self, now: float) -> None:
        if self._planning is not None:
            if not self._planning.done():
                return
            self._rates, self._planning = self._planning.result(), None
            self._line = _NOBODY
        wait = max(30.0, len(self._ledger) / 2000)
        grown = len(self._ledger) > 1.1 * len(self._rates)
        if not len(self._ledger) or (now < self._planned_at + wait and not grown):
            return
        self._planned_at = now
        plan = self._pays(now) if self._since is not None else self._paces()
        if self._pool is not None:
            self._planning = self._pool.submit(plan)
        else:
            self._rates, self._line = plan(), _NOBODY

    def _paces(self) -> Callable[[], Reals]:
        """The question to the policy; it holds copies, so that it can be answered in a thread."""
        ledger, policy, host_rate = self._ledger, self._policy, self._host_rate
        flags = ledger.column("flags")
        count, absent = len(flags), flags & Flag.ABSENT != 0
        odd = is_odd(flags) & ~absent
        planned = np.flatnonzero(~odd & ~absent)
        belief, state = ledger.take("belief", planned), ledger.take("state", planned)
        hosts = ledger.take("host", planned).astype(np.int64)
        budget = self._budget
        if budget is None:
            budget = host_rate * ledger.hosts if host_rate else float(count)
        weight = weights(ledger)[planned] if self._signals is not None else None
        retrying = min(1 / self._retry, _SHARE * budget / max(1, int(np.count_nonzero(odd))))

        def plan() -> Reals:
            rates = np.where(odd, retrying, 0.0)
            if len(planned):
                left = budget - float(rates.sum())
                rates[planned] = policy.plan(
                    state, belief, left, weight=weight, host=hosts, host_limit=host_rate
                )
            return rates

        return plan

    def _pays(self, now: float) -> Callable[[], Reals]:
        """In `once`: how likely each page has changed since the last look; what is no page comes last."""
        ledger = self._ledger
        belief = np.array(ledger.column("belief"))
        since = np.maximum(now - ledger.column("looked"), 0.0)
        odd = is_odd(ledger.column("flags"))
        # Where nothing was learned yet, the oldest copy is the one that has most likely changed.
        return lambda: np.where(odd, 0.0, 2.0 - change.current(belief, since)) + 1e-12 * since

    # -- choosing

    def _wanted(self) -> NDArray[np.bool_]:
        """In `once`: which pages have not been polled."""
        assert self._since is not None
        wanted: NDArray[np.bool_] = self._ledger.column("tried") < self._since
        wanted &= self._ledger.column("flags") & Flag.ABSENT == 0
        return wanted

    def _look_through(self, now: float) -> _Line:
        """The pages that come due before it is time to look again, in the order in which they are asked."""
        ledger, rates = self._ledger, self.rates()
        flags, hosts = ledger.column("flags"), ledger.column("host")
        until = now + max(1.0, len(rates) * 1e-5)
        free = flags & (Flag.ASKED | Flag.ABSENT) == 0
        free &= (ledger.asked_by_host < self._most_open)[hosts]
        if self._since is not None:
            rows = np.flatnonzero(free & self._wanted())
            late, due = rates[rows], np.full(len(rows), now)
        else:
            rows = np.flatnonzero(free & (rates > 0))
            wait = self._waits(rows, rates[rows])
            passed = now - ledger.take("tried", rows)
            soon = passed + (until - now) >= wait
            rows, wait, passed = rows[soon], wait[soon], passed[soon]
            late, due = passed / wait, now + np.maximum(wait - passed, 0.0)
        cut = len(rows) > _LINE
        if cut:
            chosen = np.argpartition(-late, _LINE)[:_LINE]
            rows, late, due = rows[chosen], late[chosen], due[chosen]
        order = np.lexsort((-late, due))
        rows = rows[order]
        return _Line(rows, ledger.take("host", rows), due[order], until, cut=cut)

    def _waits(self, rows: Rows, rates: Reals) -> Reals:
        """Seconds between the last try of each page and its next poll."""
        ledger, wait = self._ledger, 1.0 / rates
        never = ledger.take("polls", rows) == 0
        # The keys are hashes: their top bits are as good as dice.
        part = (ledger.take("key", rows) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        wait = np.where(never, np.maximum(part, 1e-6) * wait, wait)
        hinted = np.flatnonzero(ledger.take("flags", rows) & Flag.HINTED)
        if len(hinted):
            wait[hinted] *= 1.0 - ledger.trust()[ledger.take("host", rows[hinted])]
        return wait


class _Line:
    """Pages in the order in which they come due, for some seconds; `cut`: there are more of them."""

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


_NOBODY = _Line(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), -math.inf, cut=False)
