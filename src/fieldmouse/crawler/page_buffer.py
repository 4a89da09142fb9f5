"""Bounded page buffer between the fetch workers and the worker processes.

Pages wait in one queue per shard, so that a slow shard does not block the others while there is room.
When the buffer is full, fetch workers wait, or the page is dropped and fetched again, as in the queueing
model. A page that waits past its deadline is dropped before it is served.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from enum import Enum
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from fieldmouse.backpressure_state import BackpressureState

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

    def take_page(self) -> T:
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
        meter: BackpressureState | None = None,
        serving_counts: bool = False,
    ):
        self.waiting = 0
        self.byte_size = 0
        self.max_pages, self._size = pages, size
        self.when_full = when_full
        self._connections: list[deque[_Entry[T]]] = [deque() for _ in range(lanes)]
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._deadlines: list[tuple[float, int, _Entry[T]]] = []
        self._sequence = 0
        self._expired_entries = 0  # expired entries that are still in the lanes
        self._meter, self._serving_counts = meter or BackpressureState(), serving_counts

    @property
    def is_full(self) -> bool:
        # One page is always admitted: a page larger than the whole buffer must get through, too.
        level = self._meter.level if self._serving_counts else self.waiting
        return level > 0 and (level >= self.max_pages or (self.waiting > 0 and self.byte_size >= self._size))

    def set_policy(self, when_full: FullBufferPolicy) -> None:
        """Set what happens to pages that find the buffer full from now on; pages that wait already go on waiting."""
        self.when_full = when_full

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
        self._connections[lane].append(entry)
        if expires_at < math.inf:
            self._sequence += 1
            heappush(self._deadlines, (expires_at, self._sequence, entry))
        self.waiting += 1
        self.byte_size += size
        self._meter.set_buffered(self.waiting)
        return True

    def take_oldest(self, lane: int) -> T | None:
        """Remove and return the oldest page of a lane; None if it is empty."""
        queue = self._connections[lane]
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
            self._connections = [deque(entry for entry in queue if not entry.gone) for queue in self._connections]
            self._expired_entries = 0
        return expired

    def _remove_entry(self, entry: _Entry[T]) -> T:
        item = entry.take_page()
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
