"""When a log had its last word on each of its URLs, for whoever reads several logs as one.

A *statement* is a row that says whether a URL is a page (`outcomes.is_statement`). Within one log
the last one counts, wherever clocks went; between logs, the one with the latest time. So of each
URL a key and a time are kept, sixteen bytes, and not its text. A log only grows, so what was read
of it is read on from where it ended; a log in which failures were taken back is read anew.
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

_LEAST = 1 << 18  # statements that are sorted in at a time


class _Glance(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The beginning of an `OutcomeRow`, which is all that most rows are read for."""

    url: str
    kind: OutcomeKind
    at: float
    depth: int = 0
    via: msgspec.Raw = msgspec.Raw()
    seen_at: float = 0.0
    status: int = 0


_glance = msgspec.msgpack.Decoder(_Glance).decode
_decode = msgspec.msgpack.Decoder(OutcomeRow).decode


class Statements(msgspec.Struct, frozen=True):
    """The last words of one log, up to `length`."""

    keys: NDArray[np.uint64]  # in order, each once
    at: NDArray[np.float64]  # epoch seconds
    unlisted: dict[int, float] = {}  # keys of unchanged pages that asked not to be listed, and when
    length: int = 0
    crawl: Identity | None = None
    forgiving: bool = False  # rows of it were taken back by later ones

    def at_of(self, key: int) -> float | None:
        """When it had its last word on a URL; None if it said nothing."""
        place = int(np.searchsorted(self.keys, np.uint64(key)))
        known = place < len(self.keys) and int(self.keys[place]) == key
        return float(self.at[place]) if known else None


NOTHING = Statements(np.empty(0, np.uint64), np.empty(0, np.float64))
"""What is known of a log that was not read yet."""


def read_statements(home: CrawlDir, length: int, known: Statements = NOTHING) -> Statements:
    """The last words of a log up to `length`, by what was `known` of a shorter one."""
    if known.crawl != home.identity or known.length > length or (known.forgiving and known.length < length):
        known = NOTHING
    if known.length == length and known.crawl is not None:
        return known
    reader = _Gathering(known)
    forgiving = not reader.glance_at(home, length)
    if forgiving:
        reader = _Gathering(NOTHING)
        reader.read(home, length)
    keys, at = reader.ended()
    return Statements(keys, at, reader.unlisted, length, home.identity, forgiving)


class _Gathering:
    """Gathers statements, and sorts them in as many at a time as there are already."""

    def __init__(self, known: Statements):
        self._start = known.length
        self._keys, self._at = known.keys, known.at
        self._fresh_keys, self._fresh_at = array("Q"), array("d")
        self._enough = max(_LEAST, len(self._keys))
        self.unlisted = dict(known.unlisted)

    def glance_at(self, home: CrawlDir, length: int) -> bool:
        """Read on up to `length`; False if a row there takes another back, which must be known before."""
        if self._start >= length:
            return True
        for _, record in records(home / "outcomes.log", start=self._start, length=length):
            row = _glance(record)
            kind = row.kind
            if kind is OutcomeKind.PAGE or (kind is OutcomeKind.FAILED and row.status in GONE):
                self._fresh_keys.append(hash_of(row.url))
                self._fresh_at.append(row.at)
                if len(self._fresh_at) >= self._enough:
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

    def ended(self) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
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
        self._enough = max(_LEAST, len(self._keys))
