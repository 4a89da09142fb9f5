"""Links of hosts that are not here, until a parcel takes them along.

There are two kinds. A URL that is *owed* an outcome was accepted by some crawl, and there
is one of it in all crawls together: it moves from place to place and is never copied. One that
was only *found* may be told as often as you like, for whoever has the host asks its sieve.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from fieldmouse.frontier.queueindex import HostNumbers
from fieldmouse.frontier.virtualizer import QueueFiles, Virtualizer, VirtualizerState
from fieldmouse.url import Host

OUTBOX = QueueFiles("outbox", "outboxes")
_AT_ONCE = 512  # links
_TOLD = 1 << 16  # keys of links found lately
_OWED, _FOUND = b"\x01", b"\x00"  # before each link as it is written


class OutboxState(msgspec.Struct, frozen=True, array_like=True):
    """The queues, and how many URLs in them are owed an outcome."""

    queues: VirtualizerState = VirtualizerState()
    owed: int = 0


class Outbox:
    """A queue per host that is elsewhere, on disk."""

    def __init__(self, directory: Path, state: OutboxState | None, numbers: HostNumbers) -> None:
        state = state or OutboxState()
        self._queues = Virtualizer(directory, state.queues, numbers, files=OUTBOX)
        self._told: dict[Host, set[int]] = {}  # links found while the host was elsewhere, by key
        self._keys = 0  # in them
        self.owed = state.owed

    def begin(self) -> None:
        self._queues.begin()

    def owe(self, host: Host, link: bytes) -> None:
        self._queues.append(host, _OWED + link)
        self.owed += 1

    def tell(self, host: Host, key: int, link: bytes) -> None:
        """A link was found; one that was told lately, and went with a parcel or will, is not put in again."""
        told = self._told.setdefault(host, set())
        if key in told:
            return
        self._queues.append(host, _FOUND + link)
        told.add(key)
        self._keys += 1
        if self._keys > _TOLD:
            self._told.clear()
            self._keys = 0

    def pass_on(self, host: Host, link: bytes) -> None:
        """A link came in a parcel and its host has left: it follows, whether it stood here before or not."""
        self._queues.append(host, _FOUND + link)

    def came_home(self, host: Host) -> None:
        """Its links go to our sieve now, and no parcel has them: if it leaves again, tell them again."""
        self._keys -= len(self._told.pop(host, ()))

    def count(self, host: Host) -> int:
        return self._queues.count(host)

    def hosts(self) -> Iterator[Host]:
        """Every host with links here."""
        return (host for host, _ in self._queues.hosts())

    def take(self, host: Host) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """All links of a host, some at a time: those owed, and those found. They are no longer here."""
        while some := self._queues.take(host, _AT_ONCE):
            owed = [link[1:] for link in some if link[:1] == _OWED]
            self.owed -= len(owed)
            yield owed, [link[1:] for link in some if link[:1] == _FOUND]

    def seal(self) -> tuple[OutboxState, list[Path]]:
        queues, unsynced = self._queues.seal()
        return OutboxState(queues, self.owed), unsynced

    def committed(self) -> None:
        self._queues.committed()

    def close(self) -> None:
        self._queues.close()


def owed_links(rows: Iterator[bytes]) -> Iterator[bytes]:
    """Of links as they stand in the outbox, those that are owed an outcome."""
    return (row[1:] for row in rows if row[:1] == _OWED)
