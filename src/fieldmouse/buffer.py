"""The page buffer between the robots and the indexer: finite, and never a place to lose a page.

Pages wait in lanes, one per indexer shard, so that one slow shard does not hold
up the others while there is room. A full buffer makes robots wait; the lab may
say LOSE instead, as the queueing model does. `level` is the number of pages in
it, the one number the robots' thresholds look at.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Generic, TypeVar

T = TypeVar("T")


class WhenFull(Enum):
    WAIT = "wait"
    LOSE = "lose"


class Buffer(Generic[T]):
    """A bounded FIFO per lane; bounded in pages and in bytes over all lanes together."""

    def __init__(
        self, *, lanes: int, pages: int, size: int, when_full: WhenFull = WhenFull.WAIT,
        on_change: Callable[[], None] = lambda: None,
    ):  # fmt: skip
        self.level = 0
        self.bytes = 0
        self._pages, self._size = pages, size
        self._when_full = when_full
        self._lanes: list[deque[tuple[T, int]]] = [deque() for _ in range(lanes)]
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._on_change = on_change

    @property
    def full(self) -> bool:
        # One page is always let in: a page larger than the whole buffer must get through too.
        return self.level > 0 and (self.level >= self._pages or self.bytes >= self._size)

    async def put(self, lane: int, item: T, size: int) -> bool:
        """Add a page; False means the buffer was full and the page is the caller's again."""
        while self.full:
            if self._when_full is WhenFull.LOSE:
                return False
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                self._pass_on()  # a turn given to the dead goes to the next in line
                raise
        self._lanes[lane].append((item, size))
        self.level += 1
        self.bytes += size
        self._on_change()
        return True

    def take(self, lane: int) -> T | None:
        """The oldest page of a lane, or None."""
        queue = self._lanes[lane]
        if not queue:
            return None
        item, size = queue.popleft()
        self.level -= 1
        self.bytes -= size
        self._pass_on()
        return item

    def _pass_on(self) -> None:
        while self._waiting and not self.full:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
