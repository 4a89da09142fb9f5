"""Application of outcome rows to the page table, one batch at a time.

A page enters the table with the first row that says what it is: a page, a page gone (404, 410), a page
moved permanently (301, 308), a failure or a refusal. Temporary redirects add and change nothing. The
result of a poll is in the row's `news`; where `news` is empty, the digests decide, which needs the
previous standing row (`COMPARE_DIGEST`).

All operations are vectorized over pages. If a page has several rows in a batch, they are applied in
rounds: the first row of every page, then the second, so that each row sees the result of the previous
one. The result therefore does not depend on batch boundaries.
"""

from __future__ import annotations

import math
from enum import IntFlag
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from fieldmouse.policy import change_rate
from fieldmouse.policy.polling.interface import PollingPolicy
from fieldmouse.refresh import last_modified
from fieldmouse.refresh.column_table import ColumnSpec, ColumnTable, KeyIndex, Rows
from fieldmouse.refresh.last_modified import parse_last_modified
from fieldmouse.types.outcome import ContentChange, OutcomeRow
from fieldmouse.types.reason import OutcomeKind, OutcomeReason
from fieldmouse.types.request import RequestKind
from fieldmouse.url import host_of

SIGNAL_KINDS = frozenset((RequestKind.SITEMAP.value, RequestKind.FEED.value))
PERMANENT_REDIRECTS = frozenset((301, 308))

_decode = msgspec.msgpack.Decoder(OutcomeRow).decode


class PageFlag(IntFlag):
    """Flags of a page in the page table."""

    GONE = 1  # 404 or 410; it may come back
    MOVED = 2  # permanently
    FAILED = 4  # never was a page: polled again from time to time
    REFUSED = 8  # the same, and no request was sent
    SIGNAL = 16  # a sitemap or feed, which lists other pages
    EXCLUDED = 32  # robots.txt disallows it now
    ABSENT = 64  # its failure was withdrawn: it waits in the frontier like a new URL
    IN_FLIGHT = 128  # a poll is in flight
    TROUBLE = 256  # the last poll showed nothing about the page
    NO_VALIDATORS = 512  # its oldest copy has no validators, as checked in the archive
    HINTED = 1024  # a sitemap or feed says that it has changed since the last poll
    UNREAD = 2048  # a polled sitemap or feed that may list something new


NOT_A_PAGE = PageFlag.GONE | PageFlag.MOVED | PageFlag.FAILED | PageFlag.REFUSED
#: Flags of entries without a planned rate: these are polled at a small fixed rate.
UNPLANNED = NOT_A_PAGE | PageFlag.EXCLUDED


class RowEffect(IntFlag):
    """Effects of a row, in addition to the flags that the page has after it."""

    ADDS = 1  # adds the page if it is unknown
    ANSWERED = 2  # the server answered for the page
    STANDS = 4  # the row becomes the page's standing row
    POLL = 8
    CHANGED = 16
    COMPARE_DIGEST = 32  # changed if the digest differs from that of the previous standing row
    TAKEN_BACK = 64
    WITHDRAWN = 128  # earlier changes of the page were noise


_ENTERS, _ASK_DIGEST, _LOOK = int(RowEffect.ADDS), int(RowEffect.COMPARE_DIGEST), int(RowEffect.ANSWERED)


class OutcomeBatch(NamedTuple):
    """Rows as arrays; `digests` holds, by position, the digests that must be compared."""

    keys: NDArray[np.uint64]
    offsets: NDArray[np.int64]
    at: NDArray[np.float64]
    effects: NDArray[np.uint8]
    flags: NDArray[np.uint16]
    withdrawn: NDArray[np.uint32]
    hosts: NDArray[np.uint64]
    modified: NDArray[np.float64]  # the server's `Last-Modified`; NaN if there is none
    digests: dict[int, str]


