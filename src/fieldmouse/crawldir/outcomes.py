"""Reading the outcome log: every URL whose fate is known, as of the last checkpoint.

What lies past the checkpoint's length may yet be undone by a kill, so it is not
shown. A URL can have several rows, one for each time it was fetched; of its
stored pages the newest counts. A row that was taken back (`resume --retry-failed`) counts no more
than the row that says so.
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
    """Every row that counts, oldest first. `length` is the checkpoint's."""
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
    """How many of the first failures of each URL were taken back."""
    mark, found = OutcomeKind.FORGIVEN.encode(), Counter[str]()
    for _, record in records(home / "outcomes.log", length=length):
        if mark in record and (row := _decode(record)).kind is OutcomeKind.FORGIVEN:
            found[row.url] += 1
    return found


def pages(home: CrawlDir, *, length: int) -> Iterator[OutcomeRow]:
    """The newest row of each stored page; one that a poll found gone, moved or excluded is none any more.

    Two passes: the first keeps eight bytes a page, not its text, so that a crawl
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
    left = Counter(found for found in hashes if found in repeated) if repeated else Counter[int]()
    stored = filter(is_statement, _counting(home, length, taken_back))
    for place, (row, found) in enumerate(zip(stored, hashes, strict=True)):
        if found in left:
            left[found] -= 1
            if left[found]:
                continue
        if row.kind is OutcomeKind.PAGE:
            yield listed_no_more(row) if unlisted.get(found, 0) > place else row


def hash_of(url: str) -> int:
    """What stands for a URL in this process, and in no other: so nobody can aim at a collision."""
    return xxh3_64_intdigest(url.encode(), _SEED)


def listed_no_more(row: OutcomeRow) -> OutcomeRow:
    """A page whose headers ask by now that it not be indexed, though it has not changed."""
    return msgspec.structs.replace(row, indexed=False)


def is_statement(row: OutcomeRow) -> bool:
    """Whether it says that the URL is a page, or takes that away again."""
    return row.kind is OutcomeKind.PAGE or row.gone or (bool(row.polled) and row.stands)


def page_of(rows: Sequence[OutcomeRow]) -> OutcomeRow | None:
    """Of all rows of one URL the one that `pages` has; None if it is not stored, or is a page no more."""
    told = [place for place, row in enumerate(rows) if is_statement(row)]
    if not told or rows[told[-1]].kind is not OutcomeKind.PAGE:
        return None
    unlisted = any(row.unlisted for row in rows[told[-1] :])
    return listed_no_more(rows[told[-1]]) if unlisted else rows[told[-1]]


def pages_from(home: CrawlDir, start: int, *, length: int) -> Iterator[tuple[OutcomeRow, int]]:
    """Every stored page from byte `start` of the log on, each with the offset behind it.

    A page that was fetched again comes again, unless a poll showed what we had. Whoever remembers the offset
    goes on from there.
    """
    if start >= length:
        return
    for offset, record in records(home / "outcomes.log", start=start, length=length):
        row = _decode(record)
        if row.kind is OutcomeKind.PAGE and row.news not in (News.SAME, News.NOISE):
            yield row, offset + FRAME.size + len(record)


def forgiven(home: CrawlDir, *, length: int) -> set[Url]:
    """URLs whose last outcome at first sight was taken back."""
    mark, taken_back = OutcomeKind.FORGIVEN.encode(), set[Url]()
    for _, record in records(home / "outcomes.log", length=length):
        if taken_back or mark in record:  # in most logs there is none
            row = _decode(record)
            if row.kind is OutcomeKind.FORGIVEN:
                taken_back.add(row.url)
            elif not row.polled:
                taken_back.discard(row.url)
    return taken_back


def rows_of(home: CrawlDir, url: str, *, length: int) -> list[OutcomeRow]:
    """All that happened to one URL, oldest first, rows that were taken back included."""
    if not length:
        return []
    name = url.encode()
    found = []
    for _, record in records(home / "outcomes.log", length=length):
        # Most rows are of other URLs; looking for the bytes is much cheaper than decoding.
        if name in record:
            row = _decode(record)
            if row.url == url:
                found.append(row)
    return found


def moves_to(home: CrawlDir, url: str, *, length: int) -> list[OutcomeRow]:
    """The pages that have moved to a URL for good, each by its newest row that says so, oldest first."""
    found: dict[str, OutcomeRow] = {}
    name = url.encode()
    for _, record in records(home / "outcomes.log", length=length) if length else ():
        if name in record:
            row = _decode(record)
            if row.target == url and row.news is News.MOVED:
                found.pop(row.url, None)
                found[row.url] = row
    return list(found.values())
