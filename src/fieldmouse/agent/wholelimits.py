"""When a crawl of many agents stops though work is left: its limits count for all of them."""

from __future__ import annotations

import math

from fieldmouse.balancer.board.contract import BoardBooks
from fieldmouse.balancer.board.pagelimit import PAGE
from fieldmouse.clock import Clock
from fieldmouse.outcome import StoppedBy


class WholeLimits:
    """0 means never. An `endless` crawl goes on when nothing waits, too."""

    def __init__(self, pages: int, seconds: float, clock: Clock, *, endless: bool):
        self._pages, self._seconds, self._clock, self._endless = pages, seconds, clock, endless
        self._over_at = math.inf

    def reached(self, books: BoardBooks) -> StoppedBy:
        """The limit that is reached, by what the board says just now, if there is anything left to do."""
        self._over_at = math.inf
        if not books.waiting and not self._endless:
            return StoppedBy.NOTHING
        if self._seconds:
            self._over_at = self._clock.now() + self._seconds - books.age
        if self._pages and books.kinds.get(PAGE, 0) >= self._pages:
            return StoppedBy.PAGES
        return StoppedBy.TIME if self.is_overdue else StoppedBy.NOTHING

    @property
    def is_overdue(self) -> bool:
        """Whether the time of the crawl is over, by how old it was when the board said so last."""
        return self._clock.now() >= self._over_at
