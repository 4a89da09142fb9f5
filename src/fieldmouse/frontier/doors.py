"""Which hosts are here, which are leaving, and which are elsewhere.

A host is here unless it was said otherwise; in a crawl that holds only some hosts, `ours` says it of
those that never moved. Whatever belongs to another is put into the outbox. Rows are written
when a host moves, latest wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from pathlib import Path

import msgspec

from fieldmouse.crawldir import Log, records, understood
from fieldmouse.frontier.leftovers import Leftovers, sweep
from fieldmouse.frontier.outbox import Outbox
from fieldmouse.frontier.ready import Item
from fieldmouse.url import Host

_REWRITE_AT = 1 << 20


class Where(IntEnum):
    """Where a host is, as its row says it."""

    HERE = 0
    LEAVING = 1  # frozen: it goes when nothing of it is in the air
    ELSEWHERE = 2


class DoorRow(msgspec.Struct, frozen=True, array_like=True):
    """A host that moved."""

    host: Host
    where: Where
    to: str = ""  # for whom it leaves


class DoorsState(msgspec.Struct, frozen=True, array_like=True):
    """Which log, how much of it counts, and its length when it was written anew."""

    serial: int = 0
    length: int = 0
    snapshot: int = 0


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(DoorRow).decode


class Doors:
    """The hosts that moved, and what keeps others' links out."""

    def __init__(
        self, directory: Path, state: DoorsState | None, outbox: Outbox, ours: Callable[[Host], bool]
    ) -> None:
        state = state or DoorsState()
        self._directory, self._outbox, self._ours = directory, outbox, ours
        self._serial, self._snapshot = state.serial, state.snapshot
        self._rows = read_doors(directory, state)
        self._log = Log(directory / doors_file(state.serial), state.length)
        self._leftovers = Leftovers()

    def begin(self) -> None:
        """Cut and delete what came after the checkpoint."""
        sweep(self._directory, "doors-*.log", [doors_file(self._serial)])
        self._log.begin()

    def where(self, host: Host) -> Where:
        row = self._rows.get(host)
        if row is not None:
            return row.where
        return Where.HERE if self._ours(host) else Where.ELSEWHERE

    def here(self, host: Host) -> bool:
        return self.where(host) is Where.HERE

    def move(self, host: Host, where: Where, to: str = "") -> None:
        row = self._rows[host] = DoorRow(host, where, to)
        self._log.append(_encode(row))

    def leaving(self) -> list[DoorRow]:
        return [row for row in self._rows.values() if row.where is Where.LEAVING]

    def drawing(self, draw: Callable[[], Item | None]) -> Callable[[], Item | None]:
        """The same source of links, without those of hosts that are not here: they are owed, elsewhere."""

        def drawn() -> Item | None:
            while (item := draw()) is not None and not self.here(item[0]):
                self._outbox.owe(*item)
            return item

        return drawn

    def seal(self) -> tuple[DoorsState, list[Path]]:
        if self._log.length > _REWRITE_AT + 4 * self._snapshot:
            self._leftovers.add([self._log.path])
            self._log.close()
            self._serial += 1
            self._log = Log(self._directory / doors_file(self._serial))
            for row in self._rows.values():
                self._log.append(_encode(row))
            self._snapshot = self._log.length
        self._leftovers.seal()
        return DoorsState(self._serial, self._log.flush(), self._snapshot), [self._log.path]

    def committed(self) -> None:
        self._leftovers.committed()

    def close(self) -> None:
        self._log.close()


def read_doors(directory: Path, state: DoorsState) -> dict[Host, DoorRow]:
    """Every host that moved, and where it was at that state; reads only."""
    path = directory / doors_file(state.serial)
    rows: Iterator[DoorRow] = (
        understood(path, _decode, record) for _, record in records(path, length=state.length)
    )
    return {row.host: row for row in rows}


def doors_file(serial: int) -> str:
    return f"doors-{serial}.log"
