"""Reader of the outcome log up to the last checkpoint, and the latest outcome time per URL.

Rows after the checkpoint's length may still be undone by a kill, so they are not
shown. A URL can have several rows, one for each fetch; of its stored pages the
newest counts. A row that was taken back (`resume --retry-failed`) does not count,
nor does the row that takes it back.
"""

from __future__ import annotations

import secrets
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from fieldmouse.storage.directory import CrawlDir, CrawlMetadata
from fieldmouse.storage.log import FRAME, read_records
from fieldmouse.types.outcome import GONE_STATUSES, ContentChange, OutcomeRow
from fieldmouse.types.reason import OutcomeKind
from fieldmouse.url import Url

_decode = msgspec.msgpack.Decoder(OutcomeRow).decode
_SEED = secrets.randbits(63)
_MAY_BE_FORGIVEN = (OutcomeKind.FAILED, OutcomeKind.REFUSED, OutcomeKind.WITHDRAWN)


def outcome_rows(home: CrawlDir, *, length: int) -> Iterator[OutcomeRow]:
    """Yield every row that counts, oldest first. `length` comes from the checkpoint."""
    yield from _rows_not_withdrawn(home, length, _count_withdrawn(home, length))


def _rows_not_withdrawn(home: CrawlDir, length: int, taken_back: Counter[str]) -> Iterator[OutcomeRow]:
    taken_back = taken_back.copy()
    for _, record in read_records(home / "outcomes.log", length=length):
        row = _decode(record)
        if taken_back and row.kind in _MAY_BE_FORGIVEN:
            if row.kind is OutcomeKind.WITHDRAWN:
                continue
            if taken_back[row.url]:
                taken_back[row.url] -= 1
                continue
        yield row


def _count_withdrawn(home: CrawlDir, length: int) -> Counter[str]:
    """The number of early failures of each URL that were taken back."""
    mark, counts = OutcomeKind.WITHDRAWN.encode(), Counter[str]()
    for _, record in read_records(home / "outcomes.log", length=length):
        if mark in record and (row := _decode(record)).kind is OutcomeKind.WITHDRAWN:
            counts[row.url] += 1
    return counts


def newest_page_rows(home: CrawlDir, *, length: int) -> Iterator[OutcomeRow]:
    """The newest row of each stored page, without pages that a poll found gone, moved or excluded.

    Two passes: the first keeps eight bytes per page instead of its text, so that a crawl
    of many millions of pages can be read on a small machine.
    """
    hashes, unlisted = array("Q"), dict[int, int]()
    taken_back = _count_withdrawn(home, length)
    for row in _rows_not_withdrawn(home, length, taken_back):
        if decides_page(row):
            hashes.append(url_hash(row.url))
        elif row.unlisted:
            unlisted[url_hash(row.url)] = len(hashes)
    ordered = np.sort(np.frombuffer(hashes, np.uint64)) if hashes else np.empty(0, np.uint64)
    repeated = set(np.unique(ordered[1:][ordered[1:] == ordered[:-1]]).tolist())
    del ordered
    left = Counter(key for key in hashes if key in repeated) if repeated else Counter[int]()
    stored = filter(decides_page, _rows_not_withdrawn(home, length, taken_back))
    for position, (row, key) in enumerate(zip(stored, hashes, strict=True)):
        if key in left:
            left[key] -= 1
            if left[key]:
                continue
        if row.kind is OutcomeKind.PAGE:
            yield as_not_indexed(row) if unlisted.get(key, 0) > position else row


def url_hash(url: str) -> int:
    """Hash of a URL that is valid only in this process, so that no site can construct a collision."""
    return xxh3_64_intdigest(url.encode(), _SEED)


def as_not_indexed(row: OutcomeRow) -> OutcomeRow:
    """The row of an unchanged page whose headers now forbid indexing."""
    return msgspec.structs.replace(row, indexed=False)


def decides_page(row: OutcomeRow) -> bool:
    """Whether the row decides if the URL is a page: it stores one or takes it away."""
    return row.kind is OutcomeKind.PAGE or row.is_gone or (bool(row.polled) and row.supersedes_earlier)


def newest_page_row(rows: Sequence[OutcomeRow]) -> OutcomeRow | None:
    """Row that `newest_page_rows` yields, from all rows of one URL; None if the URL is no stored page now."""
    last = max((position for position, row in enumerate(rows) if decides_page(row)), default=None)
    if last is None or rows[last].kind is not OutcomeKind.PAGE:
        return None
    unlisted = any(row.unlisted for row in rows[last:])
    return as_not_indexed(rows[last]) if unlisted else rows[last]


def page_rows_from(home: CrawlDir, start: int, *, length: int) -> Iterator[tuple[OutcomeRow, int]]:
    """Yield every stored page from byte `start` of the log on, with the offset after its row.

    A page that was fetched again is yielded again, unless the poll found it unchanged. The
    offset is where the next call continues.
    """
    if start >= length:
        return
    for offset, record in read_records(home / "outcomes.log", start=start, length=length):
        row = _decode(record)
        if row.kind is OutcomeKind.PAGE and row.news not in (ContentChange.SAME, ContentChange.NOISE):
            yield row, offset + FRAME.size + len(record)


