"""Base of the policies with a single offline queue, of which only the head is visible.

The thesis keeps a single queue, since a disk with a moving head handles many badly. We store a queue per
host and keep the order of arrival here, so that a policy written for the single queue makes the same
decisions.

The thesis looks at the offline side once for each ball that goes online, before the first draw: balls
rejected while drawing wait for the next turn. An empty source is the exception, since the offline side is
all there is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import TypeVar

from fieldmouse.policy.distribution.host_counts import HostCounts

H = TypeVar("H", bound=Hashable)


class OneQueuePolicy(HostCounts[H]):
    """Order in which balls went offline, over all hosts; one entry per ball.

    `ordered=False` is for a policy that looks into every host's queue: no order is kept.
    """

    def __init__(self, draw_cap: int, ordered: bool = True) -> None:
        super().__init__()
        self.draw_cap = draw_cap
        self.ordered = ordered
        self._order: deque[H] = deque()
        self._gone: dict[H, int] = {}  # balls recalled in a batch whose entries are still in the order
        self._refused = 0  # rejected draws in a row since a ball went online

    def recall(self, dry: bool = False) -> H | None:
        if self._refused and not dry:
            return None
        first = self._first()
        if first is None or first not in self.online:
            return first
        return next(iter(self.absent), None) if dry else None

    def stored(self, host: H, balls: int = 1) -> None:
        super().stored(host, balls)
        if self.ordered:
            self._order.extend([host] * balls)

    def recalled(self, host: H, balls: int = 1) -> None:
        super().recalled(host, balls)
        if self.ordered:
            self._gone[host] = self._gone.get(host, 0) + balls

    def came_online(self, host: H, balls: int = 1) -> None:
        super().came_online(host, balls)
        self._refused = 0

    def _first(self) -> H | None:
        while self._order:
            host = self._order[0]
            gone = self._gone.get(host, 0)
            if not gone:
                return host
            self._order.popleft()
            if gone == 1:
                del self._gone[host]
            else:
                self._gone[host] = gone - 1
        return None

    def _tired(self) -> bool:
        """Count a rejected draw; return whether the cap is exceeded and it must be accepted."""
        self._refused += 1
        return self._refused > self.draw_cap
