"""Tickets that wait for a time of their own: a URL that failed and may be tried again later.

They are online all the same (`frontlog.py` holds them); only their host does not know of them yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from fieldmouse.url import Host


class Resting:
    """By time. Times are epoch seconds."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Host]] = []

    def put(self, until: float, number: int, host: Host) -> None:
        heappush(self._heap, (until, number, host))

    def ready_at(self) -> float | None:
        """When the first of them has rested; None if there is none."""
        return self._heap[0][0] if self._heap else None

    def rested(self, now: float) -> Iterator[tuple[Host, int]]:
        """Those whose time has come; they are no longer here."""
        while self._heap and self._heap[0][0] <= now:
            _, number, host = heappop(self._heap)
            yield host, number

    def withdraw(self, host: Host) -> list[int]:
        """The tickets of a host that leaves; they are no longer here."""
        left = [number for _, number, name in self._heap if name == host]
        if left:
            self._heap = [entry for entry in self._heap if entry[2] != host]
            heapify(self._heap)
        return left
