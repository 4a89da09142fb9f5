"""Latest outcome time per URL of a log, for readers that merge several logs.

Only rows that decide whether a URL is a page count (`outcomes.is_statement`). Within one log
the last row wins, whatever the clock did; between logs, the row with the latest time. Sixteen bytes are
kept per URL, a key and a time, instead of its text. A log only grows, so the next call
continues where the last one ended; a log in which failures were taken back is read from the start.
"""

from __future__ import annotations

from array import array

import msgspec
import numpy as np
from numpy.typing import NDArray

from fieldmouse.crawldir.directory import CrawlDir, Identity
from fieldmouse.crawldir.log import records
from fieldmouse.crawldir.outcomes import hash_of, is_statement, rows
from fieldmouse.records import GONE, OutcomeKind, OutcomeRow

_MIN_BATCH = 1 << 18  # rows that are sorted in at a time, at least


class _RowHead(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The first fields of an `OutcomeRow`, enough for most rows."""

    url: str
    kind: OutcomeKind
    at: float
    depth: int = 0
    via: msgspec.Raw = msgspec.Raw()
    seen_at: float = 0.0
    status: int = 0


_decode_head = msgspec.msgpack.Decoder(_RowHead).decode
_decode = msgspec.msgpack.Decoder(OutcomeRow).decode


class Statements(msgspec.Struct, frozen=True):
    """The latest outcomes of one log, up to `length`."""

    keys: NDArray[np.uint64]  # sorted, unique
    at: NDArray[np.float64]  # epoch seconds
    unlisted: dict[int, float] = {}  # keys of unchanged pages that now forbid indexing, and when
    length: int = 0
    crawl: Identity | None = None
    forgiving: bool = False  # later rows take earlier ones back

    def at_of(self, key: int) -> float | None:
        """The time of the latest outcome of a URL; None if the log has none."""
        position = int(np.searchsorted(self.keys, np.uint64(key)))
        is_known = position < len(self.keys) and int(self.keys[position]) == key
        return float(self.at[position]) if is_known else None


NOTHING = Statements(np.empty(0, np.uint64), np.empty(0, np.float64))
"""The result for a log that was not read yet."""


def read_statements(home: CrawlDir, length: int, known: Statements = NOTHING) -> Statements:
    """The latest outcomes of a log up to `length`, continuing from the result for a shorter length."""
    if known.crawl != home.identity or known.length > length or (known.forgiving and known.length < length):
        known = NOTHING
    if known.length == length and known.crawl is not None:
        return known
    reader = _Collector(known)
    forgiving = not reader.read_heads(home, length)
    if forgiving:
        reader = _Collector(NOTHING)
        reader.read(home, length)
    keys, at = reader.finish()
    return Statements(keys, at, reader.unlisted, length, home.identity, forgiving)


class _Collector:
    """Collector of rows that sorts them in by batches as large as the sorted array."""

    def __init__(self, known: Statements):
        self._start = known.length
        self._keys, self._at = known.keys, known.at
        self._fresh_keys, self._fresh_at = array("Q"), array("d")
        self._batch = max(_MIN_BATCH, len(self._keys))
        self.unlisted = dict(known.unlisted)

    def read_heads(self, home: CrawlDir, length: int) -> bool:
        """Read up to `length`; False if a row takes another back, which requires a full read."""
        if self._start >= length:
            return True
        for _, record in records(home / "outcomes.log", start=self._start, length=length):
            row = _decode_head(record)
            kind = row.kind
            if kind is OutcomeKind.PAGE or (kind is OutcomeKind.FAILED and row.status in GONE):
                self._fresh_keys.append(hash_of(row.url))
                self._fresh_at.append(row.at)
                if len(self._fresh_at) >= self._batch:
                    self._sort_in()
            elif kind is OutcomeKind.FORGIVEN:
                return False
            elif kind is not OutcomeKind.FAILED:
                self._take(_decode(record))
        return True

    def read(self, home: CrawlDir, length: int) -> None:
        for row in rows(home, length=length):
            self._take(row)

    def _take(self, row: OutcomeRow) -> None:
        if is_statement(row):
            self._fresh_keys.append(hash_of(row.url))
            self._fresh_at.append(row.at)
        elif row.unlisted:
            self.unlisted[hash_of(row.url)] = row.at

    def finish(self) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
        if self._fresh_keys:
            self._sort_in()
        return self._keys, self._at

    def _sort_in(self) -> None:
        keys = np.concatenate((self._keys, np.frombuffer(self._fresh_keys, np.uint64)))
        at = np.concatenate((self._at, np.frombuffer(self._fresh_at, np.float64)))
        self._fresh_keys, self._fresh_at = array("Q"), array("d")
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        last = np.append(keys[1:] != keys[:-1], True)
        self._keys, self._at = keys[last], at[order[last]]
        self._batch = max(_MIN_BATCH, len(self._keys))
