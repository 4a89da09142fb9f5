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
from collections.abc import Iterator
from pathlib import Path

from fieldmouse.errors import Damaged

_FRAME = struct.Struct("<II")
_READ_AHEAD = 1 << 20


class Log:
    """An append-only file of records, opened for writing at a known length."""

    def __init__(self, path: Path, length: int = 0):
        """Open `path` and cut it to `length` bytes; 0 starts it anew."""
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        size = os.fstat(self._file).st_size
        if size < length:
            os.close(self._file)
            raise Damaged(path, f"{length} bytes were written and synced, {size} are there")
        if size > length:
            os.ftruncate(self._file, length)
        os.lseek(self._file, length, os.SEEK_SET)
        self._parts: list[bytes] = []
        self._buffered = 0
        self._written = length
        self._closed = False

    @property
    def length(self) -> int:
        """Bytes appended so far, those still in memory included."""
        return self._written + self._buffered

    def append(self, record: bytes) -> int:
        """Add one record and return the offset where it will stand."""
        offset = self.length
        self._parts.append(_FRAME.pack(len(record), zlib.crc32(record)))
        self._parts.append(record)
        self._buffered += _FRAME.size + len(record)
        if self._buffered >= _READ_AHEAD:
            self.flush()
        return offset

    def flush(self) -> int:
        """Hand everything to the operating system; returns the length."""
        if self._parts:
            whole = memoryview(b"".join(self._parts))
            self._parts.clear()
            while whole:
                whole = whole[os.write(self._file, whole) :]
            self._written += self._buffered
            self._buffered = 0
        return self._written

    def sync(self) -> None:
        """Wait until what was flushed has reached the disk. Safe to call from another thread."""
        os.fdatasync(self._file)

    def read(self, offset: int) -> bytes:
        """The record at `offset`, which must have been returned by `append`."""
        if offset >= self._written:
            self.flush()
        head = os.pread(self._file, _FRAME.size, offset)
        size, check = _FRAME.unpack(head)
        record = os.pread(self._file, size, offset + _FRAME.size)
        if len(record) != size or zlib.crc32(record) != check:
            raise Damaged(self.path, f"the record at byte {offset} does not match its checksum")
        return record

    def close(self) -> None:
        if not self._closed:
            self.flush()
            os.close(self._file)
            self._closed = True


def records(path: Path, *, start: int = 0, length: int | None = None) -> Iterator[tuple[int, bytes]]:
    """Every record from `start` up to `length`, each with its offset.

    With a length, anything wrong before it is damage. Without one the file may
    be growing or torn, and reading ends at the last whole record.
    """
    with path.open("rb") as file:
        file.seek(start)
        offset, held = start, b""
        while length is None or offset < length:
            record, used = _first(held)
            if record is None:
                more = file.read(max(_READ_AHEAD, used - len(held)))
                if not more:
                    if length is None:
                        return
                    raise Damaged(path, f"ends at byte {offset}, {length} were written")
                held += more
                continue
            size, check = _FRAME.unpack_from(held)
            if zlib.crc32(record) != check:
                if length is None:
                    return
                raise Damaged(path, f"the record at byte {offset} does not match its checksum")
            yield offset, record
            offset += used
            # Slicing the rest for each record would copy a megabyte each time.
            position = used
            while len(held) - position >= _FRAME.size and (length is None or offset < length):
                size, check = _FRAME.unpack_from(held, position)
                end = position + _FRAME.size + size
                if end > len(held):
                    break
                record = held[position + _FRAME.size : end]
                if zlib.crc32(record) != check:
                    break
                yield offset, record
                offset += end - position
                position = end
            held = held[position:]


def whole_length(path: Path) -> int:
    """The length of a log up to its last whole record; 0 if there is no file."""
    length = 0
    if path.exists():
        for offset, record in records(path):
            length = offset + _FRAME.size + len(record)
    return length


def _first(held: bytes) -> tuple[bytes | None, int]:
    """The first record in `held` and the bytes it takes up, or None and the bytes it would need."""
    if len(held) < _FRAME.size:
        return None, _FRAME.size
    size, _ = _FRAME.unpack_from(held)
    need = _FRAME.size + size
    if len(held) < need:
        return None, need
    return held[_FRAME.size : need], need


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable: a new file is not safe until its name is."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_whole(path: Path, content: bytes) -> None:
    """Replace a small file so that a reader or a crash sees the old or the new one, never half."""
    fresh = path.with_name(path.name + ".new")
    with fresh.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(path)
    sync_directory(path.parent)
