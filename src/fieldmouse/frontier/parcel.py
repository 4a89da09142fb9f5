"""A host on its way from one crawl to another: one file, whole or not at all.

A label says whose it is and what is known of the host; then come its URLs that are owed an
outcome, links that were found, and the keys of all its URLs; a sum at the end shows that nothing
is missing. Records have checksums like those of any log, and are read one at a time, so that a
host of any size can move. Queue and keys may be left out, where a board holds them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np

from fieldmouse.crawldir import Log, records, size_of, understood
from fieldmouse.errors import Damaged
from fieldmouse.frontier.keytable import Keys
from fieldmouse.records import HostState
from fieldmouse.url import Host


class Belongings(msgspec.Struct, frozen=True, array_like=True):
    """What others keep of a host, and it takes along."""

    robots_txt: bytes = b""  # as it was answered; b"" if it is not known
    robots_txt_until: float = 0.0  # when that is too old to be obeyed
    learned: bytes = b""  # rows of whoever chose where the host goes; nobody here reads them


class ParcelLabel(msgspec.Struct, frozen=True, array_like=True, tag="label"):
    """Whose parcel this is, and for whom. Sender and serial are its id."""

    sender: str
    serial: int
    to: str
    host: Host
    at: float  # when the sender sealed it, by its clock
    oldest: int  # no parcel of this sender before this one will be sent again
    secret: int  # shows which key secret the sender has
    state: HostState | None = None  # None: only links, the host itself is not in it
    belongings: Belongings = Belongings()

    @property
    def id(self) -> tuple[str, int]:
        return self.sender, self.serial


class ParcelLinks(msgspec.Struct, frozen=True, array_like=True, tag="links"):
    """Links as they are written: URLs that are owed an outcome, or links that were found."""

    rows: list[bytes]
    owed: bool


class ParcelKeys(msgspec.Struct, frozen=True, array_like=True, tag="keys"):
    """Keys of URLs that were accepted of this host, 8 bytes each."""

    keys: bytes

    def array(self) -> Keys:
        return np.frombuffer(self.keys, np.uint64)


class ParcelSum(msgspec.Struct, frozen=True, array_like=True, tag="sum"):
    """The last record: what there should have been before it."""

    owed: int
    found: int
    keys: int


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ParcelLabel | ParcelLinks | ParcelKeys | ParcelSum).decode


class ParcelWriter:
    """Writes a parcel; it counts when a checkpoint names it."""

    def __init__(self, path: Path, label: ParcelLabel) -> None:
        self._log = Log(path)
        self._log.append(_encode(label))
        self._owed = self._found = self._keys = 0

    def links(self, rows: Sequence[bytes], *, owed: bool) -> None:
        if not rows:
            return
        self._log.append(_encode(ParcelLinks(list(rows), owed)))
        if owed:
            self._owed += len(rows)
        else:
            self._found += len(rows)

    def keys(self, keys: Keys) -> None:
        self._log.append(_encode(ParcelKeys(keys.tobytes())))
        self._keys += keys.size

    def finish(self) -> ParcelSum:
        total = ParcelSum(self._owed, self._found, self._keys)
        self._log.append(_encode(total))
        self._log.close()
        return total


class Parcel:
    """A parcel that was read through and found whole."""

    def __init__(self, path: Path, length: int | None = None) -> None:
        """`length` is what the sender noted of it; one that was received is as long as its file."""
        self.path, self._length = path, size_of(path) if length is None else length
        label, owed, found, keys, total = None, 0, 0, 0, None
        for offset, record in self._records():
            if total is not None or (isinstance(record, ParcelLabel) != (offset == 0)):
                raise Damaged(path, f"the record at byte {offset} does not belong there")
            match record:
                case ParcelLabel():
                    label = record
                case ParcelLinks():
                    owed, found = (
                        (owed + len(record.rows), found) if record.owed else (owed, found + len(record.rows))
                    )
                case ParcelKeys():
                    keys += record.array().size
                case ParcelSum():
                    total = record
        if label is None or total != ParcelSum(owed, found, keys):
            raise Damaged(path, "it is not whole")
        self.label, self.total = label, total

    def _records(self) -> Iterator[tuple[int, ParcelLabel | ParcelLinks | ParcelKeys | ParcelSum]]:
        for offset, record in records(self.path, length=self._length):
            yield offset, understood(self.path, _decode, record)

    def contents(self) -> Iterator[ParcelLinks | ParcelKeys]:
        """Links and keys, in the order in which they were put in."""
        for _, record in self._records():
            if isinstance(record, ParcelLinks | ParcelKeys):
                yield record
