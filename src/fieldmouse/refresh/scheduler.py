"""Scheduler of polls: each page at the even rate its plan gives, all within the budget.

A policy plans a rate for every page. A page is due when one interval (1 / rate) has passed since it was
last tried. A page that was never polled is due after a fraction of the interval, different for each page,
so that a site crawled in one burst is not polled in one burst. Among the pages that are due, the page
overdue by the most intervals comes first. The polls in flight per host are limited: a slow host cannot
hold the whole budget.

No page is kept in a heap or a sorted list. From time to time one scan over all pages, a block at a time,
finds those that come due before the next scan and puts at most `QUEUE_LIMIT` of them into a queue; in
between a call costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future

import numpy as np
from numpy.typing import NDArray

from fieldmouse.policy import change_rate
from fieldmouse.policy.polling.interface import PollingPolicy
from fieldmouse.refresh.apply_outcomes import PageFlag, is_unplanned
from fieldmouse.refresh.column_table import Rows
from fieldmouse.refresh.page_table import PageTable
from fieldmouse.refresh.poll_request_builder import PollRequestBuilder, ReadResponse
from fieldmouse.refresh.sitemap_hints import SitemapHintReader, freshness_weights
from fieldmouse.refresh.token_bucket import TokenBucket
from fieldmouse.types.request import Request
from fieldmouse.url import Host

Reals = NDArray[np.float64]
Marks = NDArray[np.bool_]

QUEUE_LIMIT = 4096
_BLOCK = 1 << 16
_BUSY = PageFlag.IN_FLIGHT | PageFlag.ABSENT


def pollable_pages(table: PageTable, open_hosts: Marks) -> Iterator[Rows]:
    """Pages that may be polled, a block at a time, given a mask of the hosts that may be polled."""
    for start in range(0, len(table), _BLOCK):
        rows = np.arange(start, min(start + _BLOCK, len(table)))
        yield rows[(table.read_cells("flags", rows) & _BUSY == 0) & open_hosts[table.read_cells("host", rows)]]


def poll_intervals(table: PageTable, rows: Rows, rates: Reals, trust: Reals) -> Reals:
    """Seconds between the last try of each page and its next poll; `trust` is the weight of hints by host."""
    wait = 1.0 / rates
    never = table.read_cells("polls", rows) == 0
    # The keys are hashes: their top bits serve as random numbers.
    part = (table.read_cells("key", rows) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    wait = np.where(never, np.maximum(part, 1e-6) * wait, wait)
    hinted = np.flatnonzero(table.read_cells("flags", rows) & PageFlag.HINTED)
    wait[hinted] *= 1.0 - trust[table.read_cells("host", rows[hinted])]
    return wait


class DueQueue:
    """Pages in the order in which they come due, valid until the time `until`.

    `cut` means that more pages are due than the queue holds.
    """

    def __init__(self, rows: Rows, hosts: Rows, due: Reals, until: float, *, cut: bool):
        self._pages = list(zip(rows.tolist(), hosts.tolist(), due.tolist(), strict=True))
        self._next, self.until, self._cut = 0, until, cut

    @property
    def needs_rescan(self) -> bool:
        """Whether all queued pages were taken and more are due."""
        return self._cut and self._next >= len(self._pages)

    def next_due_at(self) -> float:
        return self.until if self._next >= len(self._pages) else min(self.until, self._pages[self._next][2])

    def take_due_pages(self, now: float, most: int, asked: NDArray[np.int64], most_open: int) -> Rows:
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


EMPTY_QUEUE = DueQueue(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), -math.inf, cut=False)


class DueCandidates:
    """Collector of the most overdue pages of a scan."""

    def __init__(self) -> None:
        self._rows, self._late, self._due = np.empty(0, np.int64), np.empty(0), np.empty(0)
        self._cut = False

    def add(self, rows: Rows, late: Reals, due: Reals) -> None:
        """Add pages; `late` counts the intervals since each page's last try, `due` is when it is due."""
        self._rows = np.concatenate([self._rows, rows])
        self._late, self._due = np.concatenate([self._late, late]), np.concatenate([self._due, due])
        if len(self._rows) > QUEUE_LIMIT:
            self._keep_only(np.argpartition(-self._late, QUEUE_LIMIT)[:QUEUE_LIMIT])
            self._cut = True

    def _keep_only(self, chosen: NDArray[np.intp]) -> None:
        self._rows, self._late, self._due = self._rows[chosen], self._late[chosen], self._due[chosen]

    def build_queue(self, table: PageTable, until: float, rest: float) -> DueQueue:
        """Queue of the pages due before `until`.

        If there are none, the queue lasts until the first page is due, at most until `rest`.
        """
        first = float(self._due.min(initial=math.inf))
        until = until if first <= until else min(first, max(until, rest))
        self._keep_only(np.flatnonzero(self._due <= until))
        self._keep_only(np.lexsort((-self._late, self._due)))
        return DueQueue(self._rows, table.read_cells("host", self._rows), self._due, until, cut=self._cut)


