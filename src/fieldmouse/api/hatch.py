"""Delivery of pages from the crawl's thread to the loop that consumes them.

The crawl announces each checkpoint, and the loop reads the new pages from the outcome log. Pages are never
passed in memory, so nothing can be lost and there is no queue to bound. The loop reports one number, its
position in the log. If the loop is far behind, the crawl starts no fetches until it catches up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec

from fieldmouse.crawldir import CrawlDir
from fieldmouse.crawldir.checkpoint import Checkpoint
from fieldmouse.crawldir.parts import Sealed

SLACK = 64 << 10
"""Bytes of outcomes, about two hundred rows, that a loop may be behind the second-newest checkpoint."""

PART = "delivery"


class Delivered(msgspec.Struct, frozen=True):
    """Checkpoint state: all pages before `reach`, in bytes of the outcome log, were delivered."""

    reach: int = 0


class Hatch:
    """Link between a crawl and the loop that consumes its pages. All methods are thread-safe."""

    def __init__(self) -> None:
        self._moved = threading.Condition()
        self._listeners: list[Callable[[], None]] = []
        self._reach = 0  # position of the loop in the outcome log
        self._checkpoints = 0
        self._ends: tuple[int, int] = (0, 0)  # of the outcome log at the last two checkpoints
        self._hungry = False  # the loop has taken every page and waits
        self._left = self._over = False

    # -- for the loop

    @property
    def reach(self) -> int:
        return self._reach

    @property
    def checkpoints(self) -> int:
        return self._checkpoints

    @property
    def end(self) -> int:
        """Length of the outcome log at the last checkpoint."""
        return self._ends[1]

    @property
    def over(self) -> bool:
        """Whether the crawl has ended."""
        return self._over

    @property
    def left(self) -> bool:
        """Whether the loop was left."""
        return self._left

    def delivered(self, reach: int) -> None:
        """Advance the position to `reach`: the page that ends there was delivered, or there is no page before
        it."""
        self._reach = max(self._reach, reach)

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` in the crawl's thread at each checkpoint and at the end."""
        self._listeners.append(listener)

    def starve(self, seen: int) -> None:
        """Note that the loop has taken all pages up to checkpoint number `seen`."""
        with self._moved:
            self._hungry = seen == self._checkpoints

    def is_news(self, seen: int) -> bool:
        return self._over or self._checkpoints != seen

    def wait(self, seen: int) -> None:
        """Wait for a checkpoint after number `seen`, or for the end."""
        with self._moved:
            self._moved.wait_for(lambda: self.is_news(seen))

    def wait_for_end(self) -> None:
        with self._moved:
            self._moved.wait_for(lambda: self._over)

    def leave(self) -> None:
        """Stop taking pages; the page in hand stays undelivered."""
        with self._moved:
            self._left = True

    # -- for the crawl: the page consumer of `agent/life.py`

    def is_behind(self) -> bool:
        """Whether the crawl should wait for the loop."""
        return not self._hungry and not self._left and self._reach < self._ends[0] - SLACK

    def is_content(self) -> bool:
        """Whether the loop has taken all pages, or was left."""
        return self._left or self._hungry

    def is_eager(self) -> bool:
        """Always False: an earlier checkpoint does not make the loop faster."""
        return False

    def opened(self, reach: int) -> None:
        self._reach = reach

    def sealed(self, end: int) -> None:
        """Announce a checkpoint; `end` is the length of the outcome log."""
        with self._moved:
            self._ends = (self._ends[1], end) if self._checkpoints else (end, end)
            self._checkpoints += 1
            self._hungry = False
            self._tell()

    def close(self) -> None:
        with self._moved:
            self._over = True
            self._tell()

    def _tell(self) -> None:
        self._moved.notify_all()
        for listener in self._listeners:
            listener()


class Delivery:
    """Checkpoint part that stores the position of the loop."""

    name = PART

    def __init__(self, home: CrawlDir, last: Checkpoint | None, hatch: Hatch):
        known = last is not None and PART in last.parts
        self._state = last.state(PART, Delivered) if last is not None and known else Delivered()
        self._hatch, self._outcomes = hatch, home / "outcomes.log"
        self._end = 0

    def begin(self) -> None:
        self._hatch.opened(self._state.reach)

    def seal(self) -> Sealed[Delivered]:
        self._end = self._outcomes.stat().st_size  # the outcome log was sealed before
        return Sealed(Delivered(self._hatch.reach))

    def committed(self) -> None:
        self._hatch.sealed(self._end)

    def close(self) -> None:
        """Nothing to close: this part has no files."""
