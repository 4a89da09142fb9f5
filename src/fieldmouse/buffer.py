"""The page buffer between the robots and the indexer: finite, and never a place to lose a page.

Pages wait in lanes, one per indexer shard, so that one slow shard does not hold
up the others while there is room. A full buffer makes robots wait, or hands the
page back as the queueing model does; and a page that waits past its time can be
taken out before anybody serves it. What becomes of such pages is for the owner to
say: the buffer only never forgets one. `waiting` is the number of pages in it.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from enum import Enum
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from fieldmouse.meter import Meter

T = TypeVar("T")

_SWEEP_AT = 64


class WhenFull(Enum):
    WAIT = "wait"
    LOSE = "lose"


class _Place(Generic[T]):
    """One page's place in line; `gone` once it was taken or expired."""

    __slots__ = ("gone", "item", "size")

    def __init__(self, item: T, size: int):
        self.item, self.size, self.gone = item, size, False

    def leave(self) -> T:
        """Whoever still holds the place, a deadline or a line that does not move, holds no page with it."""
        item, self.gone = self.item, True
        del self.item
        return item


class Buffer(Generic[T]):
    """A bounded FIFO per lane; bounded in pages and in bytes over all lanes together.

    Its pages are counted on the `meter`. With `serving_counts` pages that have left the lanes for the
    indexer count against the bound all the same: the model's buffer holds the page in service, too.
    """

    def __init__(
        self, *, lanes: int, pages: int, size: int, when_full: WhenFull = WhenFull.WAIT,
        meter: Meter | None = None, serving_counts: bool = False,
    ):  # fmt: skip
        self.waiting = 0
        self.bytes = 0
        self.pages, self._size = pages, size
        self.when_full = when_full
        self._lanes: list[deque[_Place[T]]] = [deque() for _ in range(lanes)]
        self._turns: deque[asyncio.Future[None]] = deque()
        self._deadlines: list[tuple[float, int, _Place[T]]] = []
        self._put = 0
        self._gaps = 0  # places in the lanes whose pages expired
        self._meter, self._serving_counts = meter or Meter(), serving_counts

    @property
    def full(self) -> bool:
        # One page is always let in: a page larger than the whole buffer must get through too.
        level = self._meter.level if self._serving_counts else self.waiting
        return level > 0 and (level >= self.pages or (self.waiting > 0 and self.bytes >= self._size))

    async def put(
        self, lane: int, item: T, size: int, *, expires_at: float = math.inf, patient: bool = False
    ) -> bool:
        """Add a page; False means the buffer was full and the page is the caller's again.

        A `patient` caller waits for room whatever the buffer is told to do.
        """
        while self.full:
            if self.when_full is WhenFull.LOSE and not patient:
                return False
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._turns.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                self.ease()  # a turn given to the dead goes to the next in line
                raise
        place = _Place(item, size)
        self._lanes[lane].append(place)
        if expires_at < math.inf:
            self._put += 1
            heappush(self._deadlines, (expires_at, self._put, place))
        self.waiting += 1
        self.bytes += size
        self._meter.note_waiting(self.waiting)
        return True

    def take(self, lane: int) -> T | None:
        """The oldest page of a lane, or None."""
        queue = self._lanes[lane]
        while queue:
            place = queue.popleft()
            if not place.gone:
                return self._leave(place)
            self._gaps -= 1
        return None

    def expire(self, now: float) -> list[T]:
        """Take out the pages whose time is over, the longest overdue first."""
        due, expired = self._deadlines, []
        while due and due[0][0] <= now:
            _, _, place = heappop(due)
            if not place.gone:
                expired.append(self._leave(place))
        self._gaps += len(expired)
        if self._gaps > max(_SWEEP_AT, self.waiting):
            # Behind a page that does not grow old and is not taken, others come and go.
            self._lanes = [deque(place for place in queue if not place.gone) for queue in self._lanes]
            self._gaps = 0
        return expired

    def _leave(self, place: _Place[T]) -> T:
        item = place.leave()
        self.waiting -= 1
        self.bytes -= place.size
        self._meter.note_waiting(self.waiting)
        if len(self._deadlines) > max(_SWEEP_AT, 2 * self.waiting):
            # Most were served in time; their deadlines must not pile up until they are over.
            self._deadlines = [due for due in self._deadlines if not due[2].gone]
            heapify(self._deadlines)
        self.ease()
        return item

    def ease(self) -> None:
        """There may be room: let the next one in line see."""
        while self._turns and not self.full:
            turn = self._turns.popleft()
            if not turn.done():
                turn.set_result(None)
                return
