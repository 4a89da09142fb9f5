"""Scheduler of polls: each page at the even rate its plan gives, all within the budget.

A policy plans a rate for every page. A page is due when one interval (1 / rate) has passed since it was
last tried. A page that was never polled is due after a fraction of the interval, different for each page,
so that a site crawled in one burst is not polled in one burst. Among the pages that are due, the page
overdue by the most intervals comes first. The polls in flight per host are limited: a slow host cannot
hold the whole budget.

No page is kept in a heap or a sorted list. From time to time one scan over all pages finds those that come
due before the next scan (`line`); in between a call costs nothing.
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
from fieldmouse.refresh.line import NOBODY, Candidates, Line, blocks_of, waits
from fieldmouse.refresh.looks import Flag
from fieldmouse.refresh.polling import Polls, ReadHeaders
from fieldmouse.refresh.signals import ReadAnswer, SignalReader, weights

Reals = NDArray[np.float64]
Mask = NDArray[np.bool_]

RETRY = 7 * 86_400.0
_PATIENT = 15.0  # seconds of a host's polls that may be in flight
_FEWEST = 8  # polls of a host that may be in flight, however slow it is
_SHARE = 0.1  # largest part of the budget for entries that are not pages
_ANOTHER = 0.05  # relative change of the budget that asks for a new plan
_REST = 60.0  # seconds between two scans at most: new pages may have come in between


class Scheduler:
    """Chooser of the next polls. Times are epoch seconds, rates are polls per second.

    budget: None means that only politeness limits polls: `host_rate` polls per second for each host.
    once_since: poll each page last tried before this time, once, and no other; holds even if the clock
    goes back.
    last_round: pages last tried before this time were postponed by the round that began then; they come
    first.
    retry: seconds between two polls of a page that is gone, moved, failed or refused.
    read_answer: reads polled sitemaps and feeds from the archive; None: they are not read.
    pool: runs planning in the background; None: planning blocks the caller.
    """

    def __init__(
        self, ledger: Ledger, policy: PollingPolicy, budget: float | None = None, *,
        host_rate: float | None = None, host_open: int | None = None, once_since: float | None = None,
        last_round: float = 0.0, retry: float = RETRY, read_headers: ReadHeaders | None = None,
        read_answer: ReadAnswer | None = None, pool: Executor | None = None,
    ):  # fmt: skip
        self._ledger, self._policy, self._budget = ledger, policy, budget
        self._last_round = last_round
        self._host_rate, self._since, self._retry, self._pool = host_rate, once_since, retry, pool
        self._most_open = host_open or max(_FEWEST, math.ceil(_PATIENT * (host_rate or 0.0)))
        self._bucket = Bucket(budget, ledger.purse)
        self._polls = Polls(ledger, read_headers) if read_headers else Polls(ledger)
        self._signals = SignalReader(ledger, read_answer, pool) if read_answer else None
        self._rates: Reals = np.empty(0)  # in a round: the priority of each page
        self._planned_at, self._planned_from, self._planned_for = -math.inf, -1, budget
        self._planning: Future[Reals] | None = None
        self._line = NOBODY
        self._left, self._counted_at = 0, -1
        self._met: Reals = np.empty(0)  # in a round: last try of each page when the scheduler first saw it
        ledger.note_budget(budget)
        ledger.note_purse(self._bucket.purse)

    def afford(self, budget: float, now: float) -> None:
        """Change the budget, for a crawl that shares a budget with others."""
        if self._budget is None or budget == self._budget:
            return
        self._bucket.set_rate(budget, now)
        self._budget = budget
        self._ledger.note_budget(budget)
        if self._planned_for is None or abs(budget - self._planned_for) > _ANOTHER * self._planned_for:
            self._planned_from = -1  # forces a new plan even if nothing was learned

    def due(self, now: float, room: int) -> list[Link]:
        """Return at most `room` requests to poll now, most valuable first; the table marks them as asked."""
        self._plan(now)
        if self._signals is not None and self._signals.look():
            self._line = NOBODY
        most = int(min(room, self._bucket.whole(now)))
        links: list[Link] = []
        while len(links) < most:
            if now >= self._line.until or self._line.passed:
                self._line = self._look_through(now)
            rows = self._line.take(now, most - len(links), self._ledger.asked_by_host, self._most_open)
            links += self.ask(rows)
            if not self._line.passed:
                break
        self._ledger.note_purse(self._bucket.purse)
        return links

    def ask(self, rows: Rows) -> list[Link]:
        """Return requests for these pages, due or not; the bucket goes into debt for them."""
        links = self._polls.links(rows)
        self._ledger.ask(rows)
        self._bucket.spend(len(links))
        self._ledger.note_purse(self._bucket.purse)
        return links

    def next_at(self, now: float) -> float | None:
        """Time of the next useful call; None if no page will come due with the present table."""
        if self._planning is not None:
            return now + 0.1
        if not len(self._ledger) or (self._since is not None and not self.left):
            return None
        return max(self._line.next_at(), self._bucket.next_at(now))

    @property
    def left(self) -> int:
        """In a round: number of pages still to be polled, including those in flight."""
        if self._since is not None and self._counted_at != self._ledger.cursor:
            present = self._ledger.column("flags") & Flag.ABSENT == 0
            self._left = int(np.count_nonzero(self._untried(np.arange(len(present))) & present))
            self._counted_at = self._ledger.cursor
        return self._left

    def can_ask(self) -> bool:
        """In a round: whether a page still waits for its poll at a host that may take another poll."""
        if self._planning is not None:
            return True
        open_hosts = self._ledger.asked_by_host < self._most_open
        rows = (block.rows[block.free(open_hosts)] for block in blocks_of(self._ledger))
        return any(self._untried(some).any() for some in rows)

    def _untried(self, rows: Rows) -> Mask:
        """In a round: mask of the pages not yet tried in this round.

        A page tried in this run counts as tried whatever the clock said: with a clock set back, all pages
        would seem to have been tried before the round began, and the round would never end.
        """
        if len(self._ledger) > len(self._met):
            self._met = np.concatenate([self._met, self._ledger.column("tried")[len(self._met) :]])
        tried = self._ledger.take("tried", rows)
        untried: Mask = (tried < self._since) & (tried == self._met[rows])
        return untried

    def rates(self) -> Reals:
        """Polls per second of each page by the newest plan; pages added since get the mean."""
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
            self._line = NOBODY
        wait = max(30.0, len(self._ledger) / 2000)
        grown = len(self._ledger) > 1.1 * len(self._rates)
        if not len(self._ledger) or (now < self._planned_at + wait and not grown):
            return
        if self._since is None and self._planned_from == self._ledger.cursor:
            return  # nothing was learned since: the plan would be the same
        self._planned_at, self._planned_from, self._planned_for = now, self._ledger.cursor, self._budget
        plan = self._pays(now) if self._since is not None else self._paces()
        if self._pool is not None:
            self._planning = self._pool.submit(plan)
        else:
            self._rates, self._line = plan(), NOBODY

    def _paces(self) -> Callable[[], Reals]:
        """Planning job for the policy; it holds copies so that it can run in a thread."""
        ledger, policy, host_rate = self._ledger, self._policy, self._host_rate
        flags = ledger.column("flags")
        count, absent = len(flags), flags & Flag.ABSENT != 0
        odd = is_odd(flags) & ~absent
        planned = np.flatnonzero(~odd & ~absent)
        belief, state = ledger.beliefs(planned), ledger.take("state", planned)
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
        """In a round: probability that each page has changed since the last poll; entries that are not pages
        come last.

        Pages that the last round postponed come first.
        """
        ledger = self._ledger
        belief = ledger.beliefs(np.arange(len(ledger)))
        since = np.maximum(now - ledger.column("looked"), 0.0)
        odd = is_odd(ledger.column("flags"))
        postponed = ledger.column("tried") < self._last_round
        # Where nothing was learned yet, the oldest copy is the most likely to have changed.
        return lambda: (
            np.where(odd, 0.0, 2.0 - change.current(belief, since)) + 1e-12 * since + 4.0 * postponed
        )

    # -- choosing

    def _look_through(self, now: float) -> Line:
        """Queue of the pages that come due before the next scan, in the order in which they are asked."""
        ledger, rates = self._ledger, self.rates()
        open_hosts, trust = ledger.asked_by_host < self._most_open, ledger.trust()
        until = now + max(1.0, len(rates) * 1e-5)
        # A host with enough polls in flight may answer at any moment, without notification.
        rest = now + _REST if open_hosts.all() else until
        found = Candidates()
        for block in blocks_of(ledger):
            rows = block.rows[block.free(open_hosts)]
            if self._since is not None:
                rows = rows[self._untried(rows)]
                found.add(rows, rates[rows], np.full(len(rows), now))
            else:
                rows = rows[rates[rows] > 0]
                wait, passed = waits(ledger, rows, rates[rows], trust), now - ledger.take("tried", rows)
                soon = np.flatnonzero(wait - passed <= max(until, rest) - now)
                wait, passed = wait[soon], passed[soon]
                found.add(rows[soon], passed / wait, now + np.maximum(wait - passed, 0.0))
        return found.line(ledger, until, rest)
