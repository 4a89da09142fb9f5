"""Workbench: the hosts online, ordered by the time at which they may be visited.

The workbench is a heap of addresses ordered by ready time. Invariant: every
address on it has a host with at least one URL, and no address is both on the
workbench and with a fetch worker. Taking a host takes its address; hosts that
share one take turns, and the one that has waited longest is first.

A host whose name was not resolved yet, and one whose URLs are all answered
without a request, are listed under a private address: no server is visited, so no
rest is needed.

If polls of a host wait beside new URLs, its visits are divided between the two:
a fetch worker takes them in the order of their turns.

Tickets that rest after a failure are kept beside the workbench until their time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from typing import NamedTuple

import msgspec

from fieldmouse.types.host_state import HostState
from fieldmouse.types.reason import OutcomeKind
from fieldmouse.types.request import FrontierEntry, Request
from fieldmouse.url import Host, host_of


class TakenHost(NamedTuple):
    """Host taken by a fetch worker, and the numbers of the URLs to visit."""

    host: Host
    address: str
    numbers: list[int]


@dataclass(slots=True, eq=False)
class _OnlineAddress:
    """One address: the time at which it may be visited again, and its hosts that have URLs, by ready time."""

    ready_at: float
    hosts: list[tuple[float, int, _OnlineHost]] = field(default_factory=list)
    held: bool = False
    due: float | None = None  # time of its valid entry on the heap


@dataclass(slots=True, eq=False)
class _OnlineHost:
    """Host online: its URLs, and its address."""

    host: Host
    numbers: deque[int] = field(default_factory=deque)
    polls: deque[int] = field(default_factory=deque)
    credit: float = 0.0  # visits owed to polls, as far as new URLs had to wait with them
    turns: list[tuple[int, bool, float]] = field(default_factory=list)  # taken: number, is a poll, credit
    held: bool = False
    address: str = ""
    ready_at: float = 0.0
    server: _OnlineAddress = field(default_factory=lambda: _OnlineAddress(0.0))
    unasked: bool = False  # its URLs are answered without a request

    def __len__(self) -> int:
        return len(self.numbers) + len(self.polls)

    def take_with_poll_share(self, most: int, share: float) -> list[int]:
        """Take the next URLs, `share` of them polls as long as both kinds wait."""
        numbers, polls, credit, turns = self.numbers, self.polls, self.credit, self.turns
        while len(turns) < most and (numbers or polls):
            is_poll = credit + share >= 1.0 if numbers and polls else not numbers
            owed = share - is_poll if numbers and polls else 0.0
            credit += owed
            turns.append(((polls if is_poll else numbers).popleft(), is_poll, owed))
        return [number for number, _, _ in turns]

    def return_unused(self, unused: Sequence[int]) -> None:
        """Return unused URLs to the heads of their queues; only used turns count."""
        left = set(unused)
        for number, is_poll, owed in reversed(self.turns):
            if number in left:
                (self.polls if is_poll else self.numbers).appendleft(number)
            else:
                self.credit += owed
        self.turns.clear()


class Workbench:
    """Hosts online. Times are epoch seconds."""

    def __init__(self, quiet_until: float = 0.0, *, polls: Container[int] = (), share: float = 0.5) -> None:
        """`quiet_until`: an address without known state is not visited before then.

        `polls` are the numbers of known pages, and `share` is their part of a host's visits.
        """
        self._quiet_until, self._polls, self._share = quiet_until, polls, share
        self._hosts: dict[Host, _OnlineHost] = {}
        self._servers: dict[str, _OnlineAddress] = {}
        self._heap: list[tuple[float, int, _OnlineAddress]] = []
        self._turn = count()
        self._now = 0.0
        self.url_count = 0  # that can be taken: those with fetch workers are not counted

    def __len__(self) -> int:
        """Number of hosts online, including those with fetch workers."""
        return len(self._hosts)

    def __contains__(self, host: Host) -> bool:
        return host in self._hosts

    def add_urls(self, host: Host, state: HostState, numbers: Iterable[int]) -> None:
        """Add URLs to the end of a host's queue; the host comes online if it was not."""
        entry = self._hosts.get(host)
        if entry is None:
            entry = self._hosts[host] = _OnlineHost(host)
            self._set_address(entry, state)
        idle = not len(entry) and not entry.held
        before = len(entry)
        if self._polls:
            for number in numbers:
                (entry.polls if number in self._polls else entry.numbers).append(number)
        else:
            entry.numbers.extend(numbers)
        self.url_count += len(entry) - before
        if idle:
            self._enqueue_host(entry)

    def _set_address(self, entry: _OnlineHost, state: HostState) -> None:
        """Put a host at the address in its state; the address rests as long as any known state says."""
        entry.ready_at = 0.0 if state.verdict else state.ready_at
        entry.address, entry.unasked = state.address, bool(state.verdict)
        if state.verdict or not state.address:
            entry.server = _OnlineAddress(0.0)
            return
        server = self._servers.get(state.address)
        if server is None:
            if len(self._servers) > 1024 + 2 * len(self._hosts):
                self._drop_rested_addresses()
            server = self._servers[state.address] = _OnlineAddress(self._quiet_until)
        server.ready_at = max(server.ready_at, state.address_ready_at)
        entry.server = server

    def _enqueue_host(self, entry: _OnlineHost) -> None:
        heappush(entry.server.hosts, (entry.ready_at, next(self._turn), entry))
        self._schedule_address(entry.server)

    def _schedule_address(self, server: _OnlineAddress) -> None:
        if server.held or not server.hosts:
            server.due = None
            return
        due = max(server.ready_at, server.hosts[0][0])
        if server.due != due:
            server.due = due
            heappush(self._heap, (due, next(self._turn), server))

    def _drop_rested_addresses(self) -> None:
        """Drop addresses without hosts whose rest is over: they hold no information."""
        servers = self._servers.items()
        self._servers = {a: s for a, s in servers if s.hosts or s.held or s.ready_at > self._now}

    def take_ready_host(self, now: float, most: int, most_without_asking: int) -> TakenHost | None:
        """Take the host that has been ready longest, with its address, for one fetch worker alone."""
        due = self.ready_at()
        if due is None or due > now:
            return None
        self._now = now
        _, _, server = heappop(self._heap)
        server.due = None
        _, _, entry = heappop(server.hosts)
        entry.held = server.held = True
        queue = entry.numbers
        if entry.unasked:
            most = most_without_asking
        if entry.polls:
            numbers = entry.take_with_poll_share(most, self._share)
        elif len(queue) <= most:
            numbers = list(queue)
            queue.clear()
        else:
            numbers = [queue.popleft() for _ in range(most)]
        self.url_count -= len(numbers)
        return TakenHost(entry.host, entry.address, numbers)

    def ready_at(self) -> float | None:
        """Time at which the next host can be taken; None when no host is waiting."""
        heap = self._heap
        while heap:
            due, _, server = heap[0]
            if server.due == due:
                return due
            heappop(heap)  # an outdated entry
        return None

    def return_host(self, host: Host, state: HostState, unused: Sequence[int]) -> bool:
        """Free the host at `state.ready_at` and the address at `state.address_ready_at`.

        Unused URLs go back to the head of the queue. False: no URL is left,
        and the host is no longer online.
        """
        entry, server = self._hosts[host], self._hosts[host].server
        assert entry.held, f"{host} was not out"
        entry.held = server.held = False
        server.ready_at = max(server.ready_at, state.address_ready_at)
        if entry.turns:
            entry.return_unused(unused)
        else:
            entry.numbers.extendleft(reversed(unused))
        self.url_count += len(unused)
        self._set_address(entry, state)
        if len(entry):
            self._enqueue_host(entry)
        else:
            del self._hosts[host]
        # Both addresses may rest longer now: the one visited, and the one the host turned out to have.
        self._schedule_address(server)
        self._schedule_address(entry.server)
        return bool(len(entry))

    def take_offline(self, host: Host) -> list[int]:
        """Take a host offline that no fetch worker has; returns the numbers of its URLs."""
        entry = self._hosts.pop(host)
        assert not entry.held, f"{host} is out"
        entry.server.hosts = [item for item in entry.server.hosts if item[2] is not entry]
        heapify(entry.server.hosts)
        self._schedule_address(entry.server)
        self.url_count -= len(entry)
        return [*entry.numbers, *entry.polls]

    def hosts_with_urls(self) -> list[Host]:
        """Hosts online with URLs that can be taken, now or later."""
        return [entry.host for entry in self._hosts.values() if len(entry)]

    def ready_host_count(self, now: float) -> int:
        """Number of hosts that could be taken now; of hosts that share an address, one."""
        ready = {id(server) for due, _, server in self._heap if due <= now and server.due == due}
        return len(ready)


