"""Bounded page buffer between the fetch workers and the indexer, and the stage that moves pages through it.

Pages wait in lanes, one per indexer shard, so that a slow shard does not block the others while there is
room. When the buffer is full, fetch workers wait, or the page is dropped and fetched again, as in the
queueing model. A page that waits past its deadline is dropped before it is served. Every change of the
level passes here, so that the trace records it and the concurrency rule sees the same number as the
model: pages in the buffer plus pages in service.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, field
from enum import Enum
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

import msgspec

from fieldmouse.aio import WakeUp
from fieldmouse.backpressure import Backpressure
from fieldmouse.clock import Clock
from fieldmouse.control.page_trace import PageTrace
from fieldmouse.crawler.growing_scope import CrawlScope
from fieldmouse.crawler.in_flight import InFlightTable
from fieldmouse.crawler.stop_conditions import FailureLatch, StopRequest
from fieldmouse.fetch.worker import ActiveWorkers
from fieldmouse.frontier.protocol import CrawlFrontier
from fieldmouse.policy.thresholds import PageLifetime
from fieldmouse.storage.checkpoint import DurableLog
from fieldmouse.types.outcome import Failed, IndexResult, Moved, Outcome, Page, Refused, Response, Unchanged
from fieldmouse.types.reason import OutcomeKind, OutcomeReason
from fieldmouse.types.request import EnteredBy, QueuedRequest, Request, RequestKind
from fieldmouse.url import Host, Url, host_of, resolve
from fieldmouse.workers.pool import WorkerPool

T = TypeVar("T")

_SWEEP_AT = 64


class FullBufferPolicy(Enum):
    WAIT = "wait"
    DROP = "lose"


class _Entry(Generic[T]):
    """Entry of one page in a lane; `gone` once it was taken or expired."""

    __slots__ = ("gone", "item", "size")

    def __init__(self, item: T, size: int):
        self.item, self.size, self.gone = item, size, False

    def release_page(self) -> T:
        """Take the page out, so that a deadline or lane that still refers to the entry keeps no page in
        memory."""
        item, self.gone = self.item, True
        del self.item
        return item


class PageBuffer(Generic[T]):
    """A FIFO per lane, bounded in pages and bytes over all lanes together.

    Its level is recorded in `meter`. With `serving_counts`, pages that have left the lanes for the indexer
    still count against the bound: the buffer of the model includes the page in service.
    """

    def __init__(
        self,
        *,
        lanes: int,
        pages: int,
        size: int,
        when_full: FullBufferPolicy = FullBufferPolicy.WAIT,
        meter: Backpressure | None = None,
        serving_counts: bool = False,
    ):
        self.waiting = 0
        self.byte_size = 0
        self.max_pages, self._size = pages, size
        self.when_full = when_full
        self._lanes: list[deque[_Entry[T]]] = [deque() for _ in range(lanes)]
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._deadlines: list[tuple[float, int, _Entry[T]]] = []
        self._sequence = 0
        self._expired_entries = 0  # expired entries that are still in the lanes
        self._meter, self._serving_counts = meter or Backpressure(), serving_counts

    @property
    def is_full(self) -> bool:
        # One page is always admitted: a page larger than the whole buffer must get through, too.
        level = self._meter.level if self._serving_counts else self.waiting
        return level > 0 and (level >= self.max_pages or (self.waiting > 0 and self.byte_size >= self._size))

    async def put(self, lane: int, item: T, size: int, *, expires_at: float = math.inf, patient: bool = False) -> bool:
        """Add a page; False means that the buffer was full and the caller keeps the page.

        A `patient` caller waits for room, whatever `when_full` says.
        """
        while self.is_full:
            if self.when_full is FullBufferPolicy.DROP and not patient:
                return False
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                self.wake_next_waiter()  # pass the turn of the cancelled caller on to the next one
                raise
        entry = _Entry(item, size)
        self._lanes[lane].append(entry)
        if expires_at < math.inf:
            self._sequence += 1
            heappush(self._deadlines, (expires_at, self._sequence, entry))
        self.waiting += 1
        self.byte_size += size
        self._meter.set_buffered(self.waiting)
        return True

    def take_oldest(self, lane: int) -> T | None:
        """Remove and return the oldest page of a lane; None if it is empty."""
        queue = self._lanes[lane]
        while queue:
            entry = queue.popleft()
            if not entry.gone:
                return self._remove_entry(entry)
            self._expired_entries -= 1
        return None

    def take_expired(self, now: float) -> list[T]:
        """Remove and return the pages past their deadline, the longest overdue first."""
        due, expired = self._deadlines, []
        while due and due[0][0] <= now:
            _, _, entry = heappop(due)
            if not entry.gone:
                expired.append(self._remove_entry(entry))
        self._expired_entries += len(expired)
        if self._expired_entries > max(_SWEEP_AT, self.waiting):
            # Expired entries pile up behind a page that neither expires nor is taken.
            self._lanes = [deque(entry for entry in queue if not entry.gone) for queue in self._lanes]
            self._expired_entries = 0
        return expired

    def _remove_entry(self, entry: _Entry[T]) -> T:
        item = entry.release_page()
        self.waiting -= 1
        self.byte_size -= entry.size
        self._meter.set_buffered(self.waiting)
        if len(self._deadlines) > max(_SWEEP_AT, 2 * self.waiting):
            # Most pages are served in time; remove their deadlines before they pile up.
            self._deadlines = [due for due in self._deadlines if not due[2].gone]
            heapify(self._deadlines)
        self.wake_next_waiter()
        return item

    def wake_next_waiter(self) -> None:
        """Wake the next caller that waits for room, if there is room."""
        while self._waiters and not self.is_full:
            turn = self._waiters.popleft()
            if not turn.done():
                turn.set_result(None)
                return


log = logging.getLogger(__name__)

#: Number of drops after which a page has cost its server enough: then it waits for room and never expires.
MAX_DROPS = 16


_PERMANENT_REDIRECTS = frozenset((301, 308))


@dataclass(eq=False, slots=True, kw_only=True)
class IndexingStage:
    """Path of fetched pages: through the buffer to the indexer, and its results into the frontier.

    Fetch workers report to it, see `ResultReceiver`; it wakes the fetch pool after every change.
    """

    open_indexer: InitVar[Callable[..., WorkerPool]]  # `WorkerPool` that lacks only its callbacks
    indexer: WorkerPool = field(init=False)
    buffer: PageBuffer[tuple[int, Outcome]]
    trace: PageTrace
    obsolescence: PageLifetime
    in_flight: InFlightTable
    frontier: CrawlFrontier
    outcomes: DurableLog
    scope: CrawlScope
    failure: FailureLatch
    stop: StopRequest
    active_workers: ActiveWorkers
    wake_up: WakeUp
    clock: Clock
    follow_sitemaps: bool  # whether sitemaps named by a robots.txt are queued
    is_target_stored: Callable[[Request, Url], bool] | None  # whether a page redirects to a stored one; None: no polls
    warned: bool = field(default=False, init=False)

    def __post_init__(self, open_indexer: Callable[..., WorkerPool]) -> None:
        self.indexer = open_indexer(on_parsed=self._handle_parsed, on_undone=self._requeue_undone)

    # -- results of fetch workers

    def try_start_fetch(self, ticket: QueuedRequest) -> bool:
        return (
            not self.stop.is_requested and self.active_workers.may_continue() and self.in_flight.try_start_fetch(ticket)
        )

    async def deliver(self, ticket: QueuedRequest, outcome: Outcome) -> None:
        number = ticket.number
        # Only the indexer can remove the stored copy of a polled page from search.
        removes_copy = False
        if ticket.origin is EnteredBy.POLLED:
            outcome = self._as_poll_outcome(outcome)
            removes_copy = isinstance(outcome, Failed) and outcome.reason is OutcomeReason.ROBOTS_TXT_EXCLUDED
        if isinstance(outcome, Refused) or (isinstance(outcome, Failed) and not outcome.response and not removes_copy):
            self.in_flight.record_outcome(number, outcome)
            return
        self.in_flight.mark_delivered(number, ticket.link)
        if not await self._put_in_buffer(number, outcome):
            self._requeue_dropped(number)

    def _as_poll_outcome(self, outcome: Outcome) -> Outcome:
        """The outcome as it affects the stored copy."""
        link = outcome.link
        match outcome:
            case Refused(reason=OutcomeReason.ROBOTS_TXT_EXCLUDED) if link.was == OutcomeKind.PAGE:
                return Failed(link, outcome.reason, outcome.at, outcome.detail)
            case Moved() if outcome.response.status in _PERMANENT_REDIRECTS and link.was != OutcomeKind.MOVED:
                if self.is_target_stored is not None and self.is_target_stored(link, outcome.target):
                    return msgspec.structs.replace(outcome, for_good=True)
        return outcome

    async def archive_robots_txt(self, link: Request, response: Response) -> None:
        await self._put_in_buffer(0, Page(link, response))

    async def _put_in_buffer(self, number: int, outcome: Page | Unchanged | Moved | Failed) -> bool:
        """Put a response into the buffer; False if there was no room.

        Responses without a ticket cannot be fetched again, and those dropped often enough should not be:
        they wait for room and do not expire.
        """
        self._drop_expired()
        lane = self.indexer.shard_of(host_of(outcome.link.url))
        patient = not number or self._reached_max_drops(outcome.link)
        stored = await self.buffer.put(
            lane,
            (number, outcome),
            (len(outcome.response.body) if outcome.response is not None else 0) + 1024,
            expires_at=math.inf if patient else self.obsolescence.expires_at(self.clock.now()),
            patient=patient,
        )
        self.trace.page_arrived(number, self.clock.now(), dropped=not stored)
        # No page expires before this: a page that finds its shard idle is served, however short its lifetime.
        self._send_to_shards()
        return stored

    def _reached_max_drops(self, link: Request) -> bool:
        if link.drops < MAX_DROPS:
            return False
        if not self.warned:
            self.warned = True
            log.warning(
                "%s was fetched and dropped %d times; such pages now wait for the indexer"
                " (`buffer.pages`, `buffer.obsolete_after` or the rule leave too little room)",
                link.url,
                link.drops,
            )
        return True

    def requeue_failed(self, ticket: QueuedRequest, link: Request) -> None:
        """Queue `link` instead of a ticket whose request failed."""
        self.in_flight.forget_request(ticket.number)
        with self.failure:
            self.frontier.retry_ticket(ticket.number, link)

    def _requeue_dropped(self, number: int) -> None:
        """Queue a page again that found no room or waited too long: the fetch was wasted, but the URL is not
        lost."""
        link = self.in_flight.unmark_delivered(number)
        with self.failure:
            self.frontier.retry_ticket(number, link)

    def queue_sitemaps(self, host: Host, found: Sequence[str]) -> None:
        """Queue the sitemaps that a robots.txt names."""
        if not self.follow_sitemaps:
            return
        base, now = Url(host + "/robots.txt"), self.clock.now()
        urls = (resolve(text.strip(), base) for text in found)
        links = [Request(url, via=base, kind=RequestKind.SITEMAP, seen_at=now) for url in urls if url is not None]
        with self.failure:
            self.frontier.discover(self.scope.filter_links(links, depth=1))

    # -- from the buffer to the indexer

    def move_pages_on(self) -> None:
        """Drop pages that waited too long, and send others to the shards with room."""
        self.indexer.report_outstanding()
        if (news := self.scope.take_changes_for_workers()) is not None:
            self.indexer.add_to_scope(news.added, news.may_grow)
        if self.buffer.waiting:
            self._drop_expired()
        self._send_to_shards()

    def _send_to_shards(self) -> None:
        indexer, buffer = self.indexer, self.buffer
        if not buffer.waiting:
            buffer.wake_next_waiter()
            return
        now = self.clock.now()
        for shard in range(indexer.shards):
            while indexer.has_room(shard):
                waiting = buffer.take_oldest(shard)
                if waiting is None:
                    break
                self.trace.page_taken(waiting[0], now)
                indexer.send(*waiting)

    def _drop_expired(self) -> None:
        now = self.clock.now()
        for number, _ in self.buffer.take_expired(now):
            self.trace.page_expired(number, now)
            self._requeue_dropped(number)

    # -- results of the indexer

    def _handle_parsed(self, parsed: Sequence[IndexResult]) -> None:
        """Record parsed pages and queue their links."""
        self.indexer.report_outstanding()
        with self.failure:
            self.trace.pages_served([page.number for page in parsed])
            released: list[Request] = []
            for page in parsed:
                link = self.in_flight.awaiting_index.get(page.number)
                if link is not None:
                    released += self.scope.widen_by_result(link, page)
                if page.held:
                    released += self.scope.filter_links(page.held)
            if links := self.in_flight.record_parsed(parsed) + released:
                self.frontier.discover(links)
            self.move_pages_on()
        self.wake_up.fire()

    def _requeue_undone(self, numbers: Sequence[int]) -> None:
        """Queue the tickets of a dead worker process again."""
        self.indexer.report_outstanding()
        with self.failure:
            self.trace.pages_lost(numbers)
            again = self.in_flight.forget_parsed(numbers)
            for number, link in again:
                self.frontier.retry_ticket(number, link)
            if again and self.indexer.error is None:
                log.warning("an indexer worker died; %d pages are fetched again", len(again))
            self.move_pages_on()
        self.wake_up.fire()

    def apply_shared_scope(self) -> None:
        """Queue links that are in scope since other agents widened it."""
        if links := self.scope.apply_shared_additions():
            self.frontier.discover(links)

    def settle_durable(self, batches: Sequence[int], seconds: float) -> None:
        """Finish everything that is durable: shard i up to batch `batches[i]`, and all verdicts."""
        settled, rows = self.in_flight.settle_durable(batches)
        for row in rows:
            self.outcomes.append(row)
        self.scope.update_unsettled_seeds(rows)
        self.frontier.mark_done(settled)
        self.in_flight.tally.set_seconds(seconds)
