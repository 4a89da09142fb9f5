"""Clock interface: time is an argument, never a global.

Everything that waits or stamps receives a `Clock`. `WallClock` gives epoch seconds. Tests run an event
loop in virtual time whose clock jumps to the next timer, so an hour of politeness takes a moment and no
test sleeps.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Current time in epoch seconds, and waiting."""

    def now(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class WallClock:
    """The machine's clock, kept from running backwards.

    Politeness is measured in differences: setting the clock back must not make a host look freshly visited
    for an hour, nor ready too soon. So the epoch is read once, and the monotonic clock carries it forward.
    """

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        return self._offset + time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
