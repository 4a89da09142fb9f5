"""Tickets for which an agent owes the coordinator an outcome, by number and by key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fieldmouse.records import Link
from fieldmouse.url import Host


class OwedTicket(NamedTuple):
    """A URL, and the lease under which its outcome is owed."""

    link: Link
    host: Host
    epoch: int
    key: int


class OwedTickets:
    """Tickets without duplicates: a URL granted again while in flight keeps its ticket."""

    def __init__(self) -> None:
        self._by_number: dict[int, OwedTicket] = {}
        self._numbers: dict[int, int] = {}
        self._last = 0

    def __iter__(self) -> Iterator[OwedTicket]:
        return iter(self._by_number.values())

    def next_number(self) -> int:
        """Return an unused number."""
        self._last += 1
        return self._last

    def add(self, link: Link, host: Host, epoch: int, key: int) -> int:
        """Add a ticket; returns its number."""
        number = self._numbers[key] = self.next_number()
        self._by_number[number] = OwedTicket(link, host, epoch, key)
        return number

    def is_flying(self, key: int, epoch: int) -> bool:
        """Whether that URL is owed already; if so, it now counts under this epoch."""
        number = self._numbers.get(key)
        if number is not None:
            self._by_number[number] = self._by_number[number]._replace(epoch=epoch)
        return number is not None

    def link(self, number: int) -> Link:
        return self._by_number[number].link

    def strike(self, number: int) -> OwedTicket | None:
        """Remove a ticket; None if it was not owed."""
        owed = self._by_number.pop(number, None)
        if owed is not None:
            del self._numbers[owed.key]
        return owed
