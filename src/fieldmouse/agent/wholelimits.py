"""Limits of a whole cluster crawl: pages and time counted over all agents."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fieldmouse.clock import Clock
from fieldmouse.outcome import OutcomeKind, StoppedBy

if TYPE_CHECKING:
    from fieldmouse.balancer.board.contract import BoardBooks


class WholeLimits:
    """0 means no limit. An `endless` crawl also continues when no URL waits."""

    def __init__(self, pages: int, seconds: float, clock: Clock, *, endless: bool):
        self._pages, self._seconds, self._clock, self._endless = pages, seconds, clock, endless
        self._over_at = math.inf

    def reached(self, books: BoardBooks) -> StoppedBy:
        """The limit that the coordinator's totals reach; `NOTHING` if no work is left."""
        self._over_at = math.inf
        if not books.waiting and not self._endless:
            return StoppedBy.NOTHING
        if self._seconds:
            self._over_at = self._clock.now() + self._seconds - books.age
        if self._pages and books.kinds.get(OutcomeKind.PAGE, 0) >= self._pages:
            return StoppedBy.PAGES
        return StoppedBy.TIME if self.is_overdue else StoppedBy.NOTHING

    @property
    def is_overdue(self) -> bool:
        """Whether the crawl's time is over, judged by its age at the last heartbeat."""
        return self._clock.now() >= self._over_at
