"""Sitemaps and feeds are polled as signals: one request that tells about many pages.

A signal that was polled and has changed is read from the archive, where its poll has put it; so nothing is
lost to a kill, and no other page pays for it. What it says of a page counts if it names a time after our last
look: then the page is *hinted*, and its next poll comes the earlier, the more such hints proved right for its
host. That poll proves it or not (`fold`). A time in the future says nothing, nor does a day on which we
have looked: sites that call everything new every day are not believed for long.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fieldmouse.errors import Damaged
from fieldmouse.records import OutcomeRow, Response
from fieldmouse.refresh.fold import is_odd
from fieldmouse.refresh.ledger import Ledger
from fieldmouse.refresh.looks import Flag
from fieldmouse.url import key_of
from fieldmouse.web.encoding import unpack
from fieldmouse.web.httpdate import parse_date
from fieldmouse.web.sitemap import read

ReadAnswer = Callable[[str, int], Response]
"""The answer whose record is at a WARC file and offset, its body still content-encoded."""

_AHEAD = 3600.0  # seconds by which somebody's clock may be wrong
MOST_WEIGHT = 10.0


class Hints(NamedTuple):
    """What a signal says: keys of pages, and when each changed last."""

    keys: NDArray[np.uint64]
    changed_at: NDArray[np.float64]


class SignalReader:
    """Reads one signal after another; in a thread if there is a `pool`."""

    def __init__(self, ledger: Ledger, read_answer: ReadAnswer, pool: Executor | None = None):
        self._ledger, self._read_answer, self._pool = ledger, read_answer, pool
        self._seen = -1  # how much of the outcome log was in the ledger when there was nothing to read
        self._reading: tuple[int, Future[Hints]] | None = None

    def look(self) -> bool:
        """Take in what was read, and begin with the next; returns whether pages were hinted."""
        if self._reading is not None:
            number, future = self._reading
            if not future.done():
                return False
            self._reading = None
            return self._take(number, future.result())
        if self._seen == self._ledger.cursor:
            return False
        unread = np.flatnonzero(self._ledger.column("flags") & Flag.UNREAD)
        if not len(unread):
            self._seen = self._ledger.cursor
            return False
        number = int(unread[0])
        row = self._ledger.row_at(int(self._ledger.take("standing", unread[:1])[0]))
        job = partial(hints_of, row, self._read_answer, self._ledger.key_seed)
        if self._pool is None:
            return self._take(number, job())
        self._reading = number, self._pool.submit(job)
        return False

    def _take(self, number: int, hints: Hints) -> bool:
        ledger = self._ledger
        ledger.unmark(np.array([number]), Flag.UNREAD)
        rows = ledger.rows_of(hints.keys)
        told = np.zeros(len(ledger))
        known = rows >= 0
        np.maximum.at(told, rows[known], hints.changed_at[known])
        rows = np.unique(rows[known])
        looked, flags = ledger.take("looked", rows), ledger.take("flags", rows)
        rows = rows[(looked > 0) & (told[rows] > looked) & ~is_odd(flags)]
        ledger.mark(rows, Flag.HINTED)
        return len(rows) > 0


def hints_of(row: OutcomeRow, read_answer: ReadAnswer, key_seed: int) -> Hints:
    """What the sitemap or feed that was stored by a row says of pages; nothing if it cannot be read."""
    try:
        answer = read_answer(row.warc, row.offset) if row.warc else None
    except (OSError, ValueError, KeyError, Damaged):
        answer = None
    keys, times = list[int](), list[float]()
    if answer is not None:
        body = unpack(answer).body
        for entry in read(body, row.url).urls:
            at = changed_at(entry.lastmod, row.at) if entry.lastmod else None
            if at is not None and at <= row.at + _AHEAD:
                keys.append(key_of(entry.url, key_seed))
                times.append(at)
    return Hints(np.array(keys, np.uint64), np.array(times, np.float64))


def changed_at(lastmod: str, now: float) -> float | None:
    """The moment that a host names, in a W3C date or as mail writes it; of a day, its beginning.

    >>> changed_at("1970-01-02", 0.0), changed_at("1970-01-01T01:00:30+01:00", 0.0)
    (86400.0, 30.0)
    >>> changed_at("Thu, 01 Jan 1970 00:00:10 GMT", 0.0), changed_at("yesterday", 0.0)
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


def weights(ledger: Ledger) -> NDArray[np.float64]:
    """How much the freshness of each page counts: that of a signal more, by what it can tell of others.

    By the root of that, so that a signal is polled more often than a page, and never instead of all of them.
    """
    flags, hosts = ledger.column("flags"), ledger.column("host")
    signal = flags & Flag.SIGNAL != 0
    listed = np.bincount(hosts[~signal & ~is_odd(flags)], minlength=ledger.hosts)
    signals = np.maximum(np.bincount(hosts[signal], minlength=ledger.hosts), 1)
    worth = np.minimum(np.sqrt(1.0 + ledger.trust() * listed / signals), MOST_WEIGHT)
    return np.where(signal, worth[hosts], 1.0)
