"""Tickets: numbered URLs that are online, resting, with fetch workers or on their way to the indexer.

The front log (`front_log.py`) holds them, so that a kill loses none. A URL gets a ticket number when it goes
online, and the ticket is closed when its outcome is durable. A ticket that comes and goes
between two checkpoints never touches the disk. A new ticket goes either to its host on the
workbench or, after a failure, to those that rest.

In a refresh, URLs that were waiting before it can be held back. They are distinguished from new
links by the time at which they were seen; a time in the future was noted while the clock was
ahead, so that URL was waiting, too. Held URLs are moved to their host's queue, and nothing is
taken from queues in that run. Nothing of this is stored: a later run finds all URLs in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush

import msgspec

from fieldmouse.frontier.distributor import Distributor
from fieldmouse.frontier.state import FrontierParts
from fieldmouse.frontier.workbench import TakenHost, Workbench
from fieldmouse.types.reason import OutcomeKind
from fieldmouse.types.request import HostVisit, Origin, QueuedRequest, Request
from fieldmouse.url import Host, host_of


class RestingTickets:
    """Tickets ordered by the end of their rest, in epoch seconds."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Host]] = []

    def put(self, until: float, number: int, host: Host) -> None:
        heappush(self._heap, (until, number, host))

    def ready_at(self) -> float | None:
        """End of the first rest; None if there are no tickets."""
        return self._heap[0][0] if self._heap else None

    def pop_rested(self, now: float) -> Iterator[tuple[Host, int]]:
        """Remove and yield the tickets whose rest is over."""
        while self._heap and self._heap[0][0] <= now:
            _, number, host = heappop(self._heap)
            yield host, number

    def remove_host(self, host: Host) -> list[int]:
        """Remove and return the tickets of a host that leaves."""
        left = [number for _, number, name in self._heap if name == host]
        if left:
            self._heap = [entry for entry in self._heap if entry[2] != host]
            heapify(self._heap)
        return left


_decode = msgspec.msgpack.Decoder(Request).decode


class HeldUrls:
    """URLs discovered before `before` (epoch seconds) are left alone; `now` is the time of opening."""

    def __init__(self, before: float, now: float, parts: FrontierParts):
        self._before, self._now, self._ready, self._queues = before, now, parts.ready, parts.queues

    def is_held(self, link: Request) -> bool:
        """Whether a URL that was waiting when the frontier was opened is left alone."""
        return link.door is not Origin.POLLED and not self._before <= link.seen_at <= self._now

    def begin(self) -> None:
        """Move held URLs of the ready queue to their host's queue; the others keep their order."""
        for _ in range(len(self._ready)):
            item = self._ready.pop()
            assert item is not None
            host, row = item
            if self.is_held(_decode(row)):
                self._queues.append(host, row)
            else:
                self._ready.push((item,))


_encode = msgspec.msgpack.Encoder().encode