RETRY_INTERVAL = 7 * 86_400.0
_PATIENT = 15.0  # seconds of a host's polls that may be in flight
_FEWEST = 8  # polls of a host that may be in flight, however slow it is
_SHARE = 0.1  # largest part of the budget for entries that are not pages
_ANOTHER = 0.05  # relative change of the budget that asks for a new plan
_REST = 60.0  # seconds between two scans at most: new pages may have come in between


class PollScheduler:
    """Chooser of the next polls. Times are epoch seconds, rates are polls per second.

    budget: None means that only politeness limits polls: `host_rate` polls per second for each host.
    once_since: poll each page last tried before this time, once, and no other; holds even if the clock
    goes back.
    last_round: pages last tried before this time were postponed by the round that began then; they come
    first.
    retry: seconds between two polls of a page that is gone, moved, failed or refused.
    read_answer: reads a stored response from the archive: polled sitemaps and feeds, and validators of pages
    stored before rows kept them; None: these are not read.
    addresses: addresses of the hosts; hosts at one address share `host_rate`. By default each host has its own.
    pool: runs planning in the background; None: planning blocks the caller.
    """

    def __init__(
        self,
        table: PageTable,
        policy: PollingPolicy,
        budget: float | None = None,
        *,
        host_rate: float | None = None,
        host_open: int | None = None,
        once_since: float | None = None,
        last_round: float = 0.0,
        retry: float = RETRY_INTERVAL,
        read_answer: ReadResponse | None = None,
        addresses: Callable[[], Iterable[tuple[Host, str]]] = tuple,
        pool: Executor | None = None,
    ):
        self._table, self._policy, self._budget = table, policy, budget
        self._last_round = last_round
        self._host_rate, self._since, self._retry, self._pool = host_rate, once_since, retry, pool
        self._addresses = addresses
        self._most_open = host_open or max(_FEWEST, math.ceil(_PATIENT * (host_rate or 0.0)))
        self._bucket = TokenBucket(budget, table.bucket_state)
        self._polls = PollRequestBuilder(table, read_answer)
        self._signals = SitemapHintReader(table, read_answer, pool) if read_answer else None
        self._rates: Reals = np.empty(0)  # in a round: the priority of each page
        self._planned_at, self._planned_from, self._planned_for = -math.inf, -1, budget
        self._planning: Future[Reals] | None = None
        self._line = EMPTY_QUEUE
        self._left, self._counted_at = 0, -1
        self._met: Reals = np.empty(0)  # in a round: last try of each page when the scheduler first saw it
        table.store_budget_and_bucket(budget, self._bucket.state)

    def set_budget(self, budget: float, now: float) -> None:
        """Change the budget, for a crawl that shares a budget with others."""
        if self._budget is None or budget == self._budget:
            return
        self._bucket.set_rate(budget, now)
        self._budget = budget
        self._table.store_budget_and_bucket(budget, self._bucket.state)
        if self._planned_for is None or abs(budget - self._planned_for) > _ANOTHER * self._planned_for:
            self._planned_from = -1  # forces a new plan even if nothing was learned

    def take_due(self, now: float, room: int) -> list[Request]:
        """Return at most `room` requests to poll now, most valuable first; the table marks them as asked."""
        self._update_plan(now)
        if self._signals is not None and self._signals.apply_and_read_next():
            self._line = EMPTY_QUEUE
        most = int(min(room, self._bucket.available(now)))
        links: list[Request] = []
        while len(links) < most:
            if now >= self._line.until or self._line.needs_rescan:
                self._line = self._scan_for_due_pages(now)
            rows = self._line.take_due_pages(now, most - len(links), self._table.in_flight_by_host, self._most_open)
            links += self.take_requests_for(rows)
            if not self._line.needs_rescan:
                break
        self._table.store_budget_and_bucket(self._budget, self._bucket.state)
        return links

    def take_requests_for(self, rows: Rows) -> list[Request]:
        """Return requests for these pages, due or not; the bucket goes into debt for them."""
        links = self._polls.build_requests(rows)
        self._table.mark_in_flight(rows)
        self._bucket.spend(len(links))
        self._table.store_budget_and_bucket(self._budget, self._bucket.state)
        return links

    def next_poll_at(self, now: float) -> float | None:
        """Time of the next useful call; None if no page will come due with the present table."""
        if self._planning is not None:
            return now + 0.1
        if not len(self._table) or (self._since is not None and not self.remaining_pages):
            return None
        return max(self._line.next_due_at(), self._bucket.next_token_at(now))

    @property
    def remaining_pages(self) -> int:
        """In a round: number of pages still to be polled, including those in flight."""
        if self._since is not None and self._counted_at != self._table.cursor:
            present = self._table.column("flags") & PageFlag.ABSENT == 0
            self._left = int(np.count_nonzero(self._untried_in_round(np.arange(len(present))) & present))
            self._counted_at = self._table.cursor
        return self._left

    def has_pollable_page(self) -> bool:
        """In a round: whether a page still waits for its poll at a host that may take another poll."""
        if self._planning is not None:
            return True
        open_hosts = self._table.in_flight_by_host < self._most_open
        return any(self._untried_in_round(rows).any() for rows in pollable_pages(self._table, open_hosts))

    def _untried_in_round(self, rows: Rows) -> Marks:
        """In a round: mask of the pages not yet tried in this round.

        A page tried in this run counts as tried whatever the clock said: with a clock set back, all pages
        would seem to have been tried before the round began, and the round would never end.
        """
        if len(self._table) > len(self._met):
            self._met = np.concatenate([self._met, self._table.column("tried")[len(self._met) :]])
        tried = self._table.read_cells("tried", rows)
        untried: Marks = (tried < self._since) & (tried == self._met[rows])
        return untried

    def planned_rates(self) -> Reals:
        """Polls per second of each page by the newest plan; pages added since get the mean."""
        missing = len(self._table) - len(self._rates)
        if missing > 0:
            mean = float(self._rates.mean()) if len(self._rates) else 0.0
            self._rates = np.concatenate([self._rates, np.full(missing, mean)])
        return self._rates

    # -- planning

    def _update_plan(self, now: float) -> None:
        if self._planning is not None:
            if not self._planning.done():
                return
            self._rates, self._planning = self._planning.result(), None
            self._line = EMPTY_QUEUE
        wait = max(30.0, len(self._table) / 2000)
        grown = len(self._table) > 1.1 * len(self._rates)
        if not len(self._table) or (now < self._planned_at + wait and not grown):
            return
        if self._since is None and self._planned_from == self._table.cursor:
            return  # nothing was learned since: the plan would be the same
        self._planned_at, self._planned_from, self._planned_for = now, self._table.cursor, self._budget
        plan = self._round_priority_job(now) if self._since is not None else self._rate_planning_job()
        if self._pool is not None:
            self._planning = self._pool.submit(plan)
        else:
            self._rates, self._line = plan(), EMPTY_QUEUE

    def _rate_planning_job(self) -> Callable[[], Reals]:
        """Planning job for the policy; it holds copies so that it can run in a thread."""
        table, policy, host_rate = self._table, self._policy, self._host_rate
        flags = table.column("flags")
        count, absent = len(flags), flags & PageFlag.ABSENT != 0
        odd = is_unplanned(flags) & ~absent
        planned = np.flatnonzero(~odd & ~absent)
        belief, state = table.change_rate_beliefs(planned), table.read_cells("state", planned)
        groups = table.group_hosts(self._addresses())
        hosts = groups[table.read_cells("host", planned)]
        budget = self._budget
        if budget is None:
            budget = host_rate * len(np.unique(groups)) if host_rate else float(count)
        weight = freshness_weights(table)[planned] if self._signals is not None else None
        retrying = min(1 / self._retry, _SHARE * budget / max(1, int(np.count_nonzero(odd))))

        def plan() -> Reals:
            rates = np.where(odd, retrying, 0.0)
            if len(planned):
                left = budget - float(rates.sum())
                rates[planned] = policy.plan(state, belief, left, weight=weight, host=hosts, host_limit=host_rate)
            return rates

        return plan

    def _round_priority_job(self, now: float) -> Callable[[], Reals]:
        """In a round: probability that each page has changed since the last poll; entries that are not pages
        come last.

        Pages that the last round postponed come first.
        """
        table = self._table
        belief = table.change_rate_beliefs(np.arange(len(table)))
        since = np.maximum(now - table.column("looked"), 0.0)
        odd = is_unplanned(table.column("flags"))
        postponed = table.column("tried") < self._last_round
        # Where nothing was learned yet, the oldest copy is the most likely to have changed.
        return lambda: (
            np.where(odd, 0.0, 2.0 - change_rate.probability_current(belief, since)) + 1e-12 * since + 4.0 * postponed
        )

    # -- choosing

    def _scan_for_due_pages(self, now: float) -> DueQueue:
        """Queue of the pages that come due before the next scan, in the order in which they are asked."""
        table, rates = self._table, self.planned_rates()
        open_hosts, trust = table.in_flight_by_host < self._most_open, table.hint_trust_by_host()
        until = now + max(1.0, len(rates) * 1e-5)
        # A host with enough polls in flight may answer at any moment, without notification.
        rest = now + _REST if open_hosts.all() else until
        found = DueCandidates()
        for rows in pollable_pages(table, open_hosts):
            if self._since is not None:
                rows = rows[self._untried_in_round(rows)]
                found.add(rows, rates[rows], np.full(len(rows), now))
            else:
                rows = rows[rates[rows] > 0]
                wait, passed = poll_intervals(table, rows, rates[rows], trust), now - table.read_cells("tried", rows)
                soon = np.flatnonzero(wait - passed <= max(until, rest) - now)
                wait, passed = wait[soon], passed[soon]
                found.add(rows[soon], passed / wait, now + np.maximum(wait - passed, 0.0))
        return found.build_queue(table, until, rest)
