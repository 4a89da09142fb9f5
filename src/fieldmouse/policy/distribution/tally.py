"""Counts that every policy keeps: balls online and backlog by host.

The list of hosts with a backlog and nothing online is updated by events, oldest first, so no search is
needed.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from fieldmouse.policy.distribution.compact import HostFigures, HostLine, LineNodes

H = TypeVar("H", bound=Hashable)


class Tally(Generic[H]):
    """Balls online and stored, by host.

    Invariant: `absent` holds exactly the hosts with a backlog and nothing online, except those a policy
    keeps back on purpose.
    """

    def __init__(self) -> None:
        self.online: dict[H, int] = {}
        self.backlog: HostFigures[H] = HostFigures("I")
        self._nodes = LineNodes()
        self.absent: HostLine[H] = HostLine(self._nodes)

    @property
    def distinct(self) -> int:
        """Different hosts online: the measure of a policy."""
        return len(self.online)

    def came_online(self, host: H, balls: int = 1) -> None:
        held = self.online.get(host, 0)
        self.online[host] = held + balls
        if not held:
            self.absent.discard(host)

    def left_online(self, host: H, balls: int = 1) -> None:
        held = self.online[host] - balls
        if held:
            self.online[host] = held
        else:
            del self.online[host]
            if host in self.backlog:
                self.absent.add(host)

    def stored(self, host: H, balls: int = 1) -> None:
        self.backlog[host] = self.backlog.get(host, 0) + balls
        if host not in self.online:
            self.absent.add(host)

    def recalled(self, host: H, balls: int = 1) -> None:
        left = self.backlog[host] - balls
        if left:
            self.backlog[host] = left
        else:
            del self.backlog[host]
            self.absent.discard(host)

    def located(self, host: H, address: Hashable) -> bool:
        """Ignore the address; policies may override this."""
        return True
