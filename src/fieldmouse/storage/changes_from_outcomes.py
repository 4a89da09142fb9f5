"""Changes of pages (new, changed, gone, moved) derived from the outcome log.

Each change follows from one row, so there is no second file to keep in step. The list of changes
and the notifications read the same log from their own offsets and come to the same result. The first
crawl is the *baseline*: pages seen before it ended are not new. Sitemaps and feeds are not pages;
the pages that they list are reported by their own rows.

If a later visit shows that a change was noise, the change is *withdrawn*. Lists leave both out;
receivers that were notified get the withdrawal.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec
import xxhash

from fieldmouse.storage.checkpoint import Checkpoint
from fieldmouse.types.outcome import ContentChange, OutcomeRow
from fieldmouse.types.reason import OutcomeKind
from fieldmouse.types.request import RequestKind

#: The part of a checkpoint that holds the baseline.
REFRESH_PART = "refresh"

_SIGNALS = frozenset((RequestKind.SITEMAP.value, RequestKind.FEED.value, RequestKind.ROBOTS_TXT.value))


class ChangeKind(StrEnum):
    """Kind of change of a page. The values are shown to users and stored in JSON."""

    NEW = "new"  # first seen after the baseline, or a URL that was not a page before
    CHANGED = "changed"
    GONE = "gone"
    MOVED = "moved"  # permanently: a redirect of 301 or 308
    WITHDRAWN = "withdrawn"  # an earlier change was noise


class NewPageBaseline(msgspec.Struct, frozen=True):
    """The fields of the part `refresh` that changes depend on; its owner may add others.

    A baseline set while the clock was ahead is replaced once the clock is right. Rows written
    before that are still compared with the old one, because their times come from the same clock.
    """

    baseline: float = 0.0  # epoch seconds: anything seen later is new; 0 means none yet
    replaced: list[tuple[int, float]] = []  # older baselines, each with the offset at which its rows end

    def baseline_time_at_offset(self, offset: int) -> float:
        """The baseline for the row at this byte of the outcome log."""
        return next((baseline for end, baseline in self.replaced if offset < end), self.baseline)


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """One change of a page. Every reader of the row computes the same `id`."""

    url: str
    kind: ChangeKind
    at: float  # epoch seconds: when the response that showed it was complete
    id: str
    title: str = ""  # current title of the page; "" if it has none or is gone
    difference: float = 0.0  # share of its words, from 0 to 1; 1 for a page that is new, gone or moved
    target: str = ""  # moved: the new URL
    status: int = 0
    via: str = ""  # the page that links to it
    seen_at: float = 0.0  # when its URL was found
    withdraws: str = ""  # withdrawn: the `id` of the change that no longer counts


def sealed_baseline(last: Checkpoint | None) -> NewPageBaseline | None:
    """The baseline in a checkpoint; None if the first crawl has not ended, so that no page is new yet."""
    if last is None or REFRESH_PART not in last.parts:
        return None
    sealed = last.decode_part(REFRESH_PART, NewPageBaseline)
    return sealed if sealed.baseline else None


def change_id(url: str, kind: ChangeKind, at: float) -> str:
    """Unique id of a change: a page has one response at a time.

    >>> change_id("http://a.example/", ChangeKind.GONE, 1.0)
    '22d9b75cafa8659df6669154ff9d7f33'
    """
    return xxhash.xxh3_128_hexdigest(f"{kind}\n{at!r}\n{url}".encode())


def changes_in(row: OutcomeRow, offset: int, baseline: NewPageBaseline | None) -> list[Change]:
    """Changes in the row at byte `offset`; most rows have none. Withdrawals come before other changes."""
    if row.found_as in _SIGNALS:
        return []
    withdrawn = ((at, change_id(row.url, ChangeKind.CHANGED, at)) for at in row.withdrawn_at)
    changes = [_make_change(row, ChangeKind.WITHDRAWN, at, title=row.title, withdraws=id) for at, id in withdrawn]
    kind = _change_kind(row, baseline.baseline_time_at_offset(offset) if baseline is not None else None)
    if kind is not None:
        difference = row.difference if kind is ChangeKind.CHANGED else 1.0
        title = "" if kind is ChangeKind.GONE else row.title
        changes.append(_make_change(row, kind, row.at, title=title, difference=difference, target=row.target))
    return changes


def _make_change(row: OutcomeRow, kind: ChangeKind, at: float, **fields: Any) -> Change:
    """A change seen in a row; `at` is the time of the response that it is about."""
    seen: dict[str, Any] = {"status": row.status, "via": row.via, "seen_at": row.seen_at}
    return Change(url=row.url, kind=kind, at=row.at, id=change_id(row.url, kind, at), **seen, **fields)


def _change_kind(row: OutcomeRow, baseline: float | None) -> ChangeKind | None:
    if not row.polled:
        # A URL with a later `seen_at` than its own response was seen before the clock was set back.
        later = baseline is not None and baseline < row.seen_at <= row.at
        is_new = row.kind is OutcomeKind.PAGE and later
        return ChangeKind.NEW if is_new else None
    match row.news:
        case ContentChange.GONE:
            return ChangeKind.GONE
        case ContentChange.MOVED:
            return ChangeKind.MOVED
        case ContentChange.CHANGED if row.polled == OutcomeKind.PAGE:
            return ChangeKind.CHANGED
        case ContentChange.CHANGED if baseline is not None and row.at > baseline:
            return ChangeKind.NEW  # at its last visit it was gone, moved or unreachable
    return None
