"""Lease clock: how long an agent may use what it holds, on a clock that runs while the machine sleeps.

A heartbeat extends the lease by `seconds` from the moment the *coordinator* received it. The agent only
knows the earlier moment of sending. It counts from there and stops a little early. So no other agent is
given a host while this one still visits it, whatever happened in between (a pause, a lost network, a
closed lid).
"""

from __future__ import annotations

import time
from collections.abc import Callable

MARGIN = 0.2
"""Share of a lease that is not used: requests under way have that time to end."""


def boottime() -> float:
    """Seconds on a clock that counts sleep and cannot be set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class LeaseClock:
    """Time until which this agent may send requests."""

    def __init__(self, seconds: float, now: Callable[[], float] = boottime):
        self.seconds = seconds
        self._now = now
        self._until = 0.0

    def now(self) -> float:
        return self._now()

    def renewed(self, sent_at: float) -> None:
        """Extend the lease: the coordinator answered a heartbeat sent at that time."""
        self._until = max(self._until, sent_at + self.seconds * (1.0 - MARGIN))

    def over(self) -> None:
        """End the lease: the agent was fenced, or must find out which leases it has."""
        self._until = 0.0

    @property
    def valid(self) -> bool:
        return self._now() < self._until

    @property
    def left(self) -> float:
        """Seconds left, 0 if it is over."""
        return max(0.0, self._until - self._now())
