"""Clock of the tests: it moves only when it is told to."""

from __future__ import annotations

import asyncio


class AutoAdvanceClock:
    """A clock that moves only by `advance` and `sleep`."""

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
