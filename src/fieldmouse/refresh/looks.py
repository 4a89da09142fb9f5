"""What one row of the outcome log says to the ledger: a batch of rows as arrays.

A page enters with its first row that says what it is: a page, a page gone (404, 410), one
moved for good (301, 308), one that failed or was refused. Temporary redirects enter nothing
and change nothing. What a poll showed is in the row's `news`; where nobody filled
that in, the digests decide, which needs the row that stood before (`ASK_DIGEST`).
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
    """What is known of a page in the ledger."""

    GONE = 1  # 404 or 410; it may come back
    MOVED = 2  # for good
    FAILED = 4  # it never was a page: asked again from time to time
    REFUSED = 8  # the same, and we did not ask
    SIGNAL = 16  # a sitemap or a feed: it tells about other pages
    EXCLUDED = 32  # robots.txt forbids it now
    ABSENT = 64  # its failure was taken back: it waits in the frontier as if it were new
    ASKED = 128  # a poll is under way
    TROUBLE = 256  # the last poll showed nothing of the page
    BARE = 512  # its oldest copy has no validators, as the archive was asked and said
    HINTED = 1024  # a sitemap or feed says that it has changed since the last look
    UNREAD = 2048  # a sitemap or feed that was polled and may say something new


STANDING = Flag.GONE | Flag.MOVED | Flag.FAILED | Flag.REFUSED
ODD = STANDING | Flag.EXCLUDED
"""Of what is no page to be polled by a plan: asked at a small set rate."""


class Said(IntFlag):
    """What a row says, beside the flags that the page has after it."""

    ENTERS = 1  # a page that is not known is known after it
    LOOK = 2  # the server told what the page is
    STANDS = 4  # the page is what the row says from now on
    POLL = 8
    CHANGED = 16
    ASK_DIGEST = 32  # changed if the digest is another than that of the row that stood
    TAKEN_BACK = 64
    WITHDRAWN = 128  # what was told of the page before was noise


_ENTERS, _ASK_DIGEST, _LOOK = int(Said.ENTERS), int(Said.ASK_DIGEST), int(Said.LOOK)


class Batch(NamedTuple):
    """Rows as arrays; `digests` are of those that need them, by position."""

    keys: NDArray[np.uint64]
    offsets: NDArray[np.int64]
    at: NDArray[np.float64]
    said: NDArray[np.uint8]
    flags: NDArray[np.uint16]
    withdrawn: NDArray[np.uint32]
    hosts: NDArray[np.uint64]
    modified: NDArray[np.float64]  # when the server says that the page last changed; NaN: it does not
    digests: dict[int, str]


class BatchBuilder:
    """Collects rows until there are enough of them."""

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
        """What was collected; from here on it is empty."""
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
    """What a row says, and the flags that its page has if the row stands, or for the time being.

    Once a row: plain numbers, since flags of an enum take ten times as long to combine.
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
        # A page that is yet to be stored where it moved to: then there will be another row.
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
