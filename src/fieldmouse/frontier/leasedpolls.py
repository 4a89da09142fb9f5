"""Polls (re-crawls of known pages) of one agent of a cluster, until it holds their hosts.

A poll never leaves the agent that has the page: its copy, its validators and its row in the page table
are here, and the result of the poll goes there. Other agents only matter for the host: they must not
visit it at the same time. So the coordinator is asked for the hosts, and does not see the polls. Nothing
here outlives the process: the page table lists the polls under way, and they are made again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from fieldmouse.clock import Clock
from fieldmouse.records import Door, Link, OutcomeKind
from fieldmouse.url import Host, host_of

REMIND = 30.0
"""Seconds after which a request for a host is repeated: the coordinator may have lost it, or we were fenced.
"""


class LeasedPolls:
    """Polls by host until the host is leased, then by ticket number."""

    def __init__(self, wish: Callable[[Sequence[Host]], None], clock: Clock):
        self._wish, self._clock = wish, clock
        self._waiting: dict[Host, list[Link]] = {}
        self._tickets: dict[int, Link] = {}
        self._queued = 0
        self._remind_at = 0.0

    def __len__(self) -> int:
        """Number of polls whose outcome is not durable."""
        return self._queued + len(self._tickets)

    def __contains__(self, number: object) -> bool:
        """Whether a ticket is a poll."""
        return number in self._tickets

    def wait(self, host: Host, links: Iterable[Link], *, wished: bool = True) -> None:
        """Keep polls until we hold the host; with `wished`, request the host."""
        links_waiting = self._waiting.setdefault(host, [])
        before = len(links_waiting)
        links_waiting.extend(links)
        self._queued += len(links_waiting) - before
        if not links_waiting:
            del self._waiting[host]
        elif wished and not before:
            self._wish([host])

    def take(self, host: Host) -> list[Link]:
        """Remove and return the polls that were waiting for a host that we now hold."""
        links = self._waiting.pop(host, [])
        self._queued -= len(links)
        return links

    def remind(self, now: float) -> None:
        """Repeat the requests for hosts, if it is time."""
        if now >= self._remind_at:
            self._remind_at = now + REMIND
            if self._waiting:
                self._wish(list(self._waiting))

    def add(self, number: int, link: Link) -> int:
        """Give a poll a ticket; returns its number."""
        self._tickets[number] = link
        return number

    def link(self, number: int) -> Link | None:
        return self._tickets.get(number)

    def strike(self, number: int) -> Link | None:
        """Close the ticket; None if it was no poll."""
        return self._tickets.pop(number, None)


def polls_by_host(links: Iterable[Link]) -> dict[Host, list[Link]]:
    """Group known pages by host, marked as polls."""
    lines: dict[Host, list[Link]] = {}
    for link in links:
        polled = msgspec.structs.replace(link, door=Door.POLLED, was=link.was or OutcomeKind.PAGE)
        lines.setdefault(host_of(link.url), []).append(polled)
    return lines
