"""Append-only log files of framed records, durable writes, and deferred deletion of files.

Every durable file of a crawl that grows is a log: a sequence of length, checksum and
payload. Nothing in it is changed in place. A checkpoint stores the length of
each log. After a kill each log is cut back to the stored length, so that all
logs match the same checkpoint. Invariant: all bytes before a stored length have
reached the disk before the checkpoint did.

A kill brings back the last committed state, and with it every file it names. So
a superseded file is deleted only when a state sealed after it was superseded has been
committed.

A file is safe when its content *and* its name are. The name belongs to the
directory and reaches the disk only when the directory is synced.
"""

from __future__ import annotations

import logging
import os
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec

from fieldmouse.errors import DamagedFile, MissingFile

T = TypeVar("T")

FRAME = struct.Struct("<II")
_READ_AHEAD = 1 << 20


def frame_record(record: bytes) -> bytes:
    """A record with its frame, as it is stored in a log."""
    return FRAME.pack(len(record), zlib.crc32(record)) + record


class Log:
    """Append-only file of records, written after a known length.

    Opening changes nothing: a file that is missing or too short raises `MissingFile` or `DamagedFile`.
    Bytes after the length are cut, and a new file is created, by `roll_back_to_checkpoint` or by
    the first write.
    """

    def __init__(self, path: Path, length: int = 0):
        """Continue `path` after `length` bytes; 0 starts a new log."""
        self.path = path
        self._file = -1
        self._begun = self._closed = False
        self._trouble: OSError | None = None  # a sync failed: it is unknown how much reached the disk
        self._parts: list[bytes] = []
        self._buffered = 0
        self._written = length
        try:
            self._file = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            if length:
                raise MissingFile(path) from None
            return
        size = os.fstat(self._file).st_size
        if size < length:
            self.close()
            raise DamagedFile(path, f"{length} bytes were written and synced, {size} are there")

    def roll_back_to_checkpoint(self) -> None:
        """Cut the file to its length, or create it. From here on the disk changes."""
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
        """Bytes appended, including those still in memory."""
        return self._written + self._buffered

    def append(self, record: bytes) -> int:
        """Add one record and return its offset."""
        assert record, "an empty record cannot be told from zeros that a crash left"
        return self.append_framed(frame_record(record))

    def append_framed(self, framed: bytes) -> int:
        """Add records framed by another log, and return the offset of the first."""
        offset = self.length
        self._parts.append(framed)
        self._buffered += len(framed)
        if self._buffered >= _READ_AHEAD:
            self.flush()
        return offset

    def flush(self) -> int:
        """Hand everything to the operating system; returns the length.

        If a write fails, all buffered data stays in memory and the file is cut back,
        so that no record is written after half a record.
        """
        if not self._begun:
            self.roll_back_to_checkpoint()
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
        """Wait until all flushed data has reached the disk. Safe to call from another thread.

        After a failure every call raises the same error: the system may have dropped the
        data it could not write, and a second sync would report success.
        """
        if self._trouble is not None:
            raise self._trouble
        try:
            if self._begun:
                os.fdatasync(self._file)
        except OSError as trouble:
            self._trouble = trouble
            raise

    def read_record(self, offset: int) -> bytes:
        """The record at `offset`, which must have been returned by `append`."""
        if offset >= self._written:
            self.flush()
        if self._file < 0:
            raise DamagedFile(self.path, f"there is no record at byte {offset}")
        return read_record_at(self._file, self.path, offset, self._written)

    def read_unchecked(self, offset: int, size: int) -> bytes:
        """Some bytes of the file without checks, to decide cheaply whether a full read is worthwhile."""
        if offset + size > self._written:
            self.flush()
        return os.pread(self._file, size, offset)

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
        """Close the file without writing, for an owner that failed to open all of its files."""
        if not getattr(self, "_closed", True) and self._file >= 0:
            os.close(self._file)


def read_record_at(handle: int, path: Path, offset: int, length: int) -> bytes:
    """The record at `offset` of an open log of which `length` bytes count."""
    size = check = 0
    head = os.pread(handle, FRAME.size, offset)
    if len(head) == FRAME.size:
        size, check = FRAME.unpack(head)
    if 0 < size <= length - offset - FRAME.size:
        record = os.pread(handle, size, offset + FRAME.size)
        if zlib.crc32(record) == check:
            return record
    raise DamagedFile(path, f"the record at byte {offset} does not match its checksum")


def read_records(path: Path, *, start: int = 0, length: int | None = None) -> Iterator[tuple[int, bytes]]:
    """Yield every record from `start` up to `length` with its offset.

    With a length, anything wrong before it raises `DamagedFile`. Without one the file may
    be growing or torn, and reading ends at the last whole record.
    """
    if length == 0:
        return
    try:
        file = path.open("rb")
    except FileNotFoundError:
        if length is None:
            raise
        raise MissingFile(path) from None
    # Local names: logs have millions of records, and a global lookup takes a tenth of the time per record.
    unpack, checksum, frame = FRAME.unpack_from, zlib.crc32, FRAME.size
    with file:
        file.seek(start)
        offset, held, position, have = start, b"", 0, 0
        while length is None or offset < length:
            # The buffer is cut only when it is used up: slicing it for each record would copy a megabyte.
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
                raise DamagedFile(path, wrong)
            return