def retried_urls(home: CrawlDir, *, length: int) -> set[Url]:
    """URLs whose last outcome as a new URL was taken back."""
    mark, taken_back = OutcomeKind.WITHDRAWN.encode(), set[Url]()
    for _, record in read_records(home / "outcomes.log", length=length):
        if taken_back or mark in record:  # most logs have none
            row = _decode(record)
            if row.kind is OutcomeKind.WITHDRAWN:
                taken_back.add(row.url)
            elif not row.polled:
                taken_back.discard(row.url)
    return taken_back


def _rows_containing(home: CrawlDir, url: str, length: int) -> Iterator[OutcomeRow]:
    """Yield the rows that contain a URL; others are skipped by their bytes, much cheaper than by decoding."""
    name = url.encode()
    for _, record in read_records(home / "outcomes.log", length=length):
        if name in record:
            yield _decode(record)


def rows_of(home: CrawlDir, url: str, *, length: int) -> list[OutcomeRow]:
    """All rows of one URL, oldest first, including rows that were taken back."""
    return [row for row in _rows_containing(home, url, length) if row.url == url]


def pages_moved_to(home: CrawlDir, url: str, *, length: int) -> list[OutcomeRow]:
    """The pages that moved permanently to a URL, each by its newest such row, oldest first."""
    moves: dict[str, OutcomeRow] = {}
    for row in _rows_containing(home, url, length):
        if row.target == url and row.news is ContentChange.MOVED:
            moves.pop(row.url, None)
            moves[row.url] = row
    return list(moves.values())


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


class LatestOutcomeTimes(msgspec.Struct, frozen=True):
    """The latest outcomes of one log, up to `length`."""

    keys: NDArray[np.uint64]  # sorted, unique
    at: NDArray[np.float64]  # epoch seconds
    unlisted: dict[int, float] = {}  # keys of unchanged pages that now forbid indexing, and when
    length: int = 0
    crawl: CrawlMetadata | None = None
    forgiving: bool = False  # later rows take earlier ones back

    def latest_time_of(self, key: int) -> float | None:
        """The time of the latest outcome of a URL; None if the log has none."""
        position = int(np.searchsorted(self.keys, np.uint64(key)))
        is_known = position < len(self.keys) and int(self.keys[position]) == key
        return float(self.at[position]) if is_known else None


#: The result for a log that was not read yet.
NO_OUTCOMES = LatestOutcomeTimes(np.empty(0, np.uint64), np.empty(0, np.float64))


def read_latest_outcomes(home: CrawlDir, length: int, known: LatestOutcomeTimes = NO_OUTCOMES) -> LatestOutcomeTimes:
    """The latest outcomes of a log up to `length`, continuing from the result for a shorter length."""
    if known.crawl != home.identity or known.length > length or (known.forgiving and known.length < length):
        known = NO_OUTCOMES
    if known.length == length and known.crawl is not None:
        return known
    reader = _LatestOutcomesBuilder(known)
    forgiving = not reader.read_row_heads(home, length)
    if forgiving:
        reader = _LatestOutcomesBuilder(NO_OUTCOMES)
        reader.read_full_rows(home, length)
    keys, at = reader.sorted_arrays()
    return LatestOutcomeTimes(keys, at, reader.unlisted, length, home.identity, forgiving)


class _LatestOutcomesBuilder:
    """Collector of rows that sorts them in by batches as large as the sorted array."""

    def __init__(self, known: LatestOutcomeTimes):
        self._start = known.length
        self._keys, self._at = known.keys, known.at
        self._fresh_keys, self._fresh_at = array("Q"), array("d")
        self._batch = max(_MIN_BATCH, len(self._keys))
        self.unlisted = dict(known.unlisted)

    def read_row_heads(self, home: CrawlDir, length: int) -> bool:
        """Read up to `length`; False if a row takes another back, which requires a full read."""
        if self._start >= length:
            return True
        for _, record in read_records(home / "outcomes.log", start=self._start, length=length):
            row = _decode_head(record)
            kind = row.kind
            if kind is OutcomeKind.PAGE or (kind is OutcomeKind.FAILED and row.status in GONE_STATUSES):
                self._fresh_keys.append(url_hash(row.url))
                self._fresh_at.append(row.at)
                if len(self._fresh_at) >= self._batch:
                    self._merge_batch()
            elif kind is OutcomeKind.WITHDRAWN:
                return False
            elif kind is not OutcomeKind.FAILED:
                self._add_row(_decode(record))
        return True

    def read_full_rows(self, home: CrawlDir, length: int) -> None:
        for row in outcome_rows(home, length=length):
            self._add_row(row)

    def _add_row(self, row: OutcomeRow) -> None:
        if decides_page(row):
            self._fresh_keys.append(url_hash(row.url))
            self._fresh_at.append(row.at)
        elif row.unlisted:
            self.unlisted[url_hash(row.url)] = row.at

    def sorted_arrays(self) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
        if self._fresh_keys:
            self._merge_batch()
        return self._keys, self._at

    def _merge_batch(self) -> None:
        keys = np.concatenate((self._keys, np.frombuffer(self._fresh_keys, np.uint64)))
        at = np.concatenate((self._at, np.frombuffer(self._fresh_at, np.float64)))
        self._fresh_keys, self._fresh_at = array("Q"), array("d")
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        last = np.append(keys[1:] != keys[:-1], True)
        self._keys, self._at = keys[last], at[order[last]]
        self._batch = max(_MIN_BATCH, len(self._keys))
