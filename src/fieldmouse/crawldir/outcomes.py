"""Reader of the outcome log up to the last checkpoint: one row per settled URL and fetch.

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
from xxhash import xxh3_64_intdigest

from fieldmouse.crawldir.directory import CrawlDir
from fieldmouse.crawldir.log import FRAME, records
from fieldmouse.records import News, OutcomeKind, OutcomeRow
from fieldmouse.url import Url

_decode = msgspec.msgpack.Decoder(OutcomeRow).decode
_SEED = secrets.randbits(63)
_MAY_BE_FORGIVEN = (OutcomeKind.FAILED, OutcomeKind.REFUSED, OutcomeKind.FORGIVEN)


def rows(home: CrawlDir, *, length: int) -> Iterator[OutcomeRow]:
    """Yield every row that counts, oldest first. `length` comes from the checkpoint."""
    yield from _counting(home, length, _taken_back(home, length))


def _counting(home: CrawlDir, length: int, taken_back: Counter[str]) -> Iterator[OutcomeRow]:
    taken_back = taken_back.copy()
    for _, record in records(home / "outcomes.log", length=length):
        row = _decode(record)
        if taken_back and row.kind in _MAY_BE_FORGIVEN:
            if row.kind is OutcomeKind.FORGIVEN:
                continue
            if taken_back[row.url]:
                taken_back[row.url] -= 1
                continue
        yield row


def _taken_back(home: CrawlDir, length: int) -> Counter[str]:
    """The number of early failures of each URL that were taken back."""
    mark, counts = OutcomeKind.FORGIVEN.encode(), Counter[str]()
    for _, record in records(home / "outcomes.log", length=length):
        if mark in record and (row := _decode(record)).kind is OutcomeKind.FORGIVEN:
            counts[row.url] += 1
    return counts


def pages(home: CrawlDir, *, length: int) -> Iterator[OutcomeRow]:
    """The newest row of each stored page, without pages that a poll found gone, moved or excluded.

    Two passes: the first keeps eight bytes per page instead of its text, so that a crawl
    of many millions of pages can be read on a small machine.
    """
    import numpy as np

    hashes, unlisted = array("Q"), dict[int, int]()
    taken_back = _taken_back(home, length)
    for row in _counting(home, length, taken_back):
        if is_statement(row):
            hashes.append(hash_of(row.url))
        elif row.unlisted:
            unlisted[hash_of(row.url)] = len(hashes)
    ordered = np.sort(np.frombuffer(hashes, np.uint64)) if hashes else np.empty(0, np.uint64)
    repeated = set(np.unique(ordered[1:][ordered[1:] == ordered[:-1]]).tolist())
    del ordered
    left = Counter(key for key in hashes if key in repeated) if repeated else Counter[int]()
    stored = filter(is_statement, _counting(home, length, taken_back))
    for position, (row, key) in enumerate(zip(stored, hashes, strict=True)):
        if key in left:
            left[key] -= 1
            if left[key]:
                continue
        if row.kind is OutcomeKind.PAGE:
            yield listed_no_more(row) if unlisted.get(key, 0) > position else row


def hash_of(url: str) -> int:
    """Hash of a URL that is valid only in this process, so that no site can construct a collision."""
    return xxh3_64_intdigest(url.encode(), _SEED)


def listed_no_more(row: OutcomeRow) -> OutcomeRow:
    """The row of an unchanged page whose headers now forbid indexing."""
    return msgspec.structs.replace(row, indexed=False)


def is_statement(row: OutcomeRow) -> bool:
    """Whether the row decides if the URL is a page: it stores one or takes it away."""
    return row.kind is OutcomeKind.PAGE or row.gone or (bool(row.polled) and row.stands)


def page_of(rows: Sequence[OutcomeRow]) -> OutcomeRow | None:
    """The row that `pages` yields, from all rows of one URL; None if the URL is not a stored page now."""
    last = max((position for position, row in enumerate(rows) if is_statement(row)), default=None)
    if last is None or rows[last].kind is not OutcomeKind.PAGE:
        return None
    unlisted = any(row.unlisted for row in rows[last:])
    return listed_no_more(rows[last]) if unlisted else rows[last]


def pages_from(home: CrawlDir, start: int, *, length: int) -> Iterator[tuple[OutcomeRow, int]]:
    """Yield every stored page from byte `start` of the log on, with the offset after its row.

    A page that was fetched again is yielded again, unless the poll found it unchanged. The
    offset is where the next call continues.
    """
    if start >= length:
        return
    for offset, record in records(home / "outcomes.log", start=start, length=length):
        row = _decode(record)
        if row.kind is OutcomeKind.PAGE and row.news not in (News.SAME, News.NOISE):
            yield row, offset + FRAME.size + len(record)


def forgiven(home: CrawlDir, *, length: int) -> set[Url]:
    """URLs whose last outcome as a new URL was taken back."""
    mark, taken_back = OutcomeKind.FORGIVEN.encode(), set[Url]()
    for _, record in records(home / "outcomes.log", length=length):
        if taken_back or mark in record:  # most logs have none
            row = _decode(record)
            if row.kind is OutcomeKind.FORGIVEN:
                taken_back.add(row.url)
            elif not row.polled:
                taken_back.discard(row.url)
    return taken_back


def rows_of(home: CrawlDir, url: str, *, length: int) -> list[OutcomeRow]:
    """All rows of one URL, oldest first, including rows that were taken back."""
    if not length:
        return []
    name = url.encode()
    matching = []
    for _, record in records(home / "outcomes.log", length=length):
        # Most rows are about other URLs; searching for the bytes is much cheaper than decoding.
        if name in record:
            row = _decode(record)
            if row.url == url:
                matching.append(row)
    return matching


def moves_to(home: CrawlDir, url: str, *, length: int) -> list[OutcomeRow]:
    """The pages that moved permanently to a URL, each by its newest such row, oldest first."""
    moves: dict[str, OutcomeRow] = {}
    name = url.encode()
    for _, record in records(home / "outcomes.log", length=length) if length else ():
        if name in record:
            row = _decode(record)
            if row.target == url and row.news is News.MOVED:
                moves.pop(row.url, None)
                moves[row.url] = row
    return list(moves.values())
