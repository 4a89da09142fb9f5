"""Append-only files of framed records, and the one way they are made whole again.

Every durable file of a crawl that grows is a `Log`: length, checksum, payload,
again and again. Nothing in it is ever changed in place. A checkpoint notes how
long each log is; after a kill each is cut back to the noted length, so that all
of them show the same moment. Invariant: what lies before a noted length has
reached the disk before the note did.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from fieldmouse.errors import Damaged, Missing

T = TypeVar("T")

FRAME = struct.Struct("<II")
_READ_AHEAD = 1 << 20


class Log:
    """An append-only file of records, for writing behind a known length.

    Opening one only looks: the file is there and long enough, or it is damaged.
    What lies behind the length is cut, and a new file gets its name, at `begin`,
    or with the first write.
    """

    def __init__(self, path: Path, length: int = 0):
        """Go on in `path` behind `length` bytes; 0 starts it anew."""
        self.path = path
        self._file = -1
        self._begun = self._closed = False
        self._trouble: OSError | None = None  # a sync failed: nobody knows what reached the disk
        self._parts: list[bytes] = []
        self._buffered = 0
        self._written = length
        try:
            self._file = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            if length:
                raise Missing(path) from None
            return
        size = os.fstat(self._file).st_size
        if size < length:
            self.close()
            raise Damaged(path, f"{length} bytes were written and synced, {size} are there")

    def begin(self) -> None:
        """Make the file what it was at its length: from here on the disk changes."""
        if self._begun:
            return
        if self._file < 0:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        if os.fstat(self._file).st_size > self._written:
            os.ftruncate(self._file, self._written)
        os.lseek(self._file, self._written, os.SEEK_SET)
        self._begun = True

    @property
    def length(self) -> int:
        """Bytes appended so far, those still in memory included."""
        return self._written + self._buffered

    def append(self, record: bytes) -> int:
        """Add one record and return the offset where it will stand."""
        assert record, "an empty record cannot be told from zeros that a crash left"
        offset = self.length
        self._parts.append(FRAME.pack(len(record), zlib.crc32(record)))
        self._parts.append(record)
        self._buffered += FRAME.size + len(record)
        if self._buffered >= _READ_AHEAD:
            self.flush()
        return offset

    def flush(self) -> int:
        """Hand everything to the operating system; returns the length.

        If it refuses, what was not handed over stays here, and what was is taken
        back, so that nobody writes behind half a record.
        """
        if not self._begun:
            self.begin()
        if self._parts:
            whole = memoryview(b"".join(self._parts))
            self._parts = [whole.obj]  # type: ignore[list-item]
            try:
                while whole:
                    whole = whole[os.write(self._file, whole) :]
            except OSError:
                with suppress(OSError):
                    os.ftruncate(self._file, self._written)
                    os.lseek(self._file, self._written, os.SEEK_SET)
                raise
            self._parts.clear()
            self._written += self._buffered
            self._buffered = 0
        return self._written

    def sync(self) -> None:
        """Wait until what was flushed has reached the disk. Safe to call from another thread.

        A disk that failed once is not asked again: the system may have forgotten
        what it could not write, and would answer that all is well.
        """
        if self._trouble is not None:
            raise self._trouble
        try:
            if self._begun:
                os.fdatasync(self._file)
        except OSError as trouble:
            self._trouble = trouble
            raise

    def read(self, offset: int) -> bytes:
        """The record at `offset`, which must have been returned by `append`."""
        if offset >= self._written:
            self.flush()
        if self._file < 0:
            raise Damaged(self.path, f"there is no record at byte {offset}")
        return record_at(self._file, self.path, offset, self._written)

    def peek(self, offset: int, size: int) -> bytes:
        """Some bytes of the file, unchecked: for whoever wants to know whether a look is worth while."""
        if offset + size > self._written:
            self.flush()
        return os.pread(self._file, size, offset)

    def extend(self, framed: bytes) -> int:
        """Add records that another log has framed already, and return the offset of the first."""
        offset = self.length
        self._parts.append(framed)
        self._buffered += len(framed)
        if self._buffered >= _READ_AHEAD:
            self.flush()
        return offset

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            if self._parts:
                self.flush()
        finally:
            if self._file >= 0:
                os.close(self._file)

    def __del__(self) -> None:
        """Whoever could not open all of its files has forgotten this one: let go of it, and write nothing."""
        if not getattr(self, "_closed", True) and self._file >= 0:
            os.close(self._file)


def record_at(handle: int, path: Path, offset: int, length: int) -> bytes:
    """The record that stands at `offset` of an open log of which `length` bytes count."""
    size = check = 0
    head = os.pread(handle, FRAME.size, offset)
    if len(head) == FRAME.size:
        size, check = FRAME.unpack(head)
    if 0 < size <= length - offset - FRAME.size:
        record = os.pread(handle, size, offset + FRAME.size)
        if zlib.crc32(record) == check:
            return record
    raise Damaged(path, f"the record at byte {offset} does not match its checksum")


def records(path: Path, *, start: int = 0, length: int | None = None) -> Iterator[tuple[int, bytes]]:
    """Every record from `start` up to `length`, each with its offset.

    With a length, anything wrong before it is damage. Without one the file may
    be growing or torn, and reading ends at the last whole record.
    """
    if length == 0:
        return
    try:
        file = path.open("rb")
    except FileNotFoundError:
        if length is None:
            raise
        raise Missing(path) from None
    # Names of this function's own: logs have millions of records, and a look for a global is a tenth of one.
    unpack, checksum, frame = FRAME.unpack_from, zlib.crc32, FRAME.size
    with file:
        file.seek(start)
        offset, held, position, have = start, b"", 0, 0
        while length is None or offset < length:
            # The rest is cut off only when it is used up: slicing it for each record would copy a megabyte.
            size, check = unpack(held, position) if have - position >= frame else (-1, 0)
            end = position + frame + size
            if size > 0 and end <= have and (length is None or offset + end - position <= length):
                record = held[position + frame : end]
                if checksum(record) == check:
                    yield offset, record
                    offset += end - position
                    position = end
                    continue
                wrong = f"the record at byte {offset} does not match its checksum"
            elif size == 0 or (length is not None and offset + max(end - position, frame) > length):
                wrong = f"there is no record at byte {offset}"
            else:
                more = file.read(max(_READ_AHEAD, end - have))
                if more:
                    held, position = held[position:] + more, 0
                    have = len(held)
                    continue
                wrong = f"it ends at byte {offset + have - position}, {length} were written"
            if length is not None:
                raise Damaged(path, wrong)
            return


def size_of(path: Path) -> int:
    """The length of a file that the journal names."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        raise Missing(path) from None


def understood(path: Path, decode: Callable[[bytes], T], record: bytes) -> T:
    """What a record says. It is whole, so if it says nothing we know that is damage of another kind."""
    try:
        return decode(record)
    except msgspec.MsgspecError as trouble:
        raise Damaged(path, f"a record in it cannot be understood ({trouble})") from trouble


def whole_length(path: Path) -> int:
    """The length of a log up to its last whole record; 0 if there is no file."""
    length = 0
    if path.exists():
        for offset, record in records(path):
            length = offset + FRAME.size + len(record)
    return length
