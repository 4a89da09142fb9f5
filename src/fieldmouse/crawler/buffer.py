"""Bounded page buffer between the fetch workers and the indexer.

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
from enum import Enum
from heapq import heapify, heappop, heappush
from typing import Generic, Protocol, TypeVar

from fieldmouse.aio import WakeUp
from fieldmouse.backpressure import Backpressure
from fieldmouse.control.page_trace import PageTrace
from fieldmouse.crawler.in_flight import Results
from fieldmouse.policy.thresholds import Obsolescence
from fieldmouse.types.outcome import IndexResult, Outcome, Refused
from fieldmouse.types.request import Request
from fieldmouse.url import host_of
from fieldmouse.workers.pool import WorkerPool

T = TypeVar("T")

_SWEEP_AT = 64


class WhenFull(Enum):
    WAIT = "wait"
    DROP = "lose"


class _Entry(Generic[T]):
    """Entry of one page in a lane; `gone` once it was taken or expired."""

    __slots__ = ("gone", "item", "size")

    def __init__(self, item: T, size: int):
        self.item, self.size, self.gone = item, size, False

    def take(self) -> T:
        """Take the page out, so that a deadline or lane that still refers to the entry keeps no page in
        memory."""
        item, self.gone = self.item, True
        del self.item
        return item


class Buffer(Generic[T]):
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
        when_full: WhenFull = WhenFull.WAIT,
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
    def full(self) -> bool:
        # One page is always admitted: a page larger than the whole buffer must get through, too.
        level = self._meter.level if self._serving_counts else self.waiting
        return level > 0 and (level >= self.max_pages or (self.waiting > 0 and self.byte_size >= self._size))

    async def put(self, lane: int, item: T, size: int, *, expires_at: float = math.inf, patient: bool = False) -> bool:
        """Add a page; False means that the buffer was full and the caller keeps the page.

        A `patient` caller waits for room, whatever `when_full` says.
        """
        while self.full:
            if self.when_full is WhenFull.DROP and not patient:
                return False
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                self.wake_next()  # pass the turn of the cancelled caller on to the next one
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

    def take(self, lane: int) -> T | None:
        """Remove and return the oldest page of a lane; None if it is empty."""
        queue = self._lanes[lane]
        while queue:
            entry = queue.popleft()
            if not entry.gone:
                return self._remove(entry)
            self._expired_entries -= 1
        return None

    def expire(self, now: float) -> list[T]:
        """Remove and return the pages past their deadline, the longest overdue first."""
        due, expired = self._deadlines, []
        while due and due[0][0] <= now:
            _, _, entry = heappop(due)
            if not entry.gone:
                expired.append(self._remove(entry))
        self._expired_entries += len(expired)
        if self._expired_entries > max(_SWEEP_AT, self.waiting):
            # Expired entries pile up behind a page that neither expires nor is taken.
            self._lanes = [deque(entry for entry in queue if not entry.gone) for queue in self._lanes]
            self._expired_entries = 0
        return expired

    def _remove(self, entry: _Entry[T]) -> T:
        item = entry.take()
        self.waiting -= 1
        self.byte_size -= entry.size
        self._meter.set_buffered(self.waiting)
        if len(self._deadlines) > max(_SWEEP_AT, 2 * self.waiting):
            # Most pages are served in time; remove their deadlines before they pile up.
            self._deadlines = [due for due in self._deadlines if not due[2].gone]
            heapify(self._deadlines)
        self.wake_next()
        return item

    def wake_next(self) -> None:
        """Wake the next caller that waits for room, if there is room."""
        while self._waiters and not self.full:
            turn = self._waiters.popleft()
            if not turn.done():
                turn.set_result(None)
                return


log = logging.getLogger(__name__)

#: Number of drops after which a page has cost its server enough: then it waits for room and never expires.
MAX_DROPS = 16


class IndexerFactory(Protocol):
    """Constructor of a `WorkerPool` that lacks only its callbacks."""

    def __call__(
        self, *, on_parsed: Callable[[Sequence[IndexResult]], None], on_undone: Callable[[Sequence[int]], None]
    ) -> WorkerPool: ...


class BufferFeed:
    """The buffer and the indexer behind it. Records the indexer's results and wakes the fetch pool."""

    def __init__(
        self,
        *,
        buffer: Buffer[tuple[int, Outcome]],
        open_indexer: IndexerFactory,
        trace: PageTrace,
        obsolescence: Obsolescence,
        booking: Results,
        bell: WakeUp,
    ):
        self._buffer, self._trace, self._obsolescence, self._booking = buffer, trace, obsolescence, booking
        self._clock, self._scope, self._fuse, self._bell = booking.clock, booking.scope, booking.failure, bell
        self.indexer = open_indexer(on_parsed=self._answered, on_undone=self._undone)
        self._warned = False

    async def put_response(self, number: int, outcome: Outcome) -> bool:
        """Put a response into the buffer; False if there was no room.

        Responses without a ticket cannot be fetched again, and those dropped often enough should not be:
        they wait for room and do not expire.
        """
        assert not isinstance(outcome, Refused)
        self.drop_expired()
        lane = self.indexer.shard_of(host_of(outcome.link.url))
        patient = not number or self._is_dropped_often(outcome.link)
        stored = await self._buffer.put(
            lane,
            (number, outcome),
            (len(outcome.response.body) if outcome.response is not None else 0) + 1024,
            expires_at=math.inf if patient else self._obsolescence.expires_at(self._clock.now()),
            patient=patient,
        )
        self._trace.page_arrived(number, self._clock.now(), dropped=not stored)
        # No page expires before this: a page that finds its shard idle is served, however short its lifetime.
        self._send_to_shards()
        return stored

    def _is_dropped_often(self, link: Request) -> bool:
        if link.drops < MAX_DROPS:
            return False
        if not self._warned:
            self._warned = True
            log.warning(
                "%s was fetched and dropped %d times; such pages now wait for the indexer"
                " (`buffer.pages`, `buffer.obsolete_after` or the rule leave too little room)",
                link.url,
                link.drops,
            )
        return True

    def move_pages(self) -> None:
        """Drop pages that waited too long, and send others to the shards with room."""
        self.indexer.report_outstanding()
        if (news := self._scope.take_changes()) is not None:
            self.indexer.add_to_scope(news.added, news.may_grow)
        if self._buffer.waiting:
            self.drop_expired()
        self._send_to_shards()

    def _send_to_shards(self) -> None:
        indexer, buffer = self.indexer, self._buffer
        if not buffer.waiting:
            buffer.wake_next()
            return
        now = self._clock.now()
        for shard in range(indexer.shards):
            while indexer.has_room(shard):
                waiting = buffer.take(shard)
                if waiting is None:
                    break
                self._trace.page_taken(waiting[0], now)
                indexer.send(*waiting)

    def drop_expired(self) -> None:
        """Drop pages that waited too long."""
        now = self._clock.now()
        for number, _ in self._buffer.expire(now):
            self._trace.page_expired(number, now)
            self._booking.requeue_dropped(number)

    def _answered(self, parsed: Sequence[IndexResult]) -> None:
        with self._fuse:
            self._trace.pages_served([page.number for page in parsed])
            self._booking.record_parsed(parsed)
            self.move_pages()
        self._bell.fire()

    def _undone(self, numbers: Sequence[int]) -> None:
        with self._fuse:
            self._trace.pages_lost(numbers)
            again = self._booking.requeue_lost(numbers)
            if again and self.indexer.error is None:
                log.warning("an indexer worker died; %d pages are fetched again", again)
            self.move_pages()
        self._bell.fire()
