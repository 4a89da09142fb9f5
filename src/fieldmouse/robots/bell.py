"""Calls the fleet: something changed, so more robots may have something to do."""

from __future__ import annotations

from collections.abc import Callable


class Bell:
    """Rung by whoever changed something, who need not know the fleet; heard by the fleet."""

    def __init__(self) -> None:
        self._hearers: list[Callable[[], None]] = []

    def hear(self, hearer: Callable[[], None]) -> None:
        self._hearers.append(hearer)

    def ring(self) -> None:
        for hearer in self._hearers:
            hearer()
