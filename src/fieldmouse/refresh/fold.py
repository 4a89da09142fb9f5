"""Application of outcome rows to the page table, one batch at a time.

All operations are vectorized over pages. If a page has several rows in a batch, they are applied in
rounds: the first row of every page, then the second, so that each row sees the result of the previous
one. The result therefore does not depend on batch boundaries.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fieldmouse.policy import change
from fieldmouse.policy.polling import PollingPolicy
from fieldmouse.refresh import dates
from fieldmouse.refresh.columns import Columns, Field, Rows
from fieldmouse.refresh.keyindex import KeyIndex
from fieldmouse.refresh.looks import ODD, STANDING, Batch, Flag, Said

Marks = NDArray[np.bool_]

_KEPT = np.uint16(Flag.ASKED | Flag.HINTED | Flag.UNREAD)


def page_fields(policy: PollingPolicy) -> list[Field]:
    """Columns of a page: 62 bytes, 8 per belief column, and 4 per column of the policy's state."""
    return [
        Field("key", "<u8"),
        Field("standing", "<i8"),  # offset of the row that says what the page is now
        Field("newest", "<i8"),  # offset of the newest row in which the server answered for the page
        Field("looked", "<f8"),  # time of the last answer about the page; 0: never
        Field("tried", "<f8"),  # time of the newest row
        Field("changed", "<f8"),  # time at which a change was last found; 0: never
        Field("polls", "<u4"),
        Field("changes", "<u4"),
        Field("host", "<u4"),
        Field("flags", "<u2"),
        Field("belief", "<f4", change.WIDTH),  # from polls alone
        Field("dated", "<f4", change.WIDTH),  # from polls and `Last-Modified` dates
        Field("state", "<f4", policy.width),
    ]


HOST_FIELDS = [
    Field("key", "<u8"),
    Field("trust", "<f4", 2),  # hints of its sitemaps and feeds that proved right, and wrong
    Field("dates", "<f4", 2),  # `Last-Modified` dates that proved right, and wrong
]