def required_size(path: Path) -> int:
    """The length of a file that the journal names; raises `MissingFile`."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        raise MissingFile(path) from None


def decode_record(path: Path, decode: Callable[[bytes], T], record: bytes) -> T:
    """Decode a record. Its checksum is right, so an error means another kind of damage."""
    try:
        return decode(record)
    except msgspec.MsgspecError as trouble:
        raise DamagedFile(path, f"a record in it cannot be understood ({trouble})") from trouble


def length_of_whole_records(path: Path) -> int:
    """The length of a log up to its last whole record; 0 if there is no file."""
    length = 0
    if path.exists():
        for offset, record in read_records(path):
            length = offset + FRAME.size + len(record)
    return length


log = logging.getLogger(__name__)


class BestEffortLog(Log):
    """Log that continues the file at `path` after its last whole record."""

    def __init__(self, path: Path) -> None:
        self._given_up = False
        try:
            super().__init__(path, length_of_whole_records(path))
        except OSError as trouble:
            super().__init__(path)
            self._give_up(trouble)

    def roll_back_to_checkpoint(self) -> None:
        try:
            super().roll_back_to_checkpoint()
        except OSError as trouble:
            self._give_up(trouble)

    def append(self, record: bytes) -> int:
        return self.length if self._given_up else super().append(record)

    def flush(self) -> int:
        try:
            return self._written if self._given_up else super().flush()
        except OSError as trouble:
            self._give_up(trouble)
            return self._written

    def sync(self) -> None:
        try:
            if not self._given_up:
                super().sync()
        except OSError as trouble:
            self._give_up(trouble)

    def _give_up(self, trouble: OSError) -> None:
        self._given_up = True
        self._parts.clear()
        self._buffered = 0
        log.warning("`%s` is not written any further: %s; the crawl continues without it", self.path, trouble.strerror)


class SupersededFiles:
    """Superseded paths: first pending, then sealed without them, then deleted."""

    def __init__(self) -> None:
        self._superseded: list[Path] = []
        self._sealed: list[Path] = []

    def add(self, paths: Iterable[Path]) -> None:
        self._superseded.extend(paths)

    def seal(self) -> None:
        self._sealed.extend(self._superseded)
        self._superseded.clear()

    def on_checkpoint_committed(self) -> None:
        for path in self._sealed:
            path.unlink(missing_ok=True)
        self._sealed.clear()


def delete_unnamed_files(directory: Path, pattern: str, keep: Iterable[str]) -> None:
    """Delete files left by a kill that no checkpoint ever named."""
    kept = set(keep)
    for path in directory.glob(pattern):
        if path.name not in kept:
            path.unlink()


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class FileSyncer:
    """Sync of files that never tries again after a failure.

    After an error the operating system may have dropped the unwritten data, and a
    second call would report success.
    """

    def __init__(self) -> None:
        self._trouble: OSError | None = None

    def sync(self, files: Iterable[Path], directory: Path | None = None) -> None:
        """Make the content of `files` durable, then the names in `directory`."""
        if self._trouble is not None:
            raise self._trouble
        try:
            for path in files:
                handle = os.open(path, os.O_RDONLY)
                try:
                    os.fdatasync(handle)
                finally:
                    os.close(handle)
            if directory is not None:
                sync_directory(directory)
        except OSError as trouble:
            self._trouble = trouble
            raise


def make_directory(path: Path) -> None:
    """Make a directory and all missing parents, with durable names."""
    missing = [path]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for directory in reversed(missing):
        directory.mkdir(exist_ok=True)
        # We may not be allowed to open a parent that belongs to another user; then its names are not ours to
        # sync.
        with suppress(PermissionError):
            sync_directory(directory.parent)


@contextmanager
def atomic_write(path: Path, suffix: str = ".new", mode: int | None = None) -> Iterator[BinaryIO]:
    """Write a file atomically: a reader or a crash sees the old or the new one, never a part.

    Inside the block the file has `suffix` at the end of its name; if the block fails, it is deleted.
    `mode` sets the permissions from the first byte on; None means the default of the system.
    """
    fresh = path.with_name(path.name + suffix)
    try:
        if mode is not None:
            fresh.unlink(missing_ok=True)  # a file left by a kill may be readable by others
        with open(
            fresh, "wb", buffering=1 << 20, opener=partial(os.open, mode=0o666 if mode is None else mode)
        ) as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            yield file
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except BaseException:
        with suppress(OSError):  # an error here would hide the first one
            fresh.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def write_atomically(path: Path, content: bytes, mode: int | None = None) -> None:
    """Replace a file atomically, as `atomic_write` does, by `content`."""
    with atomic_write(path, mode=mode) as file:
        file.write(content)
