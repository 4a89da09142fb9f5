"""Where the crawl's thread and the loop that takes its pages meet.

The crawl says that a checkpoint was made, and the loop reads from the outcome log what
that brought: pages are never handed over in memory, so there is nothing to lose and no
queue to bound. What goes the other way is one number, how far the loop has come. A loop that
is far behind slows the crawl: while it is, the crawl sends out no robots.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec

from fieldmouse.crawldir import CrawlDir
from fieldmouse.crawldir.checkpoint import Checkpoint
from fieldmouse.crawldir.parts import Sealed

SLACK = 64 << 10
"""Bytes of outcomes, some two hundred rows, that a loop may be behind the checkpoint before the last."""

PART = "delivery"


class Delivered(msgspec.Struct, frozen=True):
    """What the checkpoint keeps: every page before `reach`, in bytes of the outcome log, was delivered."""

    reach: int = 0


class Hatch:
    """Pages come out here. Made by whoever takes them; every method may be called from any thread."""

    def __init__(self) -> None:
        self._moved = threading.Condition()
        self._listeners: list[Callable[[], None]] = []
        self._reach = 0  # the loop has asked for what follows
        self._checkpoints = 0
        self._ends: tuple[int, int] = (0, 0)  # of the outcome log at the last two checkpoints
        self._hungry = False  # the loop has taken all there is, and waits
        self._left = self._over = False

    # -- the loop's side

    @property
    def reach(self) -> int:
        return self._reach

    @property
    def checkpoints(self) -> int:
        return self._checkpoints

    @property
    def end(self) -> int:
        """How long the outcome log was at the last checkpoint."""
        return self._ends[1]

    @property
    def over(self) -> bool:
        """The crawl has ended: nothing more will come."""
        return self._over

    @property
    def left(self) -> bool:
        """The loop was left: nothing more is wanted."""
        return self._left

    def delivered(self, reach: int) -> None:
        """The loop asked for the page after the one that ends at `reach`, or there is none up to there."""
        self._reach = max(self._reach, reach)

    def listen(self, listener: Callable[[], None]) -> None:
        """Call this, from the crawl's thread, whenever there may be something new."""
        self._listeners.append(listener)

    def starve(self, seen: int) -> None:
        """The loop has taken everything as of checkpoint number `seen`."""
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
        """The loop takes no more; what it has in hand comes again."""
        with self._moved:
            self._left = True

    # -- the crawl's side: its audience, see `agent/life.py`

    def is_behind(self) -> bool:
        """Whether the crawl should wait for the loop."""
        return not self._hungry and not self._left and self._reach < self._ends[0] - SLACK

    def is_content(self) -> bool:
        """Whether the loop has taken all there was, or is gone."""
        return self._left or self._hungry

    def is_eager(self) -> bool:
        """A checkpoint does not make the loop any faster."""
        return False

    def opened(self, reach: int) -> None:
        self._reach = reach

    def sealed(self, end: int) -> None:
        """A checkpoint counts; the outcome log was so long."""
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
    """The part of the checkpoint that knows which pages were delivered."""

    name = PART

    def __init__(self, home: CrawlDir, last: Checkpoint | None, hatch: Hatch):
        known = last is not None and PART in last.parts
        self._state = last.state(PART, Delivered) if last is not None and known else Delivered()
        self._hatch, self._outcomes = hatch, home / "outcomes.log"
        self._end = 0

    def begin(self) -> None:
        self._hatch.opened(self._state.reach)

    def seal(self) -> Sealed[Delivered]:
        self._end = self._outcomes.stat().st_size  # that log was sealed before us
        return Sealed(Delivered(self._hatch.reach))

    def committed(self) -> None:
        self._hatch.sealed(self._end)

    def close(self) -> None:
        """It has no files."""
