"""Counts of balls online and stored by host, in a few bytes per host.

A crawl numbers its hosts from 0, and a policy may have to remember millions of them. So data of a numbered
host is a cell of an array; other host keys are kept in a dictionary with the same behaviour. The list of
hosts with a backlog and nothing online is updated by events, oldest first, so no search is needed.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Hashable, Iterator, MutableMapping
from typing import Any, Generic, TypeVar

H = TypeVar("H", bound=Hashable)

_MORE = 1024  # minimum number of cells added


def _grow(cells: array[int], number: int) -> None:
    cells.extend(bytes(max(number + 1 - len(cells), _MORE, len(cells) // 8)))


class HostMap(MutableMapping[H, Any]):
    """Map from host to value: an array cell if both are non-negative integers."""

    def __init__(self, typecode: str) -> None:
        """Values below 2^32 - 1 for "I", below 2^64 - 1 for "Q"."""
        self._cells = array(typecode)  # value plus one; 0: none
        self._others: dict[H, Any] = {}
        self._count = 0

    def get(self, host: H, default: Any = None) -> Any:
        number: Any = host
        try:  # called several times for every URL, so no type check
            cell = self._cells[number] if number >= 0 else 0
        except (IndexError, TypeError):
            cell = 0
        if cell:
            return cell - 1
        return self._others.get(host, default) if self._others else default

    def __getitem__(self, host: H) -> Any:
        value = self.get(host)
        if value is None:
            raise KeyError(host)
        return value

    def __contains__(self, host: object) -> bool:
        if isinstance(host, int) and 0 <= host < len(self._cells) and self._cells[host]:
            return True
        return host in self._others

    def __setitem__(self, host: H, value: Any) -> None:
        if isinstance(host, int) and isinstance(value, int) and host >= 0 <= value:
            if host >= len(self._cells):
                _grow(self._cells, host)
            if not self._cells[host]:
                self._count += 1
                self._others.pop(host, None)
            self._cells[host] = value + 1
        else:
            if host in self:
                del self[host]
            self._others[host] = value

    def __delitem__(self, host: H) -> None:
        if isinstance(host, int) and 0 <= host < len(self._cells) and self._cells[host]:
            self._cells[host] = 0
            self._count -= 1
        else:
            del self._others[host]

    def __len__(self) -> int:
        return self._count + len(self._others)

    def __iter__(self) -> Iterator[H]:
        yield from (number for number, cell in enumerate(self._cells) if cell)  # type: ignore[misc]
        yield from self._others


class HostListNodes:
    """Links between hosts in order, and the order each host is in; a number is in one order at a time."""

    def __init__(self) -> None:
        self.following, self.before, self.line = (array("I"), array("I"), array("I"))  # numbers plus one; 0: none
        self.lines = 0


class FifoHostSet(Generic[H]):
    """Hosts in order of arrival, each once. Instances with the same nodes share memory."""

    __slots__ = ("_count", "_first", "_last", "_line", "_nodes", "_others")

    def __init__(self, nodes: HostListNodes) -> None:
        nodes.lines += 1
        self._nodes, self._line = nodes, nodes.lines
        self._first = self._last = self._count = 0
        self._others: OrderedDict[H, None] | None = None

    def __len__(self) -> int:
        return self._count + (len(self._others) if self._others else 0)

    def __contains__(self, host: object) -> bool:
        if isinstance(host, int):
            line = self._nodes.line
            return 0 <= host < len(line) and line[host] == self._line
        return self._others is not None and host in self._others

    def __iter__(self) -> Iterator[H]:
        at = self._first
        while at:
            yield at - 1  # type: ignore[misc]
            at = self._nodes.following[at - 1]
        yield from self._others or ()

    def append(self, host: H) -> None:
        """Append the host unless it is present."""
        if host in self:
            return
        if not isinstance(host, int):
            if self._others is None:
                self._others = OrderedDict()
            self._others[host] = None
            return
        nodes = self._nodes
        if host >= len(nodes.line):
            for cells in (nodes.following, nodes.before, nodes.line):
                _grow(cells, host)
        assert not nodes.line[host], "a host stands in one line at a time"
        nodes.line[host], nodes.before[host], nodes.following[host] = self._line, self._last, 0
        if self._last:
            nodes.following[self._last - 1] = host + 1
        else:
            self._first = host + 1
        self._last = host + 1
        self._count += 1

    def discard(self, host: H) -> bool:
        """Remove the host; return whether it was present."""
        if host not in self:
            return False
        if not isinstance(host, int):
            assert self._others is not None
            del self._others[host]
            return True
        nodes = self._nodes
        before, following = nodes.before[host], nodes.following[host]
        if before:
            nodes.following[before - 1] = following
        else:
            self._first = following
        if following:
            nodes.before[following - 1] = before
        else:
            self._last = before
        nodes.line[host] = 0
        self._count -= 1
        return True


class HostCounts(Generic[H]):
    """Balls online and stored, by host.

    Invariant: `absent` holds exactly the hosts with a backlog and nothing online, except those a policy
    keeps back on purpose.
    """

    def __init__(self) -> None:
        self.online: dict[H, int] = {}
        self.backlog: HostMap[H] = HostMap("I")
        self._nodes = HostListNodes()
        self.absent: FifoHostSet[H] = FifoHostSet(self._nodes)

    @property
    def online_host_count(self) -> int:
        """Different hosts online: the measure of a policy."""
        return len(self.online)

    def came_online(self, host: H, balls: int = 1) -> None:
        held = self.online.get(host, 0)
        self.online[host] = held + balls
        if not held:
            self.absent.discard(host)

    def left_online(self, host: H, balls: int = 1) -> None:
        held = self.online[host] - balls
        if held:
            self.online[host] = held
        else:
            del self.online[host]
            if host in self.backlog:
                self.absent.append(host)

    def added_to_queue(self, host: H, balls: int = 1) -> None:
        self.backlog[host] = self.backlog.get(host, 0) + balls
        if host not in self.online:
            self.absent.append(host)

    def read_from_queue(self, host: H, balls: int = 1) -> None:
        left = self.backlog[host] - balls
        if left:
            self.backlog[host] = left
        else:
            del self.backlog[host]
            self.absent.discard(host)

    def address_found(self, host: H, address: Hashable) -> bool:
        """Ignore the address; policies may override this."""
        return True
