"""Outcome rows as arrays, in the form in which the page table applies them.

A page enters the table with the first row that says what it is: a page, a page gone (404, 410), a page
moved permanently (301, 308), a failure or a refusal. Temporary redirects add and change nothing. The
result of a poll is in the row's `news`; where `news` is empty, the digests decide, which needs the
previous standing row (`ASK_DIGEST`).
"""

from __future__ import annotations

import math
from enum import IntFlag
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from fieldmouse.records import Kind, News, OutcomeKind, OutcomeRow, Reason
from fieldmouse.refresh.dates import modified_at
from fieldmouse.url import host_of

SIGNALS = frozenset((Kind.SITEMAP.value, Kind.FEED.value))
FOR_GOOD = frozenset((301, 308))

_decode = msgspec.msgpack.Decoder(OutcomeRow).decode


class Flag(IntFlag):
    """Flags of a page in the page table."""

    GONE = 1  # 404 or 410; it may come back
    MOVED = 2  # permanently
    FAILED = 4  # never was a page: polled again from time to time
    REFUSED = 8  # the same, and no request was sent
    SIGNAL = 16  # a sitemap or feed, which lists other pages
    EXCLUDED = 32  # robots.txt disallows it now
    ABSENT = 64  # its failure was withdrawn: it waits in the frontier like a new URL
    ASKED = 128  # a poll is in flight
    TROUBLE = 256  # the last poll showed nothing about the page
    BARE = 512  # its oldest copy has no validators, as checked in the archive
    HINTED = 1024  # a sitemap or feed says that it has changed since the last poll
    UNREAD = 2048  # a polled sitemap or feed that may list something new


STANDING = Flag.GONE | Flag.MOVED | Flag.FAILED | Flag.REFUSED
ODD = STANDING | Flag.EXCLUDED
"""Flags of entries without a planned rate: these are polled at a small fixed rate."""


class Said(IntFlag):
    """Effects of a row, in addition to the flags that the page has after it."""

    ENTERS = 1  # adds the page if it is unknown
    LOOK = 2  # the server answered for the page
    STANDS = 4  # the row becomes the page's standing row
    POLL = 8
    CHANGED = 16
    ASK_DIGEST = 32  # changed if the digest differs from that of the previous standing row
    TAKEN_BACK = 64
    WITHDRAWN = 128  # earlier changes of the page were noise


_ENTERS, _ASK_DIGEST, _LOOK = int(Said.ENTERS), int(Said.ASK_DIGEST), int(Said.LOOK)


class Batch(NamedTuple):
    """Rows as arrays; `digests` holds, by position, the digests that must be compared."""

    keys: NDArray[np.uint64]
    offsets: NDArray[np.int64]
    at: NDArray[np.float64]
    said: NDArray[np.uint8]
    flags: NDArray[np.uint16]
    withdrawn: NDArray[np.uint32]
    hosts: NDArray[np.uint64]
    modified: NDArray[np.float64]  # the server's `Last-Modified`; NaN if there is none
    digests: dict[int, str]


class BatchBuilder:
    """Collector of rows for the next batch."""

    def __init__(self, key_seed: int):
        self._seed = key_seed
        self._rows: list[tuple[int, int, float, int, int, int, int, float]] = []
        self._digests: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, offset: int, record: bytes) -> None:
        row = _decode(record)
        said, flags = _said(row)
        if said & _ASK_DIGEST:
            self._digests[len(self._rows)] = row.digest
        seed = self._seed
        host = xxh3_64_intdigest(host_of(row.url).encode(), seed) if said & _ENTERS else 0
        key = xxh3_64_intdigest(row.url.encode(), seed)
        modified = modified_at(row.last_modified, row.at) if said & _LOOK else math.nan
        self._rows.append((key, offset, row.at, said, flags, row.withdrawn, host, modified))

    def take(self) -> Batch:
        """Return the collected rows and start empty."""
        keys, offsets, at, said, flags, withdrawn, hosts, modified = zip(*self._rows, strict=True)
        batch = Batch(
            np.array(keys, np.uint64), np.array(offsets, np.int64), np.array(at, np.float64),
            np.array(said, np.uint8), np.array(flags, np.uint16), np.array(withdrawn, np.uint32),
            np.array(hosts, np.uint64), np.array(modified, np.float64), self._digests,
        )  # fmt: skip
        self._rows, self._digests = [], {}
        return batch


_POLL, _STANDS = int(Said.POLL), int(Said.STANDS)
_TOLD = int(Said.ENTERS | Said.LOOK)
_TROUBLE = int(Flag.TROUBLE)


def _said(row: OutcomeRow) -> tuple[int, int]:
    """Effects of a row, and the flags that the page has if the row stands, or until another row stands.

    Called once per row: plain integers, since combining enum flags is ten times slower.
    """
    flags = int(Flag.SIGNAL) if row.found_as in SIGNALS else 0
    said = _POLL if row.polled else 0
    if row.withdrawn_at:
        said |= int(Said.WITHDRAWN)
    kind, news = row.kind, row.news
    if kind is OutcomeKind.PAGE:
        said |= _TOLD
        if flags and row.polled and news is not News.SAME:
            flags |= int(Flag.UNREAD)
    elif kind is OutcomeKind.UNCHANGED:
        return said | _LOOK, flags
    elif kind is OutcomeKind.MOVED:
        # A page that is not stored yet at its new URL: another row will follow.
        if row.status not in FOR_GOOD or not row.stands:
            return said, flags | _TROUBLE
        said, flags = said | _TOLD, flags | int(Flag.MOVED)
    elif row.gone:
        said, flags = said | _TOLD, flags | int(Flag.GONE)
    elif kind is OutcomeKind.FORGIVEN:
        return int(Said.TAKEN_BACK), flags
    else:
        flags |= _TROUBLE | int(Flag.FAILED if kind is OutcomeKind.FAILED else Flag.REFUSED)
        if row.reason is Reason.EXCLUDED:
            flags |= int(Flag.EXCLUDED)
        return said | int(Said.ENTERS) | (_STANDS if row.stands else 0), flags
    if row.stands:
        said |= _STANDS
    if row.polled:
        if news in (News.CHANGED, News.GONE, News.MOVED):
            said |= int(Said.CHANGED)
        elif news is News.NONE:
            said |= int(Said.ASK_DIGEST if kind is OutcomeKind.PAGE else Said.CHANGED)
    return said, flags
