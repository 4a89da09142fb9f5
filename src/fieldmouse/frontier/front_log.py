"""Log of every URL that is online, leased or on its way to the indexer, so that a kill loses none.

A URL gets a ticket number when it goes online, and is struck out when its outcome
is durable. A ticket that comes and goes between two checkpoints never touches the
disk. When most rows of the log are obsolete it is rewritten.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from fieldmouse.storage.log import Log, decode_record, records
from fieldmouse.storage.superseded_files import SupersededFiles, delete_unnamed

_encode = msgspec.msgpack.Encoder().encode
_decode_entry = msgspec.msgpack.Decoder(tuple[list[tuple[int, bytes]], list[int]]).decode
_REWRITE_AT = 1 << 20
_PART = 4096  # tickets per record
_LEAP = 1 << 24  # numbers given out after the last checkpoint are unknown: skip past them


class FrontLogState(msgspec.Struct, frozen=True, array_like=True):
    """Number and length of the log, and the number of the next ticket."""

    serial: int = 0
    length: int = 0
    snapshot: int = 0
    next_number: int = 1


class FrontLog:
    """Open tickets by number, each with its encoded link."""

    def __init__(self, directory: Path, state: FrontLogState | None = None):
        self._directory = directory
        self._leftovers = SupersededFiles()
        self._next = state.next_number + _LEAP if state else 1
        state = state or FrontLogState()
        self._serial, self._snapshot = state.serial, state.snapshot
        self.open_tickets = read_open_tickets(directory, state)
        self._log = Log(directory / _name(state.serial), state.length)
        self._fresh: dict[int, bytes] = {}
        self._gone: list[int] = []

    def begin(self) -> None:
        """Cut and delete everything written after the checkpoint."""
        delete_unnamed(self._directory, "front-*.log", [_name(self._serial)])
        self._log.begin()

    def __len__(self) -> int:
        return len(self.open_tickets)

    def add(self, links: Iterable[bytes]) -> list[int]:
        """Give each link a number unlike that of any open ticket, now or at any sealed state."""
        tickets = dict(enumerate(links, self._next))
        self._next += len(tickets)
        self.open_tickets.update(tickets)
        self._fresh.update(tickets)
        return list(tickets)

    def remove(self, numbers: Iterable[int]) -> int:
        """Close these tickets; returns how many were open."""
        struck = 0
        for number in numbers:
            if self.open_tickets.pop(number, None) is not None:
                struck += 1
                if self._fresh.pop(number, None) is None:
                    self._gone.append(number)
        return struck

    def seal(self) -> tuple[FrontLogState, list[Path]]:
        if self._log.length > _REWRITE_AT + 4 * self._snapshot:
            self._leftovers.add([self._log.path])
            self._log.close()
            self._serial += 1
            self._log = Log(self._directory / _name(self._serial))
            self._fresh, self._gone = self.open_tickets, []
            self._write()
            self._snapshot = self._log.length
        else:
            self._write()
        self._fresh, self._gone = {}, []
        self._leftovers.seal()
        state = FrontLogState(self._serial, self._log.flush(), self._snapshot, self._next)
        return state, [self._log.path]

    def _write(self) -> None:
        tickets = list(self._fresh.items())
        for start in range(0, len(tickets), _PART):
            self._log.append(_encode((tickets[start : start + _PART], [])))
        for start in range(0, len(self._gone), _PART):
            self._log.append(_encode(([], self._gone[start : start + _PART])))

    def committed(self) -> None:
        self._leftovers.committed()

    def close(self) -> None:
        self._log.close()


def read_open_tickets(directory: Path, state: FrontLogState) -> dict[int, bytes]:
    """Read the tickets that were open at that state; reads only."""
    live: dict[int, bytes] = {}
    path = directory / _name(state.serial)
    for _, record in records(path, length=state.length):
        tickets, gone = decode_record(path, _decode_entry, record)
        live.update(tickets)
        for number in gone:
            live.pop(number, None)
    return live


def _name(serial: int) -> str:
    return f"front-{serial}.log"