_TYPES = ("u8", "i8", "f8", "u1", "u2", "u4", "u8", "f8")  # of the arrays of a batch


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
        said, flags = _row_effects(row)
        if said & _ASK_DIGEST:
            self._digests[len(self._rows)] = row.digest
        seed = self._seed
        host = xxh3_64_intdigest(host_of(row.url).encode(), seed) if said & _ENTERS else 0
        key = xxh3_64_intdigest(row.url.encode(), seed)
        modified = parse_last_modified(row.last_modified, row.at) if said & _LOOK else math.nan
        self._rows.append((key, offset, row.at, said, flags, row.withdrawn_change_count, host, modified))

    def take_batch(self) -> OutcomeBatch:
        """Return the collected rows and start empty."""
        columns = zip(zip(*self._rows, strict=True), _TYPES, strict=True)
        batch = OutcomeBatch._make([*(np.array(values, kind) for values, kind in columns), self._digests])
        self._rows, self._digests = [], {}
        return batch


_POLL, _STANDS = int(RowEffect.POLL), int(RowEffect.STANDS)
_TOLD = int(RowEffect.ADDS | RowEffect.ANSWERED)
_TROUBLE = int(PageFlag.TROUBLE)


def _row_effects(row: OutcomeRow) -> tuple[int, int]:
    """Effects of a row, and the flags that the page has if the row stands, or until another row stands.

    Called once per row: plain integers, since combining enum flags is ten times slower.
    """
    flags = int(PageFlag.SIGNAL) if row.found_as in SIGNAL_KINDS else 0
    said = _POLL if row.polled else 0
    if row.withdrawn_at:
        said |= int(RowEffect.WITHDRAWN)
    kind, news = row.kind, row.news
    if kind is OutcomeKind.PAGE:
        said |= _TOLD
        if flags and row.polled and news is not ContentChange.SAME:
            flags |= int(PageFlag.UNREAD)
    elif kind is OutcomeKind.UNCHANGED:
        return said | _LOOK, flags
    elif kind is OutcomeKind.MOVED:
        # A page that is not stored yet at its new URL: another row will follow.
        if row.status not in PERMANENT_REDIRECTS or not row.supersedes_earlier:
            return said, flags | _TROUBLE
        said, flags = said | _TOLD, flags | int(PageFlag.MOVED)
    elif row.is_gone:
        said, flags = said | _TOLD, flags | int(PageFlag.GONE)
    elif kind is OutcomeKind.WITHDRAWN:
        return int(RowEffect.TAKEN_BACK), flags
    else:
        flags |= _TROUBLE | int(PageFlag.FAILED if kind is OutcomeKind.FAILED else PageFlag.REFUSED)
        if row.reason is OutcomeReason.ROBOTS_TXT_EXCLUDED:
            flags |= int(PageFlag.EXCLUDED)
        return said | int(RowEffect.ADDS) | (_STANDS if row.supersedes_earlier else 0), flags
    if row.supersedes_earlier:
        said |= _STANDS
    if row.polled:
        if news in (ContentChange.CHANGED, ContentChange.GONE, ContentChange.MOVED):
            said |= int(RowEffect.CHANGED)
        elif news is ContentChange.NONE:
            said |= int(RowEffect.COMPARE_DIGEST if kind is OutcomeKind.PAGE else RowEffect.CHANGED)
    return said, flags


Marks = NDArray[np.bool_]

_KEPT = np.uint16(PageFlag.IN_FLIGHT | PageFlag.HINTED | PageFlag.UNREAD)


def page_fields(policy: PollingPolicy) -> list[ColumnSpec]:
    """Columns of a page: 62 bytes, 8 per belief column, and 4 per column of the policy's state."""
    return [
        ColumnSpec("key", "<u8"),
        ColumnSpec("standing", "<i8"),  # offset of the row that says what the page is now
        ColumnSpec("newest", "<i8"),  # offset of the newest row in which the server answered for the page
        ColumnSpec("looked", "<f8"),  # time of the last answer about the page; 0: never
        ColumnSpec("tried", "<f8"),  # time of the newest row
        ColumnSpec("changed", "<f8"),  # time at which a change was last found; 0: never
        ColumnSpec("polls", "<u4"),
        ColumnSpec("changes", "<u4"),
        ColumnSpec("host", "<u4"),
        ColumnSpec("flags", "<u2"),
        ColumnSpec("belief", "<f4", change_rate.WIDTH),  # from polls alone
        ColumnSpec("dated", "<f4", change_rate.WIDTH),  # from polls and `Last-Modified` dates
        ColumnSpec("state", "<f4", policy.width),
    ]


