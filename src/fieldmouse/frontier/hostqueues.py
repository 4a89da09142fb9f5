"""One queue of links per host, for the hosts that wait offline.

`MemoryHostQueues` is the reference and is used by the lab; `Virtualizer` is the one on
disk. Links are bytes here: no code on the way looks inside them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Protocol

from fieldmouse.url import Host


class HostQueues(Protocol):
    """Independent first-in, first-out queues, one per host."""

    def __len__(self) -> int:
        """Number of links in all queues."""
        ...

    def append(self, host: Host, link: bytes) -> None: ...

    def take(self, host: Host, most: int) -> list[bytes]:
        """Remove and return the oldest links of the host, at most `most`; at least one if there is any."""
        ...

    def count(self, host: Host) -> int: ...

    def hosts(self) -> Iterator[tuple[Host, int]]:
        """Every host with links, and the number of its links."""
        ...


class MemoryHostQueues:
    """A deque per host."""

    def __init__(self) -> None:
        self._queues: dict[Host, deque[bytes]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, host: Host, link: bytes) -> None:
        self._queues.setdefault(host, deque()).append(link)
        self._count += 1

    def take(self, host: Host, most: int) -> list[bytes]:
        queue = self._queues.get(host)
        if queue is None:
            return []
        links = [queue.popleft() for _ in range(min(most, len(queue)))]
        if not queue:
            del self._queues[host]
        self._count -= len(links)
        return links

    def count(self, host: Host) -> int:
        return len(self._queues.get(host, ()))

    def hosts(self) -> Iterator[tuple[Host, int]]:
        return ((host, len(queue)) for host, queue in self._queues.items())
