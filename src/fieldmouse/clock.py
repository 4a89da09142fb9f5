"""What time it is: an argument, never a global.

Everything that waits or stamps receives a `Clock`. `WallClock` is epoch seconds;
the lab's bottle runs an event loop in virtual time whose clock jumps to the next
timer, so an hour of politeness takes a moment and no test sleeps.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Epoch seconds now, and a way to wait until later."""

    def now(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class WallClock:
    """The machine's clock, kept from running backwards.

    Politeness is measured in differences; a clock set back by its keeper must
    not make a host look freshly visited for an hour, nor ready too soon. So the
    epoch is read once and the monotonic clock carries it forward.
    """

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        return self._offset + time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class ManualClock:
    """A clock that stands still until told; for tests and for solvers."""

    def __init__(self, now: float = 0.0):
        self._now = now

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        assert seconds >= 0, "time does not run backwards"
        self._now += seconds

    async def sleep(self, seconds: float) -> None:
        self.advance(max(0.0, seconds))
        await asyncio.sleep(0)
