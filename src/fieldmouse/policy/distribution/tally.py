"""What every policy keeps count of: who is online, who has a backlog, who has only that.

The list of hosts with a backlog and nothing online is kept as events come in,
oldest first, so nobody ever has to search for one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

H = TypeVar("H", bound=Hashable)


class Tally(Generic[H]):
    """Balls online and stored, by host.

    Invariant: `absent` holds exactly the hosts with a backlog and nothing online,
    except those a policy keeps back on purpose.
    """

    def __init__(self) -> None:
        self.online: dict[H, int] = {}
        self.backlog: dict[H, int] = {}
        # An OrderedDict, not a dict: taking the first of a plain dict again and again is quadratic.
        self.absent: OrderedDict[H, None] = OrderedDict()

    @property
    def distinct(self) -> int:
        """Different hosts online: what a strategy is judged by."""
        return len(self.online)

    def came_online(self, host: H, balls: int = 1) -> None:
        held = self.online.get(host, 0)
        self.online[host] = held + balls
        if not held:
            self.absent.pop(host, None)

    def left_online(self, host: H, balls: int = 1) -> None:
        held = self.online[host] - balls
        if held:
            self.online[host] = held
        else:
            del self.online[host]
            if host in self.backlog:
                self.absent[host] = None

    def stored(self, host: H, balls: int = 1) -> None:
        self.backlog[host] = self.backlog.get(host, 0) + balls
        if host not in self.online:
            self.absent.setdefault(host)

    def recalled(self, host: H, balls: int = 1) -> None:
        left = self.backlog[host] - balls
        if left:
            self.backlog[host] = left
        else:
            del self.backlog[host]
            self.absent.pop(host, None)

    def settled(self, host: H, address: Hashable) -> bool:
        """Addresses are nothing to a policy that does not say otherwise."""
        return True
