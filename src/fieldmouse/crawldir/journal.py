"""The one file that says what is true: the newest whole checkpoint in it.

A checkpoint names, for one moment, how long every log of the crawl is and which
immutable files belong to it. It is written after all of those have been synced,
and synced itself before anyone is told. Recovery reads the newest whole record and
cuts everything else back to it.

A record that cannot be read is never taken for the end. What follows is searched
for the next whole one, so a flipped byte costs the checkpoint it is in and no
other. Only the beginning of a record at the very end is ordinary: that is what a
kill in the middle of writing leaves.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import msgspec

from fieldmouse.crawldir.durable import sync_directory, write_whole
from fieldmouse.crawldir.log import FRAME, Log

_REWRITE_AT = 4 << 20
_LONGEST = 1 << 28  # bytes: no checkpoint is as long as that

Readable = Callable[[bytes], bool]
"""Whether a payload is a checkpoint: the journal itself does not know what one looks like."""


class BadSpan(msgspec.Struct, frozen=True):
    """Bytes of the journal that are no whole record."""

    offset: int
    length: int
    what: str


class JournalReport(msgspec.Struct, frozen=True):
    """What a journal holds, found without touching it."""

    records: int  # that are whole
    newest: bytes | None  # the last of them
    end: int  # where that one ends
    bad: tuple[BadSpan, ...] = ()
    torn: int = 0  # bytes at the end of a record whose writing was cut short: ordinary after a kill

    @property
    def clean(self) -> bool:
        """Nothing but whole records."""
        return not self.bad and not self.torn

    @property
    def overtaken(self) -> bool:
        """A bad record lies behind the newest whole one: a younger checkpoint may have been lost."""
        return any(span.offset >= self.end for span in self.bad)


class Journal:
    """Checkpoints, newest last; only the newest counts. Opening one changes nothing."""

    def __init__(self, path: Path, readable: Readable = bool):
        self.path = path
        self.report = inspect(path, readable)
        self.latest = self.report.newest
        self._log: Log | None = None

    def begin(self) -> None:
        """Make it ready for the next checkpoint, its own name durable and what was bad in it gone."""
        if self._log is None:
            if self.report.clean:
                self._log = Log(self.path, self.report.end)
                self._log.begin()
                sync_directory(self.path.parent)
            else:
                self.mend()

    def mend(self) -> None:
        """Keep the newest whole checkpoint and nothing else; a crash leaves the old file or the new one."""
        if self._log is not None:
            self._log.close()
        content = b"" if self.latest is None else framed(self.latest)
        write_whole(self.path, content)
        self.report = JournalReport(int(self.latest is not None), self.latest, len(content))
        self._log = Log(self.path, len(content))
        self._log.begin()

    def commit(self, checkpoint: bytes) -> None:
        """Make `checkpoint` the truth. When this returns it has reached the disk."""
        self.begin()
        assert self._log is not None
        if self._log.length > _REWRITE_AT:
            self.mend()
        self._log.append(checkpoint)
        self._log.flush()
        self._log.sync()
        self.latest = checkpoint

    def close(self) -> None:
        if self._log is not None:
            self._log.close()


def inspect(path: Path, readable: Readable = bool) -> JournalReport:
    """Look a journal over. Safe at any time, also while a crawl writes it."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raw = b""
    records, newest, end, bad = 0, None, 0, list[BadSpan]()
    at = 0
    while at < len(raw):
        payload = record_at(raw, at)
        if payload is not None and readable(payload):
            records, newest = records + 1, payload
            at = end = at + FRAME.size + len(payload)
            continue
        following = next_record(raw, at + 1, readable)
        if following is None and _begins_record(raw, at, newest):
            return JournalReport(records, newest, end, tuple(bad), len(raw) - at)
        stop = len(raw) if following is None else following
        if payload is not None:
            what = "is no checkpoint that we understand"
        elif raw.count(0, at, stop) == stop - at:
            what = "is nothing but zeros"
        else:
            what = "does not match its checksum"
            if (whole := _misnamed(raw, at, stop)) is not None and readable(whole):
                # Its length is wrong, but up to the next record everything matches: this is what was written.
                what, records, newest, end = "has a wrong length", records + 1, whole, stop
        bad.append(BadSpan(at, stop - at, what))
        at = stop
    return JournalReport(records, newest, end, tuple(bad))


def record_at(raw: bytes, at: int) -> bytes | None:
    """The payload of the whole record at `at`, or None."""
    if len(raw) - at <= FRAME.size:
        return None
    size, check = FRAME.unpack_from(raw, at)
    if not 0 < size <= len(raw) - at - FRAME.size:
        return None
    payload = raw[at + FRAME.size : at + FRAME.size + size]
    return payload if zlib.crc32(payload) == check else None


def next_record(raw: bytes, start: int, readable: Readable = bool) -> int | None:
    """Where the next whole record begins, from `start` on."""
    for at in range(start, len(raw) - FRAME.size):
        payload = record_at(raw, at)
        if payload is not None and readable(payload):
            return at
    return None


def _begins_record(raw: bytes, at: int, newest: bytes | None) -> bool:
    """Whether all that is left can be the beginning of a record that was being written."""
    left = len(raw) - at
    if left < FRAME.size:
        return raw.count(0, at) < left
    size, check = FRAME.unpack_from(raw, at)
    payload = raw[at + FRAME.size :]
    # Checkpoints are all maps of a few fields: the half of the byte that says so is always the same.
    alike = newest is None or not payload or payload[0] >> 4 == newest[0] >> 4
    return len(payload) < size < _LONGEST and alike and zlib.crc32(payload) != check


def _misnamed(raw: bytes, at: int, stop: int) -> bytes | None:
    """The payload up to `stop`, if only the length before it is wrong."""
    if stop - at <= FRAME.size:
        return None
    _, check = FRAME.unpack_from(raw, at)
    payload = raw[at + FRAME.size : stop]
    return payload if zlib.crc32(payload) == check else None


def framed(record: bytes) -> bytes:
    """A record as it stands in a log."""
    return FRAME.pack(len(record), zlib.crc32(record)) + record


def latest_checkpoint(path: Path, readable: Readable = bool) -> bytes | None:
    """The newest checkpoint, read without touching the file: for onlookers while a crawl runs."""
    return inspect(path, readable).newest
