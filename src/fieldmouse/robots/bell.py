"""Wake-up signal for the fetch pool after any change that may give fetch workers something to do."""

from __future__ import annotations

from collections.abc import Callable


class Bell:
    """Rung by parts that need not know the fetch pool; heard by the fetch pool."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[], None]] = []

    def hear(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def ring(self) -> None:
        for listener in self._listeners:
            listener()
