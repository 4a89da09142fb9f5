"""Numbered URLs that are owed an outcome soon: online, resting, or with fetch workers.

The front log holds them, so that a kill loses none. A new ticket goes either to its host on the
workbench, or to those that rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from fieldmouse.frontier.distributor import Distributor
from fieldmouse.frontier.holding import Holding
from fieldmouse.frontier.parts import FrontierParts
from fieldmouse.frontier.resting import Resting
from fieldmouse.frontier.workbench import Lease, Workbench
from fieldmouse.outcome import OutcomeKind
from fieldmouse.records import Door, Errand, Link, Ticket
from fieldmouse.url import Host, host_of

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Link).decode


class Tickets:
    """Front log, and the path from it to the workbench."""

    def __init__(
        self,
        parts: FrontierParts,
        resting: Resting,
        distributor: Distributor,
        workbench: Workbench,
        *,
        set_back: float,
        polls: int,
        poll_numbers: set[int],
        holding: Holding | None,
    ) -> None:
        """`set_back`: seconds by which the clock was set back since the checkpoint.

        `poll_numbers` receives the numbers of polls; links that `holding` holds stay in place.
        """
        front = self._front = parts.front
        self._hosts, self._resting = parts.hosts, resting
        self._distributor, self._workbench = distributor, workbench
        self._set_back = set_back
        self._restored = [(number, _decode(row)) for number, row in front.live.items()]
        self._poll_numbers, self._holding = poll_numbers, holding
        poll_numbers.update([number for number, link in self._restored if link.door is Door.POLLED])
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
                self._front.strike((number,))
                number = self._add_ticket(link)
            host = host_of(link.url)
            if self._holding is not None and self._holding.holds(link):
                self._held.setdefault(host, []).append(number)
            elif link.not_before > now:
                self._resting.put(link.not_before, number, host)
            else:
                online.setdefault(host, []).append(number)
        self._restored.clear()
        self._distributor.restore(online)

    def _add_ticket(self, link: Link) -> int:
        (number,) = self._front.add((_encode(link),))
        if link.door is Door.POLLED:
            self._poll_numbers.add(number)
        return number

    def get(self, numbers: Iterable[int]) -> tuple[Ticket, ...]:
        live = self._front.live
        return tuple([Ticket(number, _decode(live[number])) for number in numbers])

    def take_polls(self, now: float, most: int, most_without_asking: int) -> Errand | None:
        """Take polls of a host that may be visited now; other tickets leave the workbench for now."""
        while (lease := self._workbench.take(now, most, most_without_asking)) is not None:
            state = self._hosts.get(lease.host)
            tickets = self._polls_among(lease)
            if tickets:
                return Errand(lease.host, lease.address, tickets, state)
            self._workbench.give_back(lease.host, state, ())
        return None

    def _polls_among(self, lease: Lease) -> tuple[Ticket, ...]:
        """Return the polls of a lease; its other tickets are put aside."""
        tickets = self.get(lease.numbers)
        rest = [ticket.number for ticket in tickets if ticket.door is not Door.POLLED]
        if rest:
            self._set_aside.setdefault(lease.host, []).extend(rest)
        return tuple([ticket for ticket in tickets if ticket.door is Door.POLLED])

    def bring_back(self) -> None:
        """Return tickets that were put aside to their hosts."""
        for host, numbers in self._set_aside.items():
            self._workbench.put(host, self._hosts.get(host), numbers)
        self._set_aside.clear()

    def seat_rested(self, now: float) -> None:
        """Put tickets whose rest is over back online."""
        for host, number in self._resting.rested(now):
            self._distributor.seat(host, (number,))

    def poll(self, links: Sequence[Link]) -> None:
        """Put known links online, regardless of the policy: the caller passes only those that are due."""
        lines: dict[Host, list[bytes]] = {}
        for link in links:
            polled = msgspec.structs.replace(link, door=Door.POLLED, was=link.was or OutcomeKind.PAGE)
            lines.setdefault(host_of(link.url), []).append(_encode(polled))
        for host, rows in lines.items():
            numbers = self._front.add(rows)
            self._poll_numbers.update(numbers)
            self._distributor.seat(host, numbers)
        self.polls += len(links)

    def again(self, number: int, link: Link, now: float) -> None:
        """Visit `link` instead of the ticket, under a new number; a ticket that is not open is ignored."""
        if not self._front.strike((number,)):
            return
        self._poll_numbers.discard(number)
        host = host_of(link.url)
        new_number = self._add_ticket(link)
        if link.not_before > now:
            self._resting.put(link.not_before, new_number, host)
        else:
            self._distributor.seat(host, (new_number,))

    def strike(self, numbers: Iterable[int]) -> int:
        """Close tickets that have an outcome; returns how many were open, polls not counted."""
        polls = 0
        if self.polls:
            numbers = list(numbers)
            rows = map(self._front.live.get, numbers)
            polls = sum(_decode(row).door is Door.POLLED for row in rows if row is not None)
            self.polls -= polls
            self._poll_numbers.difference_update(numbers)
        return self._front.strike(numbers) - polls
