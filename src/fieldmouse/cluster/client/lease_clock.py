"""Time that is left of an agent's leases, by a clock that keeps running while the machine sleeps."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from fieldmouse.types.host import HostState
from fieldmouse.types.request import Request
from fieldmouse.url import Host

LEASE_MARGIN = 0.2
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

    def renew(self, sent_at: float) -> None:
        """Extend the lease: the coordinator answered a heartbeat sent at that time."""
        self._until = max(self._until, sent_at + self.seconds * (1.0 - LEASE_MARGIN))

    def expire(self) -> None:
        """End the lease: the agent was fenced, or must find out which leases it has."""
        self._until = 0.0

    @property
    def is_valid(self) -> bool:
        return self._now() < self._until

    @property
    def seconds_left(self) -> float:
        """Seconds left, 0 if it is over."""
        return max(0.0, self._until - self._now())


class LeasingFrontier(Protocol):
    """Implemented by `frontier.leased`."""

    @property
    def hosts_wanted(self) -> int: ...

    @property
    def lease_count(self) -> int: ...

    def epoch_of(self, host: Host) -> int: ...

    def owed_keys(self) -> dict[tuple[Host, int], set[int]]: ...

    def host_states(self) -> dict[tuple[Host, int], HostState]: ...

    def grant(
        self, host: Host, epoch: int, links: Sequence[Request], state: HostState, left: int
    ) -> None: ...

    def split_settled(self, links: Sequence[Request]) -> tuple[list[Request], list[Request]]: ...

    def revoke(self, host: Host, epoch: int) -> None: ...

    def revoke_all(self) -> None: ...

    def release_all(self) -> None: ...