class Fold:
    """Updater of the tables; `digest_at` reads the digest of the row at an offset."""

    def __init__(
        self, pages: Columns, hosts: Columns, policy: PollingPolicy, digest_at: Callable[[int], str]
    ):
        self._pages, self._hosts, self._policy, self._digest_at = pages, hosts, policy, digest_at
        self.index = KeyIndex(pages.whole("key"))
        self._host_index = KeyIndex(hosts.whole("key"))
        flags = pages.whole("flags")
        asked = pages.whole("host")[flags & Flag.ASKED != 0]
        self.asked_by_host: NDArray[np.int64] = np.bincount(asked, minlength=len(hosts)).astype(np.int64)
        self.asked = len(asked)

    def take(self, batch: Batch) -> None:
        rows = self._rows_of(batch)
        known = np.flatnonzero(rows >= 0)
        order = known[np.argsort(rows[known], kind="stable")]
        first = np.ones(len(order), bool)
        first[1:] = rows[order[1:]] != rows[order[:-1]]
        starts = np.flatnonzero(first)
        turn = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
        for number in range(int(turn.max(initial=-1)) + 1):
            places = order[turn == number]
            self._round(rows[places], places, batch)

    def _rows_of(self, batch: Batch) -> Rows:
        """Page of each row, new pages included; -1 if the page is unknown and the row does not add it."""
        rows = self.index.find(batch.keys)
        entering = np.flatnonzero((rows < 0) & (batch.said & Said.ENTERS != 0))
        if not len(entering):
            return rows
        keys, at = np.unique(batch.keys[entering], return_index=True)
        by_arrival = np.argsort(at)
        keys, at = keys[by_arrival], entering[at[by_arrival]]
        batch.said[at] |= np.uint8(Said.STANDS)  # no earlier row stands
        new = self._pages.grow(len(keys))
        self._pages.put("key", new, keys)
        self._pages.put("host", new, self._hosts_of(batch.hosts[at]))
        self._pages.put("belief", new, change.begin(len(new)))
        self._pages.put("dated", new, change.begin(len(new)))
        self._pages.put("state", new, self._policy.begin(len(new)))
        self.index.add(keys, new)
        unknown = np.flatnonzero(rows < 0)
        found = self.index.find(batch.keys[unknown])
        # Rows of a URL before the row that adds it do not count.
        entered_at = np.full(len(self._pages) - int(new[0]), 0, np.int64)
        entered_at[new - new[0]] = at
        early = (found < 0) | (unknown < entered_at[np.maximum(found - new[0], 0)])
        rows[unknown] = np.where(early, -1, found)
        return rows

    def _hosts_of(self, keys: NDArray[np.uint64]) -> Rows:
        numbers = self._host_index.find(keys)
        unknown = np.flatnonzero(numbers < 0)
        if len(unknown):
            fresh, at = np.unique(keys[unknown], return_index=True)
            fresh = fresh[np.argsort(at)]
            rows = self._hosts.grow(len(fresh))
            self._hosts.put("key", rows, fresh)
            self._host_index.add(fresh, rows)
            more = np.zeros(len(rows), np.int64)
            self.asked_by_host = np.concatenate([self.asked_by_host, more])
            numbers[unknown] = self._host_index.find(keys[unknown])
        return numbers

    def _round(self, rows: Rows, places: NDArray[np.intp], batch: Batch) -> None:
        """Apply at most one row per page."""
        pages, said, now = self._pages, batch.said[places], batch.at[places]
        flags, told = pages.take("flags", rows), batch.flags[places]
        taken_back = said & Said.TAKEN_BACK != 0
        pages.put("flags", rows[taken_back], _absent(flags[taken_back]))
        if taken_back.any():
            rest = ~taken_back
            rows, places, said, now = rows[rest], places[rest], said[rest], now[rest]
            flags, told = flags[rest], told[rest]
        polled, look, stands = (said & mark != 0 for mark in (Said.POLL, Said.LOOK, Said.STANDS))
        looked = pages.take("looked", rows)
        teaches = polled & look & (looked > 0)
        changed = teaches & self._changed(rows, places, said, flags, told, teaches, batch.digests)
        self._begin_again(rows, batch.withdrawn[places])
        first, modified = look & (looked == 0), batch.modified[places]
        self._meet(rows[first], modified[first], now[first])
        claims = dates.claims(modified[teaches], looked[teaches], now[teaches], changed[teaches])
        self._teach(rows[teaches], (now - looked)[teaches], changed[teaches], claims)
        hinted = teaches & (flags & Flag.HINTED != 0)
        if hinted.any():
            self._prove(rows[hinted], changed[hinted])
        self._answered(rows[polled & (flags & Flag.ASKED != 0)])
        pages.put("flags", rows, _flags_after(flags, told, polled, look, stands))
        # A refusal shows nothing about the page: the earlier copy is still what a reader saw last.
        told_of = look | (stands & (looked == 0))
        pages.put("newest", rows[told_of], batch.offsets[places][told_of])
        pages.put("tried", rows, now)
        pages.put("standing", rows[stands], batch.offsets[places][stands])
        pages.put("looked", rows[look], now[look])
        pages.put("changed", rows[changed], now[changed])
        pages.put("polls", rows[polled], pages.take("polls", rows[polled]) + np.uint32(1))

    def _changed(
        self, rows: Rows, places: NDArray[np.intp], said: NDArray[np.uint8], flags: NDArray[np.uint16],
        told: NDArray[np.uint16], teaches: Marks, digests: dict[int, str],
    ) -> Marks:  # fmt: skip
        changed: Marks = said & Said.CHANGED != 0
        # A page that was gone or moved and still is has not changed.
        changed &= flags & told & (Flag.GONE | Flag.MOVED) == 0
        asked = teaches & (said & Said.ASK_DIGEST != 0)
        changed |= asked & (flags & STANDING != 0)
        unclear = np.flatnonzero(asked & (flags & STANDING == 0))
        for place, offset in zip(unclear, self._pages.take("standing", rows[unclear]).tolist(), strict=True):
            changed[place] = self._digest_at(offset) != digests[int(places[place])]
        return changed

    def _begin_again(self, rows: Rows, withdrawn: NDArray[np.uint32]) -> None:
        """Reset the learned state of pages whose earlier changes were withdrawn as noise."""
        pages, again = self._pages, rows[withdrawn > 0]
        if len(again):
            for name in ("belief", "dated"):
                pages.put(name, again, change.begin(len(again)))
            pages.put("state", again, self._policy.begin(len(again)))
            told = pages.take("changes", again)
            pages.put("changes", again, told - np.minimum(told, withdrawn[withdrawn > 0]))

    def _meet(self, rows: Rows, modified: NDArray[np.float64], now: NDArray[np.float64]) -> None:
        """Record the age of pages seen for the first time, where a date gives it."""
        ages = dates.first_ages(modified, now)
        told = np.flatnonzero(~np.isnan(ages))
        if len(told):
            rows, ages = rows[told], ages[told]
            before, unseen = self._pages.take("dated", rows), np.full(len(rows), np.inf)
            self._pages.put("dated", rows, change.observe(before, unseen, np.ones(len(rows), bool), ages))

    def _teach(self, rows: Rows, gap: NDArray[np.float64], changed: Marks, told: dates.Claims) -> None:
        if not len(rows):
            return
        pages, policy, gap = self._pages, self._policy, np.maximum(gap, 0.0)
        belief, state = pages.take("belief", rows), pages.take("state", rows)
        pages.put("state", rows, policy.observe(state, belief, gap, changed))
        pages.put("belief", rows, change.observe(belief, gap, changed))
        pages.put("dated", rows, change.observe(pages.take("dated", rows), gap, changed, told.ages))
        pages.put("changes", rows, pages.take("changes", rows) + changed.astype(np.uint32))
        dates.prove(self._hosts, pages.take("host", rows).astype(np.int64), told)

    def _prove(self, rows: Rows, changed: Marks) -> None:
        """Update the trust in hosts whose hinted pages were polled."""
        numbers = self._pages.take("host", rows).astype(np.int64)
        for number, right in zip(numbers.tolist(), changed.tolist(), strict=True):
            host = np.array([number])
            trust = change.Trust(*self._hosts.take("trust", host)[0].tolist()).observe(right)
            self._hosts.put("trust", host, [[trust.right, trust.wrong]])

    def ask(self, rows: Rows) -> None:
        """Mark polls of these pages as in flight; the pages are not due until their rows arrive."""
        flags = self._pages.take("flags", rows)
        self._pages.put("flags", rows, flags | np.uint16(Flag.ASKED))
        fresh = rows[flags & Flag.ASKED == 0]
        np.add.at(self.asked_by_host, self._pages.take("host", fresh), 1)
        self.asked += len(fresh)

    def unask(self, rows: Rows) -> None:
        """Mark polls of these pages as no longer in flight."""
        flags = self._pages.take("flags", rows)
        self._pages.put("flags", rows, flags & ~np.uint16(Flag.ASKED))
        self._answered(rows[flags & Flag.ASKED != 0])

    def _answered(self, rows: Rows) -> None:
        np.subtract.at(self.asked_by_host, self._pages.take("host", rows), 1)
        self.asked -= len(rows)


def _absent(flags: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """Mark failed pages as absent; the other pages keep their flags."""
    failed = flags & (Flag.FAILED | Flag.REFUSED) != 0
    return np.where(failed, flags | np.uint16(Flag.ABSENT), flags)


def _flags_after(
    before: NDArray[np.uint16], told: NDArray[np.uint16], polled: Marks, look: Marks, stands: Marks
) -> NDArray[np.uint16]:
    standing = told | (before & _KEPT)
    # The copy we hold is unchanged; only the way to it is new.
    same = before & ~np.uint16(Flag.TROUBLE | Flag.EXCLUDED)
    trouble = before | (told & np.uint16(Flag.TROUBLE | Flag.EXCLUDED))
    after = np.where(stands, standing, np.where(look, same, trouble))
    after = np.where(polled, after & ~np.uint16(Flag.ASKED), after)
    return np.where(look, after & ~np.uint16(Flag.HINTED), after).astype(np.uint16)


def is_odd(flags: NDArray[np.uint16]) -> Marks:
    """Mask of entries that get the small retry rate and no planned rate."""
    odd: Marks = flags & ODD != 0
    return odd
