"""Which hosts may be visited now.

The workbench is a heap of addresses ordered by ready time. Invariant: every
address on it has a host with at least one URL, and no address is both on the
workbench and in a robot's hands. Taking a host takes its address; hosts that
share one take turns, the one that has waited longest first.

A host whose name was not looked up yet, and one whose URLs are all answered
without asking, stand under an address of their own: nobody is asked, so nobody
needs quiet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import count
from typing import NamedTuple

from fieldmouse.records import HostState
from fieldmouse.url import Host


class Lease(NamedTuple):
    """A host in a robot's hands, and the numbers of the URLs to visit."""

    host: Host
    address: str
    numbers: list[int]


class _Spot:
    """An address: when it may be asked again, and its hosts that have URLs, by ready time."""

    __slots__ = ("due", "held", "hosts", "ready_at")

    def __init__(self, ready_at: float) -> None:
        self.ready_at = ready_at
        self.hosts: list[tuple[float, int, _Desk]] = []
        self.held = False
        self.due: float | None = None  # the time of its entry on the heap that counts


class _Desk:
    """A host online: its URLs, and the spot it stands at."""

    __slots__ = ("address", "held", "host", "numbers", "ready_at", "spot", "unasked")

    def __init__(self, host: Host) -> None:
        self.host = host
        self.numbers: deque[int] = deque()
        self.held = False
        self.address = ""
        self.ready_at = 0.0
        self.spot = _Spot(0.0)
        self.unasked = False  # its URLs are answered without asking


class Workbench:
    """The hosts online. Times are epoch seconds."""

    def __init__(self, quiet_until: float = 0.0) -> None:
        """`quiet_until`: no address we know nothing of is asked before then."""
        self._quiet_until = quiet_until
        self._desks: dict[Host, _Desk] = {}
        self._spots: dict[str, _Spot] = {}
        self._heap: list[tuple[float, int, _Spot]] = []
        self._turn = count()
        self._now = 0.0
        self.urls = 0  # that can be taken: those in robots' hands are not counted

    def __len__(self) -> int:
        """Hosts online, those in robots' hands included."""
        return len(self._desks)

    def __contains__(self, host: Host) -> bool:
        return host in self._desks

    def put(self, host: Host, state: HostState, numbers: Iterable[int]) -> None:
        """Add URLs to the end of a host's line; the host comes online if it was not."""
        desk = self._desks.get(host)
        if desk is None:
            desk = self._desks[host] = _Desk(host)
            self._seat(desk, state)
        idle = not desk.numbers and not desk.held
        before = len(desk.numbers)
        desk.numbers.extend(numbers)
        self.urls += len(desk.numbers) - before
        if idle:
            self._line_up(desk)

    def _seat(self, desk: _Desk, state: HostState) -> None:
        """Put a desk at the address its state names, which is as quiet as anyone knows of."""
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
        """Drop addresses without hosts whose time has come: they have nothing left to remember."""
        spots = self._spots.items()
        self._spots = {a: s for a, s in spots if s.hosts or s.held or s.ready_at > self._now}

    def take(self, now: float, most: int, most_without_asking: int) -> Lease | None:
        """The host that has been ready longest, with its address, for one robot alone."""
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
        if len(line) <= most:
            numbers = list(line)
            line.clear()
        else:
            numbers = [line.popleft() for _ in range(most)]
        self.urls -= len(numbers)
        return Lease(desk.host, desk.address, numbers)

    def ready_at(self) -> float | None:
        """When the next host can be taken; None when no host is waiting for its time."""
        heap = self._heap
        while heap:
            due, _, spot = heap[0]
            if spot.due == due:
                return due
            heappop(heap)  # of a time that no longer holds
        return None

    def give_back(self, host: Host, state: HostState, unused: Sequence[int]) -> bool:
        """Free the host at `state.ready_at` and the address at `state.address_ready_at`.

        Unused URLs go back to the head of the line. False: nothing is left in it,
        and the host is no longer online.
        """
        desk, spot = self._desks[host], self._desks[host].spot
        assert desk.held, f"{host} was not out"
        desk.held = spot.held = False
        spot.ready_at = max(spot.ready_at, state.address_ready_at)
        desk.numbers.extendleft(reversed(unused))
        self.urls += len(unused)
        self._seat(desk, state)
        if desk.numbers:
            self._line_up(desk)
        else:
            del self._desks[host]
        # Either may have become quieter: the address it was visited at, and the one it turned out to have.
        self._schedule(spot)
        self._schedule(desk.spot)
        return bool(desk.numbers)

    def holds(self, host: Host) -> bool:
        """Whether the host is online and in no robot's hands."""
        desk = self._desks.get(host)
        return desk is not None and not desk.held

    def send_off(self, host: Host) -> list[int]:
        """Take a host that nobody holds offline; returns the numbers of its URLs."""
        desk = self._desks.pop(host)
        assert not desk.held, f"{host} is out"
        desk.spot.hosts = [entry for entry in desk.spot.hosts if entry[2] is not desk]
        heapify(desk.spot.hosts)
        self._schedule(desk.spot)
        self.urls -= len(desk.numbers)
        return list(desk.numbers)

    def ready_hosts(self, now: float) -> int:
        """Hosts a robot could take now; of those that share an address, one."""
        ready = {id(spot) for due, _, spot in self._heap if due <= now and spot.due == due}
        return len(ready)
