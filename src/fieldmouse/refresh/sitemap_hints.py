"""Change hints from polled sitemaps and feeds, each of which covers many pages with one request.

A sitemap or feed that has changed is read from the archive, where its poll stored it; a kill loses nothing,
and no extra request is made. An entry for a page counts if it names a time after our last poll: the page is
then *hinted*, and its next poll comes earlier, the more hints proved right for its host. That poll proves
the hint right or wrong (`apply_outcomes`). Times in the future do not count, nor does a day on which we
have polled the page: sites that list everything as new every day soon lose their weight.
"""

from __future__ import annotations

from concurrent.futures import Executor, Future
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fieldmouse.errors import DamagedFile
from fieldmouse.http.decoding import decode_response
from fieldmouse.http.headers import parse_date
from fieldmouse.parse.sitemap import read_sitemap
from fieldmouse.refresh.apply_outcomes import PageFlag, is_unplanned
from fieldmouse.refresh.page_table import PageTable
from fieldmouse.refresh.poll_request_builder import ReadResponse
from fieldmouse.types.outcome import OutcomeRow
from fieldmouse.url import key_of

_AHEAD = 3600.0  # seconds by which a server's clock may be ahead
MAX_WEIGHT = 10.0


class ChangeHints(NamedTuple):
    """Hints of one sitemap or feed: keys of pages, and when each last changed."""

    keys: NDArray[np.uint64]
    changed_at: NDArray[np.float64]


class SitemapHintReader:
    """Reader of one sitemap or feed at a time; in a thread if there is a `pool`."""

    def __init__(self, table: PageTable, read_answer: ReadResponse, pool: Executor | None = None):
        self._table, self._read_answer, self._pool = table, read_answer, pool
        self._seen = -1  # length of the outcome log that was applied when there was nothing to read
        self._reading: tuple[int, Future[ChangeHints]] | None = None

    def apply_and_read_next(self) -> bool:
        """Apply the finished result and start the next read; return whether pages were hinted."""
        if self._reading is not None:
            number, future = self._reading
            if not future.done():
                return False
            self._reading = None
            return self._apply_hints(number, future.result())
        if self._seen == self._table.cursor:
            return False
        unread = np.flatnonzero(self._table.column("flags") & PageFlag.UNREAD)
        if not len(unread):
            self._seen = self._table.cursor
            return False
        number = int(unread[0])
        row = self._table.read_logged_outcome(int(self._table.read_cells("standing", unread[:1])[0]))
        job = partial(read_hints, row, self._read_answer, self._table.key_seed)
        if self._pool is None:
            return self._apply_hints(number, job())
        self._reading = number, self._pool.submit(job)
        return False

    def _apply_hints(self, number: int, hints: ChangeHints) -> bool:
        table = self._table
        table.clear_flag(np.array([number]), PageFlag.UNREAD)
        rows = table.index.find_rows(hints.keys)
        told = np.zeros(len(table))
        known = rows >= 0
        np.maximum.at(told, rows[known], hints.changed_at[known])
        rows = np.unique(rows[known])
        looked, flags = table.read_cells("looked", rows), table.read_cells("flags", rows)
        rows = rows[(looked > 0) & (told[rows] > looked) & ~is_unplanned(flags)]
        table.set_flag(rows, PageFlag.HINTED)
        return len(rows) > 0


def read_hints(row: OutcomeRow, read_answer: ReadResponse, key_seed: int) -> ChangeHints:
    """Hints of the sitemap or feed that a row stored; empty if it cannot be read."""
    try:
        answer = read_answer(row.warc, row.offset) if row.warc else None
    except (OSError, ValueError, KeyError, DamagedFile):
        answer = None
    keys, times = list[int](), list[float]()
    if answer is not None:
        body = decode_response(answer).body
        for entry in read_sitemap(body, row.url).urls:
            at = parse_lastmod(entry.lastmod, row.at) if entry.lastmod else None
            if at is not None and at <= row.at + _AHEAD:
                keys.append(key_of(entry.url, key_seed))
                times.append(at)
    return ChangeHints(np.array(keys, np.uint64), np.array(times, np.float64))


def parse_lastmod(lastmod: str, now: float) -> float | None:
    """Time of a `lastmod` in W3C or RFC 5322 format; for a day, its beginning; None if it cannot be parsed.

    >>> parse_lastmod("1970-01-02", 0.0), parse_lastmod("1970-01-01T01:00:30+01:00", 0.0)
    (86400.0, 30.0)
    >>> parse_lastmod("Thu, 01 Jan 1970 00:00:10 GMT", 0.0), parse_lastmod("yesterday", 0.0)
    (10.0, None)
    """
    try:
        moment = datetime.fromisoformat(lastmod.strip())
    except ValueError:
        return parse_date(lastmod, now)
    try:
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def freshness_weights(table: PageTable) -> NDArray[np.float64]:
    """Weight of each page's freshness: sitemaps and feeds weigh more, by the number of pages they cover.

    The weight grows with the square root, so that a sitemap or feed is polled more often than a page, but
    never instead of all pages.
    """
    flags, hosts = table.column("flags"), table.column("host")
    signal = flags & PageFlag.SIGNAL != 0
    listed = np.bincount(hosts[~signal & ~is_unplanned(flags)], minlength=len(table.hosts))
    signals = np.maximum(np.bincount(hosts[signal], minlength=len(table.hosts)), 1)
    worth = np.minimum(np.sqrt(1.0 + table.hint_trust_by_host() * listed / signals), MAX_WEIGHT)
    return np.where(signal, worth[hosts], 1.0)