class Tickets:
    """Front log, and the path from it to the workbench."""

    def __init__(
        self,
        parts: FrontierParts,
        distributor: Distributor,
        workbench: Workbench,
        *,
        set_back: float,
        polls: int,
        poll_numbers: set[int],
        holding: HeldUrls | None,
    ) -> None:
        """`set_back`: seconds by which the clock was set back since the checkpoint.

        `poll_numbers` receives the numbers of polls; links that `holding` holds stay in place.
        """
        front = self._front = parts.front
        self._hosts, self.resting = parts.hosts, RestingTickets()
        self._distributor, self._workbench = distributor, workbench
        self._set_back = set_back
        self._restored = [(number, _decode(row)) for number, row in front.open_tickets.items()]
        self._poll_numbers, self._holding = poll_numbers, holding
        poll_numbers.update([number for number, link in self._restored if link.door is Origin.POLLED])
        self.polls = polls  # in any place
        self._held: dict[Host, list[int]] = {}  # online at the time of opening, and left alone
        self._set_aside: dict[Host, list[int]] = {}  # off the workbench while only polls are wanted

    @property
    def held(self) -> int:
        """Number of tickets that were online at the time of opening and are left alone."""
        return sum(map(len, self._held.values()))

    def restore(self, now: float) -> None:
        """Put tickets that were open before a restart back into place."""
        online: dict[Host, list[int]] = {}
        for number, link in self._restored:
            if self._set_back and link.not_before > now:
                link = msgspec.structs.replace(link, not_before=link.not_before - self._set_back)
                self._front.remove((number,))
                number = self._add_ticket(link)
            host = host_of(link.url)
            if self._holding is not None and self._holding.is_held(link):
                self._held.setdefault(host, []).append(number)
            elif link.not_before > now:
                self.resting.put(link.not_before, number, host)
            else:
                online.setdefault(host, []).append(number)
        self._restored.clear()
        self._distributor.restore(online)

    def _add_ticket(self, link: Request) -> int:
        (number,) = self._front.add((_encode(link),))
        if link.door is Origin.POLLED:
            self._poll_numbers.add(number)
        return number

    def tickets_of(self, numbers: Iterable[int]) -> tuple[QueuedRequest, ...]:
        live = self._front.open_tickets
        return tuple([QueuedRequest(number, _decode(live[number])) for number in numbers])

    def take_polls(self, now: float, most: int, most_without_asking: int) -> HostVisit | None:
        """Take polls of a host that may be visited now; other tickets leave the workbench for now."""
        while (lease := self._workbench.take(now, most, most_without_asking)) is not None:
            state = self._hosts.get(lease.host)
            tickets = self._polls_among(lease)
            if tickets:
                return HostVisit(lease.host, lease.address, tickets, state)
            self._workbench.give_back(lease.host, state, ())
        return None

    def _polls_among(self, lease: TakenHost) -> tuple[QueuedRequest, ...]:
        """Return the polls of a lease; its other tickets are put aside."""
        tickets = self.tickets_of(lease.numbers)
        rest = [ticket.number for ticket in tickets if ticket.origin is not Origin.POLLED]
        if rest:
            self._set_aside.setdefault(lease.host, []).extend(rest)
        return tuple([ticket for ticket in tickets if ticket.origin is Origin.POLLED])

    def restore_set_aside(self) -> None:
        """Return tickets that were put aside to their hosts."""
        for host, numbers in self._set_aside.items():
            self._workbench.put(host, self._hosts.get(host), numbers)
        self._set_aside.clear()

    def requeue_rested(self, now: float) -> None:
        """Put tickets whose rest is over back online."""
        for host, number in self.resting.pop_rested(now):
            self._distributor.put_online(host, (number,))

    def poll(self, links: Sequence[Request]) -> None:
        """Put known links online, regardless of the policy: the caller passes only those that are due."""
        for host, polls in polls_by_host(links).items():
            numbers = self._front.add(map(_encode, polls))
            self._poll_numbers.update(numbers)
            self._distributor.put_online(host, numbers)
        self.polls += len(links)

    def retry(self, number: int, link: Request, now: float) -> None:
        """Visit `link` instead of the ticket, under a new number; a ticket that is not open is ignored."""
        if not self._front.remove((number,)):
            return
        self._poll_numbers.discard(number)
        host = host_of(link.url)
        new_number = self._add_ticket(link)
        if link.not_before > now:
            self.resting.put(link.not_before, new_number, host)
        else:
            self._distributor.put_online(host, (new_number,))

    def remove(self, numbers: Iterable[int]) -> int:
        """Close tickets that have an outcome; returns how many were open, polls not counted."""
        polls = 0
        if self.polls:
            numbers = list(numbers)
            rows = map(self._front.open_tickets.get, numbers)
            polls = sum(_decode(row).door is Origin.POLLED for row in rows if row is not None)
            self.polls -= polls
            self._poll_numbers.difference_update(numbers)
        return self._front.remove(numbers) - polls


def polls_by_host(links: Iterable[Request]) -> dict[Host, list[Request]]:
    """Group known pages by host, marked as polls."""
    polls: dict[Host, list[Request]] = {}
    for link in links:
        polled = msgspec.structs.replace(link, door=Origin.POLLED, was=link.was or OutcomeKind.PAGE)
        polls.setdefault(host_of(link.url), []).append(polled)
    return polls
