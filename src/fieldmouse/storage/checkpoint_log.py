"""Journal of checkpoints: the newest whole checkpoint is the state of the crawl.

A checkpoint gives the length of every log of the crawl and the immutable
files that belong to it. It is written after all of these have been synced, and it is synced
before any other component learns about it. Recovery reads the newest whole record and cuts everything
else back to it.

An unreadable record is never taken for the end of the file. The reader searches for the next
whole record, so a flipped byte costs only the checkpoint it is in. An
incomplete record at the very end is normal: a kill during a write leaves one.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import msgspec

from fieldmouse.storage.log import FRAME, Log, frame_record, sync_directory, write_atomically

_REWRITE_AT = 4 << 20
_LONGEST = 1 << 28  # bytes: longer than any checkpoint

#: Predicate that tells whether a payload is a checkpoint; the journal does not know the format.
IsCheckpoint = Callable[[bytes], bool]


class BadSpan(msgspec.Struct, frozen=True):
    """Bytes of the journal that are not a whole record."""

    offset: int
    length: int
    what: str


class JournalReport(msgspec.Struct, frozen=True):
    """Content of a journal, determined without changing it."""

    records: int  # number of whole records
    newest: bytes | None  # the last whole record
    end: int  # where the last whole record ends
    bad: tuple[BadSpan, ...] = ()
    torn: int = 0  # bytes of an incomplete record at the end: normal after a kill

    @property
    def clean(self) -> bool:
        """Whether there are only whole records."""
        return not self.bad and not self.torn

    @property
    def newer_checkpoint_lost(self) -> bool:
        """Whether a bad record follows the newest whole one, so that a newer checkpoint may be lost."""
        return any(span.offset >= self.end for span in self.bad)


class CheckpointJournal:
    """File of checkpoints, newest last; only the newest counts. Opening it changes nothing."""

    def __init__(self, path: Path, readable: IsCheckpoint = bool):
        self.path = path
        self.report = inspect_journal_file(path, readable)
        self.latest = self.report.newest
        self._log: Log | None = None

    def repair_before_writing(self) -> None:
        """Prepare for the next checkpoint: remove bad records and make the name of the file durable."""
        if self._log is None:
            if self.report.clean:
                self._log = Log(self.path, self.report.end)
                self._log.roll_back_to_checkpoint()
                sync_directory(self.path.parent)
            else:
                self.compact()

    def compact(self) -> None:
        """Rewrite the file atomically with only the newest whole checkpoint."""
        if self._log is not None:
            self._log.close()
        content = b"" if self.latest is None else frame_record(self.latest)
        write_atomically(self.path, content)
        self.report = JournalReport(int(self.latest is not None), self.latest, len(content))
        self._log = Log(self.path, len(content))
        self._log.roll_back_to_checkpoint()

    def commit(self, checkpoint: bytes) -> None:
        """Make `checkpoint` the current one. When this returns it has reached the disk."""
        self.repair_before_writing()
        assert self._log is not None
        if self._log.length > _REWRITE_AT:
            self.compact()
        self._log.append(checkpoint)
        self._log.flush()
        self._log.sync()
        self.latest = checkpoint

    def close(self) -> None:
        if self._log is not None:
            self._log.close()


def inspect_journal_file(path: Path, readable: IsCheckpoint = bool) -> JournalReport:
    """Report on a journal. Safe at any time, also while a crawl writes it."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raw = b""
    records, newest, end, bad = 0, None, 0, list[BadSpan]()
    at = 0
    while at < len(raw):
        payload = whole_record_at(raw, at)
        if payload is not None and readable(payload):
            records, newest = records + 1, payload
            at = end = at + FRAME.size + len(payload)
            continue
        following = offset_of_next_record(raw, at + 1, readable)
        if following is None and _may_be_torn_record(raw, at, newest):
            return JournalReport(records, newest, end, tuple(bad), len(raw) - at)
        stop = len(raw) if following is None else following
        if payload is not None:
            what = "is not a checkpoint of a known format"
        elif raw.count(0, at, stop) == stop - at:
            what = "is all zeros"
        else:
            what = "does not match its checksum"
            if (whole := _payload_with_wrong_length(raw, at, stop)) is not None and readable(whole):
                # Only the length is wrong: up to the next record the checksum matches, so this is the record
                # as written.
                what, records, newest, end = "has a wrong length", records + 1, whole, stop
        bad.append(BadSpan(at, stop - at, what))
        at = stop
    return JournalReport(records, newest, end, tuple(bad))


def whole_record_at(raw: bytes, at: int) -> bytes | None:
    """The payload of the whole record at `at`, or None."""
    if len(raw) - at <= FRAME.size:
        return None
    size, check = FRAME.unpack_from(raw, at)
    if not 0 < size <= len(raw) - at - FRAME.size:
        return None
    payload = raw[at + FRAME.size : at + FRAME.size + size]
    return payload if zlib.crc32(payload) == check else None


def offset_of_next_record(raw: bytes, start: int, readable: IsCheckpoint = bool) -> int | None:
    """The offset of the next whole record from `start` on, or None."""
    payloads = ((at, whole_record_at(raw, at)) for at in range(start, len(raw) - FRAME.size))
    return next((at for at, payload in payloads if payload is not None and readable(payload)), None)


def _may_be_torn_record(raw: bytes, at: int, newest: bytes | None) -> bool:
    """Whether the rest of the file can be the beginning of a record that was being written."""
    left = len(raw) - at
    if left < FRAME.size:
        return raw.count(0, at) < left
    size, check = FRAME.unpack_from(raw, at)
    payload = raw[at + FRAME.size :]
    # Checkpoints are MessagePack maps with few fields: the upper half of the first byte is always the same.
    alike = newest is None or not payload or payload[0] >> 4 == newest[0] >> 4
    return len(payload) < size < _LONGEST and alike and zlib.crc32(payload) != check


def _payload_with_wrong_length(raw: bytes, at: int, stop: int) -> bytes | None:
    """The payload up to `stop`, if only its length field is wrong."""
    if stop - at <= FRAME.size:
        return None
    payload = raw[at + FRAME.size : stop]
    return payload if zlib.crc32(payload) == FRAME.unpack_from(raw, at)[1] else None
