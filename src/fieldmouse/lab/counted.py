"""A front that is only counted: what a distributor moves when there is no crawl around it.

URLs are numbers without a content, hosts online are counts, and of a host nothing is
known but where it lives. Enough for a replay, which asks who is online and not what
is said there.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from fieldmouse.frontier.queueindex import MemoryNumbers
from fieldmouse.records import HostState
from fieldmouse.url import Host


class _Alike(dict[int, bytes]):
    """The same empty link under every number."""

    def __missing__(self, number: int) -> bytes:
        return b""


class Numbers:
    """Numbers for URLs that are all alike; stands for the front log."""

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
    """Hosts online with how many URLs, who has rested longest first; stands for the workbench."""

    def __init__(self) -> None:
        self._online: OrderedDict[Host, int] = OrderedDict()
        self._urls = 0
        self._out = 0  # in robots' hands

    @property
    def urls(self) -> int:
        return self._urls - self._out

    def note_out(self, urls: int) -> None:
        """So many URLs are in robots' hands."""
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
        """Whom a robot visits, `host` if it can, and how many URLs it uses; None if nobody is online."""
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
    """Where hosts live; stands for the host table."""

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
