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
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import count
from typing import NamedTuple

from fieldmouse.records import HostState
from fieldmouse.url import Host


class Lease(NamedTuple):
    """Host taken by a fetch worker, and the numbers of the URLs to visit."""

    host: Host
    address: str
    numbers: list[int]


class _Spot:
    """Address: the time at which it may be visited again, and its hosts that have URLs, by ready time."""

    __slots__ = ("due", "held", "hosts", "ready_at")

    def __init__(self, ready_at: float) -> None:
        self.ready_at = ready_at
        self.hosts: list[tuple[float, int, _Desk]] = []
        self.held = False
        self.due: float | None = None  # time of its valid entry on the heap


class _Desk:
    """Host online: its URLs, and its address."""

    __slots__ = (
        "address", "credit", "held", "host", "numbers", "polls", "ready_at", "spot", "turns", "unasked"
    )  # fmt: skip

    def __init__(self, host: Host) -> None:
        self.host = host
        self.numbers: deque[int] = deque()
        self.polls: deque[int] = deque()
        self.credit = 0.0  # visits owed to polls, as far as new URLs had to wait with them
        self.turns: list[tuple[int, bool, float]] = []  # taken together: number, whether a poll, its credit
        self.held = False
        self.address = ""
        self.ready_at = 0.0
        self.spot = _Spot(0.0)
        self.unasked = False  # its URLs are answered without a request

    def __len__(self) -> int:
        return len(self.numbers) + len(self.polls)

    def share_out(self, most: int, share: float) -> list[int]:
        """Take the next URLs, `share` of them polls as long as both kinds wait."""
        numbers, polls, credit, turns = self.numbers, self.polls, self.credit, self.turns
        while len(turns) < most and (numbers or polls):
            is_poll = credit + share >= 1.0 if numbers and polls else not numbers
            owed = share - is_poll if numbers and polls else 0.0
            credit += owed
            turns.append(((polls if is_poll else numbers).popleft(), is_poll, owed))
        return [number for number, _, _ in turns]

    def put_back(self, unused: Sequence[int]) -> None:
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
        self._desks: dict[Host, _Desk] = {}
        self._spots: dict[str, _Spot] = {}
        self._heap: list[tuple[float, int, _Spot]] = []
        self._turn = count()
        self._now = 0.0
        self.urls = 0  # that can be taken: those with fetch workers are not counted

    def __len__(self) -> int:
        """Number of hosts online, including those with fetch workers."""
        return len(self._desks)

    def __contains__(self, host: Host) -> bool:
        return host in self._desks

    def put(self, host: Host, state: HostState, numbers: Iterable[int]) -> None:
        """Add URLs to the end of a host's queue; the host comes online if it was not."""
        desk = self._desks.get(host)
        if desk is None:
            desk = self._desks[host] = _Desk(host)
            self._seat(desk, state)
        idle = not len(desk) and not desk.held
        before = len(desk)
        if self._polls:
            for number in numbers:
                (desk.polls if number in self._polls else desk.numbers).append(number)
        else:
            desk.numbers.extend(numbers)
        self.urls += len(desk) - before
        if idle:
            self._line_up(desk)

    def _seat(self, desk: _Desk, state: HostState) -> None:
        """Put a host at the address in its state; the address rests as long as any known state says."""
        desk.ready_at = 0.0 if state.verdict else state.ready_at
        desk.address, desk.unasked = state.address, bool(state.verdict)
        if state.verdict or not state.address:
            desk.spot = _Spot(0.0)
            return
        spot = self._spots.get(state.address)
        if spot is None:
            if len(self._spots) > 1024 + 2 * len(self._desks):
                self._forget_quiet()
            spot = self._spots[state.address] = _Spot(self._quiet_until)
        spot.ready_at = max(spot.ready_at, state.address_ready_at)
        desk.spot = spot

    def _line_up(self, desk: _Desk) -> None:
        heappush(desk.spot.hosts, (desk.ready_at, next(self._turn), desk))
        self._schedule(desk.spot)

    def _schedule(self, spot: _Spot) -> None:
        if spot.held or not spot.hosts:
            spot.due = None
            return
        due = max(spot.ready_at, spot.hosts[0][0])
        if spot.due != due:
            spot.due = due
            heappush(self._heap, (due, next(self._turn), spot))

    def _forget_quiet(self) -> None:
        """Drop addresses without hosts whose rest is over: they hold no information."""
        spots = self._spots.items()
        self._spots = {a: s for a, s in spots if s.hosts or s.held or s.ready_at > self._now}

    def take(self, now: float, most: int, most_without_asking: int) -> Lease | None:
        """Take the host that has been ready longest, with its address, for one fetch worker alone."""
        due = self.ready_at()
        if due is None or due > now:
            return None
        self._now = now
        _, _, spot = heappop(self._heap)
        spot.due = None
        _, _, desk = heappop(spot.hosts)
        desk.held = spot.held = True
        line = desk.numbers
        if desk.unasked:
            most = most_without_asking
        if desk.polls:
            numbers = desk.share_out(most, self._share)
        elif len(line) <= most:
            numbers = list(line)
            line.clear()
        else:
            numbers = [line.popleft() for _ in range(most)]
        self.urls -= len(numbers)
        return Lease(desk.host, desk.address, numbers)

    def ready_at(self) -> float | None:
        """Time at which the next host can be taken; None when no host is waiting."""
        heap = self._heap
        while heap:
            due, _, spot = heap[0]
            if spot.due == due:
                return due
            heappop(heap)  # an outdated entry
        return None

    def give_back(self, host: Host, state: HostState, unused: Sequence[int]) -> bool:
        """Free the host at `state.ready_at` and the address at `state.address_ready_at`.

        Unused URLs go back to the head of the queue. False: no URL is left,
        and the host is no longer online.
        """
        desk, spot = self._desks[host], self._desks[host].spot
        assert desk.held, f"{host} was not out"
        desk.held = spot.held = False
        spot.ready_at = max(spot.ready_at, state.address_ready_at)
        if desk.turns:
            desk.put_back(unused)
        else:
            desk.numbers.extendleft(reversed(unused))
        self.urls += len(unused)
        self._seat(desk, state)
        if len(desk):
            self._line_up(desk)
        else:
            del self._desks[host]
        # Both addresses may rest longer now: the one visited, and the one the host turned out to have.
        self._schedule(spot)
        self._schedule(desk.spot)
        return bool(len(desk))

    def send_off(self, host: Host) -> list[int]:
        """Take a host offline that no fetch worker has; returns the numbers of its URLs."""
        desk = self._desks.pop(host)
        assert not desk.held, f"{host} is out"
        desk.spot.hosts = [entry for entry in desk.spot.hosts if entry[2] is not desk]
        heapify(desk.spot.hosts)
        self._schedule(desk.spot)
        self.urls -= len(desk)
        return [*desk.numbers, *desk.polls]

    def waiting_hosts(self) -> list[Host]:
        """Hosts online with URLs that can be taken, now or later."""
        return [desk.host for desk in self._desks.values() if len(desk)]

    def ready_hosts(self, now: float) -> int:
        """Number of hosts that could be taken now; of hosts that share an address, one."""
        ready = {id(spot) for due, _, spot in self._heap if due <= now and spot.due == due}
        return len(ready)
