"""Wake-up signal for the fetch pool after any change that may give fetch workers something to do."""

from __future__ import annotations

from collections.abc import Callable


class Bell:
    """Rung by parts that need not know the fetch pool; heard by the fetch pool."""

    def __init__(self) -> None:
        self._hearers: list[Callable[[], None]] = []

    def hear(self, hearer: Callable[[], None]) -> None:
        self._hearers.append(hearer)

    def ring(self) -> None:
        for hearer in self._hearers:
            hearer()