HOST_FIELDS = [
    ColumnSpec("key", "<u8"),
    ColumnSpec("trust", "<f4", 2),  # hints of its sitemaps and feeds that proved right, and wrong
    ColumnSpec("dates", "<f4", 2),  # `Last-Modified` dates that proved right, and wrong
]


class InMemoryPageTable:
    """Tables of pages and hosts in memory, and their update by outcome rows."""

    def __init__(self, pages: ColumnTable, hosts: ColumnTable, policy: PollingPolicy):
        self.pages, self.hosts, self._policy = pages, hosts, policy
        self.index = KeyIndex(pages.column("key"))
        self._host_index = KeyIndex(hosts.column("key"))
        flags = pages.column("flags")
        asked = pages.column("host")[flags & PageFlag.IN_FLIGHT != 0]
        self.in_flight_by_host: NDArray[np.int64] = np.bincount(asked, minlength=len(hosts)).astype(np.int64)
        self.in_flight = len(asked)  # polls

    def read_logged_outcome(self, offset: int) -> OutcomeRow:
        """Row of the outcome log at `offset`."""
        raise NotImplementedError

    def apply_batch(self, batch: OutcomeBatch) -> None:
        rows = self._find_or_add_pages(batch)
        known = np.flatnonzero(rows >= 0)
        order = known[np.argsort(rows[known], kind="stable")]
        first = np.ones(len(order), bool)
        first[1:] = rows[order[1:]] != rows[order[:-1]]
        starts = np.flatnonzero(first)
        turn = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
        for number in range(int(turn.max(initial=-1)) + 1):
            places = order[turn == number]
            self._apply_one_row_per_page(rows[places], places, batch)

    def _find_or_add_pages(self, batch: OutcomeBatch) -> Rows:
        """Page of each row, new pages included; -1 if the page is unknown and the row does not add it."""
        rows = self.index.find_rows(batch.keys)
        entering = np.flatnonzero((rows < 0) & (batch.effects & RowEffect.ADDS != 0))
        if not len(entering):
            return rows
        keys, at = np.unique(batch.keys[entering], return_index=True)
        by_arrival = np.argsort(at)
        keys, at = keys[by_arrival], entering[at[by_arrival]]
        batch.effects[at] |= np.uint8(RowEffect.STANDS)  # no earlier row stands
        new = self.pages.add_rows(len(keys))
        self.pages.write_cells("key", new, keys)
        self.pages.write_cells("host", new, self._find_or_add_hosts(batch.hosts[at]))
        self.pages.write_cells("belief", new, change_rate.empty_beliefs(len(new)))
        self.pages.write_cells("dated", new, change_rate.empty_beliefs(len(new)))
        self.pages.write_cells("state", new, self._policy.initial_state(len(new)))
        self.index.add_keys(keys, new)
        unknown = np.flatnonzero(rows < 0)
        found = self.index.find_rows(batch.keys[unknown])
        # Rows of a URL before the row that adds it do not count.
        entered_at = np.full(len(self.pages) - int(new[0]), 0, np.int64)
        entered_at[new - new[0]] = at
        early = (found < 0) | (unknown < entered_at[np.maximum(found - new[0], 0)])
        rows[unknown] = np.where(early, -1, found)
        return rows

    def _find_or_add_hosts(self, keys: NDArray[np.uint64]) -> Rows:
        numbers = self._host_index.find_rows(keys)
        unknown = np.flatnonzero(numbers < 0)
        if len(unknown):
            fresh, at = np.unique(keys[unknown], return_index=True)
            fresh = fresh[np.argsort(at)]
            rows = self.hosts.add_rows(len(fresh))
            self.hosts.write_cells("key", rows, fresh)
            self._host_index.add_keys(fresh, rows)
            more = np.zeros(len(rows), np.int64)
            self.in_flight_by_host = np.concatenate([self.in_flight_by_host, more])
            numbers[unknown] = self._host_index.find_rows(keys[unknown])
        return numbers

    def _apply_one_row_per_page(self, rows: Rows, places: NDArray[np.intp], batch: OutcomeBatch) -> None:
        """Apply at most one row per page."""
        pages, said, now = self.pages, batch.effects[places], batch.at[places]
        flags, told = pages.read_cells("flags", rows), batch.flags[places]
        taken_back = said & RowEffect.TAKEN_BACK != 0
        if taken_back.any():
            failed = taken_back & (flags & (PageFlag.FAILED | PageFlag.REFUSED) != 0)
            pages.write_cells("flags", rows[failed], flags[failed] | np.uint16(PageFlag.ABSENT))
            rest = ~taken_back
            rows, places, said, now = rows[rest], places[rest], said[rest], now[rest]
            flags, told = flags[rest], told[rest]
        polled, look, stands = (said & mark != 0 for mark in (RowEffect.POLL, RowEffect.ANSWERED, RowEffect.STANDS))
        looked = pages.read_cells("looked", rows)
        teaches = polled & look & (looked > 0)
        changed = teaches & self._find_changed_pages(rows, places, said, flags, told, teaches, batch.digests)
        self._undo_withdrawn_changes(rows, batch.withdrawn[places])
        first, modified = look & (looked == 0), batch.modified[places]
        self._learn_first_age(rows[first], modified[first], now[first])
        claims = last_modified.evaluate_dates(modified[teaches], looked[teaches], now[teaches], changed[teaches])
        self._learn_from_polls(rows[teaches], (now - looked)[teaches], changed[teaches], claims)
        hinted = teaches & (flags & PageFlag.HINTED != 0)
        if hinted.any():
            self._update_hint_trust(rows[hinted], changed[hinted])
        self._decrement_in_flight_counts(rows[polled & (flags & PageFlag.IN_FLIGHT != 0)])
        pages.write_cells("flags", rows, _flags_after(flags, told, polled, look, stands))
        # A refusal shows nothing about the page: the earlier copy is still what a reader saw last.
        told_of = look | (stands & (looked == 0))
        pages.write_cells("newest", rows[told_of], batch.offsets[places][told_of])
        pages.write_cells("tried", rows, now)
        pages.write_cells("standing", rows[stands], batch.offsets[places][stands])
        pages.write_cells("looked", rows[look], now[look])
        pages.write_cells("changed", rows[changed], now[changed])
        # A poll that we refused ourselves never reached the server.
        made = polled & (told & PageFlag.REFUSED == 0)
        pages.write_cells("polls", rows[made], pages.read_cells("polls", rows[made]) + np.uint32(1))

    def _find_changed_pages(
        self,
        rows: Rows,
        places: NDArray[np.intp],
        said: NDArray[np.uint8],
        flags: NDArray[np.uint16],
        told: NDArray[np.uint16],
        teaches: Marks,
        digests: dict[int, str],
    ) -> Marks:
        changed: Marks = said & RowEffect.CHANGED != 0
        # A page that was gone or moved and still is has not changed.
        changed &= flags & told & (PageFlag.GONE | PageFlag.MOVED) == 0
        asked = teaches & (said & RowEffect.COMPARE_DIGEST != 0)
        changed |= asked & (flags & NOT_A_PAGE != 0)
        unclear = np.flatnonzero(asked & (flags & NOT_A_PAGE == 0))
        for place, offset in zip(unclear, self.pages.read_cells("standing", rows[unclear]).tolist(), strict=True):
            changed[place] = self.read_logged_outcome(offset).digest != digests[int(places[place])]
        return changed

    def _undo_withdrawn_changes(self, rows: Rows, withdrawn: NDArray[np.uint32]) -> None:
        """Reset the learned state of pages whose earlier changes were withdrawn as noise."""
        pages, again = self.pages, rows[withdrawn > 0]
        if len(again):
            for name in ("belief", "dated"):
                pages.write_cells(name, again, change_rate.empty_beliefs(len(again)))
            pages.write_cells("state", again, self._policy.initial_state(len(again)))
            told = pages.read_cells("changes", again)
            pages.write_cells("changes", again, told - np.minimum(told, withdrawn[withdrawn > 0]))

    def _learn_first_age(self, rows: Rows, modified: NDArray[np.float64], now: NDArray[np.float64]) -> None:
        """Record the age of pages seen for the first time, where a date gives it."""
        ages = last_modified.first_seen_ages(modified, now)
        told = np.flatnonzero(~np.isnan(ages))
        if len(told):
            rows, ages = rows[told], ages[told]
            before, unseen = self.pages.read_cells("dated", rows), np.full(len(rows), np.inf)
            self.pages.write_cells(
                "dated", rows, change_rate.update_beliefs(before, unseen, np.ones(len(rows), bool), ages)
            )

    def _learn_from_polls(
        self, rows: Rows, gap: NDArray[np.float64], changed: Marks, told: last_modified.DateEvidence
    ) -> None:
        if not len(rows):
            return
        pages, policy, gap = self.pages, self._policy, np.maximum(gap, 0.0)
        belief, state = pages.read_cells("belief", rows), pages.read_cells("state", rows)
        pages.write_cells("state", rows, policy.observe(state, belief, gap, changed))
        pages.write_cells("belief", rows, change_rate.update_beliefs(belief, gap, changed))
        pages.write_cells(
            "dated", rows, change_rate.update_beliefs(pages.read_cells("dated", rows), gap, changed, told.ages)
        )
        pages.write_cells("changes", rows, pages.read_cells("changes", rows) + changed.astype(np.uint32))
        last_modified.count_dates(self.hosts, pages.read_cells("host", rows).astype(np.int64), told)

    def _update_hint_trust(self, rows: Rows, changed: Marks) -> None:
        """Update the trust in hosts whose hinted pages were polled."""
        numbers = self.pages.read_cells("host", rows).astype(np.int64)
        for number, right in zip(numbers.tolist(), changed.tolist(), strict=True):
            host = np.array([number])
            trust = change_rate.ClaimReliability(*self.hosts.read_cells("trust", host)[0].tolist()).after_claim(right)
            self.hosts.write_cells("trust", host, [[trust.right, trust.wrong]])

    def mark_in_flight(self, rows: Rows) -> None:
        """Mark polls of these pages as in flight; the pages are not due until their rows arrive."""
        flags = self.pages.read_cells("flags", rows)
        self.pages.write_cells("flags", rows, flags | np.uint16(PageFlag.IN_FLIGHT))
        fresh = rows[flags & PageFlag.IN_FLIGHT == 0]
        np.add.at(self.in_flight_by_host, self.pages.read_cells("host", fresh), 1)
        self.in_flight += len(fresh)

    def _decrement_in_flight_counts(self, rows: Rows) -> None:
        np.subtract.at(self.in_flight_by_host, self.pages.read_cells("host", rows), 1)
        self.in_flight -= len(rows)


def _flags_after(
    before: NDArray[np.uint16], told: NDArray[np.uint16], polled: Marks, look: Marks, stands: Marks
) -> NDArray[np.uint16]:
    standing = told | (before & _KEPT)
    # The copy we hold is unchanged; only the way to it is new.
    same = before & ~np.uint16(PageFlag.TROUBLE | PageFlag.EXCLUDED)
    trouble = before | (told & np.uint16(PageFlag.TROUBLE | PageFlag.EXCLUDED))
    after = np.where(stands, standing, np.where(look, same, trouble))
    after = np.where(polled, after & ~np.uint16(PageFlag.IN_FLIGHT), after)
    return np.where(look, after & ~np.uint16(PageFlag.HINTED), after).astype(np.uint16)


def is_unplanned(flags: NDArray[np.uint16]) -> Marks:
    """Mask of entries that get the small retry rate and no planned rate."""
    odd: Marks = flags & UNPLANNED != 0
    return odd
