"""How long what an agent holds is still its own, by a clock that goes on while the machine sleeps.

A sign of life buys `seconds` from the moment the *board* heard it. The agent knows only when it was sent,
which was earlier; so it counts from there, and stops a little before: then nobody else has been given a
host while it still asks there, whatever happened in between (a pause, a lost network, a closed lid).
"""

from __future__ import annotations

import time
from collections.abc import Callable

MARGIN = 0.2
"""The share of a lease that is not used: requests under way have that long to end."""


def boottime() -> float:
    """Seconds on a clock that counts sleep and that nobody sets."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class LeaseClock:
    """Until when we may ask anybody for anything."""

    def __init__(self, seconds: float, now: Callable[[], float] = boottime):
        self.seconds = seconds
        self._now = now
        self._until = 0.0

    def now(self) -> float:
        return self._now()

    def renewed(self, sent_at: float) -> None:
        """The board has answered a sign of life that was sent then."""
        self._until = max(self._until, sent_at + self.seconds * (1.0 - MARGIN))

    def over(self) -> None:
        """We were fenced, or must find out what is still ours."""
        self._until = 0.0

    @property
    def valid(self) -> bool:
        return self._now() < self._until

    @property
    def left(self) -> float:
        """Seconds, 0 if it is over."""
        return max(0.0, self._until - self._now())
