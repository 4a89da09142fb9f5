"""What must be remembered so that hosts can come and go: parcels that are out, and ids taken in.

A part of the frontier like the others, and there only in a crawl that exchanges hosts. It holds the
doors, the outbox and the keyring, and of each parcel that was made a note, until the receipt.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from fieldmouse.crawldir import Log
from fieldmouse.frontier.doors import Doors, DoorsState
from fieldmouse.frontier.keyring import Keyring
from fieldmouse.frontier.keysum import KeySum
from fieldmouse.frontier.leftovers import Leftovers, sweep
from fieldmouse.frontier.outbox import Outbox, OutboxState
from fieldmouse.frontier.parcel import ParcelLabel, ParcelSum
from fieldmouse.frontier.queueindex import HostNumbers
from fieldmouse.frontier.virtualizer import VirtualizerState
from fieldmouse.url import Host


class ParcelNote(msgspec.Struct, frozen=True, array_like=True):
    """A parcel that waits for its receipt. `serial` is its id here, and names its file."""

    serial: int
    host: Host
    to: str
    owed: int  # URLs in it that are owed an outcome
    length: int  # bytes


class Taken(msgspec.Struct, frozen=True, array_like=True):
    """Which parcels of one sender were adopted: these serials, and all before `oldest`."""

    oldest: int = 0
    serials: frozenset[int] = frozenset()

    def __contains__(self, serial: int) -> bool:
        return serial < self.oldest or serial in self.serials

    def plus(self, label: ParcelLabel) -> Taken:
        """What the sender will not send again need not be remembered one by one."""
        oldest = max(self.oldest, label.oldest)
        serials = self.serials | {label.serial}
        return Taken(oldest, frozenset(serial for serial in serials if serial >= oldest))


class ShipmentsState(msgspec.Struct, frozen=True, array_like=True):
    """All of it at one moment."""

    doors: DoorsState = DoorsState()
    outbox: OutboxState = OutboxState()
    keyring: VirtualizerState = VirtualizerState()
    next_serial: int = 1
    parcels: tuple[ParcelNote, ...] = ()
    taken: dict[str, Taken] = {}
    foreign: tuple[int, int] = (0, 0)  # keys here that are neither settled nor waiting: count and sum


class Shipments:
    """Doors, outbox and keyring; `parcels` and `receipts` are what the last checkpoint holds."""

    def __init__(
        self,
        directory: Path,
        state: ShipmentsState | None,
        numbers: HostNumbers,
        ours: Callable[[Host], bool],
    ) -> None:
        state = state or ShipmentsState()
        self._directory = directory
        self.outbox = Outbox(directory, state.outbox, numbers)
        self.keyring = Keyring(directory, state.keyring, numbers)
        self.doors = Doors(directory, state.doors, self.outbox, ours)
        self.next_serial = state.next_serial
        self.foreign = KeySum(*state.foreign)
        self._notes = {note.serial: note for note in state.parcels}
        self._opened = [Log(self.path(note.serial), note.length) for note in state.parcels]
        self._taken = dict(state.taken)
        self.parcels, self.receipts = tuple(state.parcels), dict(state.taken)
        self._sealed = self.parcels, self.receipts
        self._unsynced: list[Path] = []
        self._leftovers = Leftovers()

    def begin(self) -> None:
        """Cut and delete what came after the checkpoint."""
        sweep(self._directory, "parcel-*.log", map(parcel_file, self._notes))
        for parcel in self._opened:
            parcel.begin()
            parcel.close()
        for part in (self.outbox, self.keyring, self.doors):
            part.begin()

    @property
    def oldest(self) -> int:
        """The serial of the oldest parcel that may be sent again; the next one's if there is none."""
        return min(self._notes, default=self.next_serial)

    def path(self, serial: int) -> Path:
        return self._directory / parcel_file(serial)

    def packed(self, label: ParcelLabel, total: ParcelSum) -> None:
        """A parcel was written; it can be sent when a checkpoint knows of it."""
        path = self.path(label.serial)
        length = path.stat().st_size
        self._notes[label.serial] = ParcelNote(label.serial, label.host, label.to, total.owed, length)
        self._unsynced.append(path)
        self.next_serial = label.serial + 1

    def forget(self, serial: int) -> None:
        """There is a receipt for this parcel. One that is forgotten already, or never was, is passed over."""
        if self._notes.pop(serial, None) is not None:
            self._leftovers.add([self.path(serial)])

    def knows(self, label: ParcelLabel) -> bool:
        """Whether this parcel was taken in, or will not be sent again since somebody did."""
        return label.serial in self._taken.get(label.sender, Taken())

    def took(self, label: ParcelLabel) -> None:
        self._taken[label.sender] = self._taken.get(label.sender, Taken()).plus(label)

    def seal(self) -> tuple[ShipmentsState, list[Path]]:
        doors, moved = self.doors.seal()
        outbox, unsent = self.outbox.seal()
        keyring, keys = self.keyring.seal()
        self._leftovers.seal()
        self._sealed = tuple(self._notes.values()), dict(self._taken)
        foreign = (self.foreign.count, self.foreign.total)
        state = ShipmentsState(doors, outbox, keyring, self.next_serial, *self._sealed, foreign)
        unsynced, self._unsynced = self._unsynced, []
        return state, [*moved, *unsent, *keys, *unsynced]

    def committed(self) -> None:
        self.parcels, self.receipts = self._sealed
        self._leftovers.committed()
        for part in (self.outbox, self.keyring, self.doors):
            part.committed()

    def close(self) -> None:
        for parcel in self._opened:
            parcel.close()
        for part in (self.outbox, self.keyring, self.doors):
            part.close()


def parcel_file(serial: int) -> str:
    return f"parcel-{serial}.log"
