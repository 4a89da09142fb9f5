"""Tickets of failed URLs that rest until they may be tried again.

They count as online (`frontlog.py` holds them), but are not yet on the workbench.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from fieldmouse.url import Host


class Resting:
    """Tickets ordered by the end of their rest, in epoch seconds."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Host]] = []

    def put(self, until: float, number: int, host: Host) -> None:
        heappush(self._heap, (until, number, host))

    def ready_at(self) -> float | None:
        """End of the first rest; None if there are no tickets."""
        return self._heap[0][0] if self._heap else None

    def rested(self, now: float) -> Iterator[tuple[Host, int]]:
        """Remove and yield the tickets whose rest is over."""
        while self._heap and self._heap[0][0] <= now:
            _, number, host = heappop(self._heap)
            yield host, number

    def withdraw(self, host: Host) -> list[int]:
        """Remove and return the tickets of a host that leaves."""
        left = [number for _, number, name in self._heap if name == host]
        if left:
            self._heap = [entry for entry in self._heap if entry[2] != host]
            heapify(self._heap)
        return left
