"""Known pages that an agent of a network asks for again, until it holds their hosts.

A poll never leaves the agent that has the page: its copy, its validators and its row in the ledger are here,
and so is what the poll shows. What others have to do with it is the host: nobody else may visit that
meanwhile. So the board is told which hosts we wish to have, and nothing of the polls themselves. Nothing
here outlives the process: which polls were under way the ledger knows, and asks again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from fieldmouse.clock import Clock
from fieldmouse.records import Door, Link, OutcomeKind
from fieldmouse.url import Host, host_of

REMIND = 30.0
"""Seconds after which a wish is said again: the board may have forgotten it, or we were fenced."""


class LeasedPolls:
    """By host as long as they wait for that, by their tickets afterwards."""

    def __init__(self, wish: Callable[[Sequence[Host]], None], clock: Clock):
        self._wish, self._clock = wish, clock
        self._waiting: dict[Host, list[Link]] = {}
        self._tickets: dict[int, Link] = {}
        self._queued = 0
        self._remind_at = 0.0

    def __len__(self) -> int:
        """Polls whose outcome is not durable, wherever they are."""
        return self._queued + len(self._tickets)

    def __contains__(self, number: object) -> bool:
        """Whether a ticket is a poll."""
        return number in self._tickets

    def wait(self, host: Host, links: Iterable[Link], *, wished: bool = True) -> None:
        """These wait until we hold the host; the board hears of it, unless nobody wants it any more."""
        line = self._waiting.setdefault(host, [])
        before = len(line)
        line.extend(links)
        self._queued += len(line) - before
        if not line:
            del self._waiting[host]
        elif wished and not before:
            self._wish([host])

    def take(self, host: Host) -> list[Link]:
        """We hold the host: those that waited for it, which do so no longer."""
        line = self._waiting.pop(host, [])
        self._queued -= len(line)
        return line

    def remind(self, now: float) -> None:
        """Say the wishes again, if it is time."""
        if now >= self._remind_at:
            self._remind_at = now + REMIND
            if self._waiting:
                self._wish(list(self._waiting))

    def add(self, number: int, link: Link) -> int:
        """It has a ticket now; returns its number."""
        self._tickets[number] = link
        return number

    def link(self, number: int) -> Link | None:
        return self._tickets.get(number)

    def strike(self, number: int) -> Link | None:
        """The ticket is done with; None if it was no poll."""
        return self._tickets.pop(number, None)


def polls_by_host(links: Iterable[Link]) -> dict[Host, list[Link]]:
    """Known pages as the links by which they are asked for again."""
    lines: dict[Host, list[Link]] = {}
    for link in links:
        polled = msgspec.structs.replace(link, door=Door.POLLED, was=link.was or OutcomeKind.PAGE)
        lines.setdefault(host_of(link.url), []).append(polled)
    return lines