class DelayedRetries:
    """Tickets ordered by the end of their rest, in epoch seconds."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Host]] = []

    def add_ticket(self, until: float, number: int, host: Host) -> None:
        heappush(self._heap, (until, number, host))

    def ready_at(self) -> float | None:
        """End of the first rest; None if there are no tickets."""
        return self._heap[0][0] if self._heap else None

    def pop_rested(self, now: float) -> Iterator[tuple[Host, int]]:
        """Remove and yield the tickets whose rest is over."""
        while self._heap and self._heap[0][0] <= now:
            _, number, host = heappop(self._heap)
            yield host, number

    def hosts(self) -> list[Host]:
        return [host for _, _, host in self._heap]

    def remove_host(self, host: Host) -> list[int]:
        """Remove and return the tickets of a host that leaves."""
        left = [number for _, number, name in self._heap if name == host]
        if left:
            self._heap = [entry for entry in self._heap if entry[2] != host]
            heapify(self._heap)
        return left


def polls_by_host(links: Iterable[Request]) -> dict[Host, list[Request]]:
    """Group known pages by host, marked as polls."""
    polls: dict[Host, list[Request]] = {}
    for link in links:
        polled = msgspec.structs.replace(link, door=FrontierEntry.POLLED, was=link.was or OutcomeKind.PAGE)
        polls.setdefault(host_of(link.url), []).append(polled)
    return polls
