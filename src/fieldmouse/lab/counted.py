"""Counting stand-ins for the parts around a distributor, for replays without a crawl.

URLs are numbers without content, hosts online are counts, and the only state of a host is its address.
That is enough for a replay, which needs the hosts online but no content.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from fieldmouse.frontier.queueindex import MemoryNumbers
from fieldmouse.records import HostState
from fieldmouse.url import Host


class _Alike(dict[int, bytes]):
    """Mapping with the same empty request under every number."""

    def __missing__(self, number: int) -> bytes:
        return b""


class Numbers:
    """Numbers for indistinguishable URLs; replaces the front log."""

    def __init__(self) -> None:
        self._next = 0
        self.live = _Alike()

    def add(self, links: Iterable[bytes]) -> list[int]:
        first = self._next
        self._next += sum(1 for _ in links)
        return list(range(first, self._next))

    def strike(self, numbers: Iterable[int]) -> int:
        return 0


class Seats:
    """Hosts online with their URL counts, least recently visited first; replaces the workbench."""

    def __init__(self) -> None:
        self._online: OrderedDict[Host, int] = OrderedDict()
        self._urls = 0
        self._out = 0  # held by fetch workers

    @property
    def urls(self) -> int:
        return self._urls - self._out

    def note_out(self, urls: int) -> None:
        """Set the number of URLs held by fetch workers."""
        self._out = urls

    def __len__(self) -> int:
        return len(self._online)

    def __contains__(self, host: Host) -> bool:
        return host in self._online

    def put(self, host: Host, state: HostState, numbers: Iterable[int]) -> None:
        count = sum(1 for _ in numbers)
        self._online[host] = self._online.get(host, 0) + count
        self._urls += count

    def send_off(self, host: Host) -> list[int]:
        count = self._online.pop(host)
        self._urls -= count
        return [0] * count

    def visit(self, host: Host, urls: int) -> tuple[Host, int] | None:
        """Return the host that a fetch worker visits (`host` if online) and the number of URLs it uses.

        None if no host is online.
        """
        if host not in self._online:
            if not self._online:
                return None
            host = next(iter(self._online))
        used = min(urls, self._online[host])
        self._urls -= used
        if used == self._online[host]:
            del self._online[host]
        else:
            self._online[host] -= used
            self._online.move_to_end(host)
        return host, used


class Homes(MemoryNumbers):
    """Addresses of hosts; replaces the host table."""

    def __init__(self) -> None:
        super().__init__()
        self._states: dict[Host, HostState] = {}

    def locate(self, host: Host, address: str) -> None:
        self._states[host] = HostState(address=address)

    def get(self, host: Host) -> HostState:
        return self._states.get(host, _UNKNOWN)

    def meet(self, host: Host) -> HostState:
        return self.get(host)


_UNKNOWN = HostState()
