"""What there is to tell of a crawl: pages that are new, changed, gone or moved, by its outcome log.

A change is a fold of one row, so there is nothing to keep in step: whoever lists changes and whoever
tells people of them read the same log from where they left off, and make the same of it. The first
crawl is the *baseline*: what was seen before it ended is not new. Sitemaps and feeds are no pages; what
they list is told of by itself.

What was told and proved to be noise at a later look is *withdrawn*: a list leaves both out, and who
was told hears of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec
import xxhash

from fieldmouse.crawldir.checkpoint import Checkpoint
from fieldmouse.crawldir.directory import CrawlDir
from fieldmouse.crawldir.log import FRAME, records
from fieldmouse.records import Kind, News, OutcomeKind, OutcomeRow

REFRESH = "refresh"
"""The part of a checkpoint that holds the baseline."""

_SIGNALS = frozenset((Kind.SITEMAP.value, Kind.FEED.value, Kind.EXCLUSION.value))
_decode = msgspec.msgpack.Decoder(OutcomeRow).decode


class ChangeKind(StrEnum):
    """What happened to a page. The values are what people read and what JSON holds."""

    NEW = "new"  # seen for the first time after the baseline; also what was no page, and is one now
    CHANGED = "changed"
    GONE = "gone"
    MOVED = "moved"  # for good: a redirect of 301 or 308
    WITHDRAWN = "withdrawn"  # an earlier change was noise after all


class Baseline(msgspec.Struct, frozen=True):
    """State of the part `refresh`, as far as telling is concerned; its owner may add to it.

    A baseline that was set while the clock was ahead is replaced once the clock is right. Rows that were
    written before that are still judged by the old one: their times are by the same clock.
    """

    baseline: float = 0.0  # epoch seconds: whatever was seen later is new; 0 as long as there is none
    replaced: list[tuple[int, float]] = []  # older baselines, each with the byte at which its rows end

    def at(self, offset: int) -> float:
        """The baseline for the row at this byte of the outcome log."""
        return next((baseline for end, baseline in self.replaced if offset < end), self.baseline)


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """One thing to tell. `id` is the same whenever, and by whomever, the row is read."""

    url: str
    kind: ChangeKind
    at: float  # epoch seconds: when the answer was complete that showed it
    id: str
    title: str = ""  # of the page as it is now; "" if it has none, or is gone
    difference: float = 0.0  # share of its words, from 0 to 1; 1 for a page that is new, gone or moved
    target: str = ""  # moved: where to
    status: int = 0
    via: str = ""  # the page on which it was found
    seen_at: float = 0.0  # when its URL was found
    withdraws: str = ""  # withdrawn: the `id` of the change that does not count


def sealed_baseline(last: Checkpoint | None) -> Baseline | None:
    """When the first crawl was over, by a checkpoint; None if it is not, so that nothing is new yet."""
    if last is None or REFRESH not in last.parts:
        return None
    sealed = last.state(REFRESH, Baseline)
    return sealed if sealed.baseline else None


def change_id(url: str, kind: ChangeKind, at: float) -> str:
    """A name that only this change has: a page has one answer at a time.

    >>> change_id("http://a.example/", ChangeKind.GONE, 1.0)
    '22d9b75cafa8659df6669154ff9d7f33'
    """
    return xxhash.xxh3_128_hexdigest(f"{kind}\n{at!r}\n{url}".encode())


def changes_in(row: OutcomeRow, offset: int, baseline: Baseline | None) -> list[Change]:
    """What the row at byte `offset` tells; most rows tell nothing. Withdrawals come before other changes."""
    if row.found_as in _SIGNALS:
        return []
    told = [_withdrawal(row, at) for at in row.withdrawn_at]
    kind = _kind(row, baseline.at(offset) if baseline is not None else None)
    if kind is not None:
        change = Change(
            url=row.url, kind=kind, at=row.at, id=change_id(row.url, kind, row.at),
            title="" if kind is ChangeKind.GONE else row.title,
            difference=row.difference if kind is ChangeKind.CHANGED else 1.0,
            target=row.target, status=row.status, via=row.via, seen_at=row.seen_at,
        )  # fmt: skip
        told.append(change)
    return told


def _kind(row: OutcomeRow, baseline: float | None) -> ChangeKind | None:
    if not row.polled:
        # A URL that was seen after its own answer was seen before the clock was set back.
        later = baseline is not None and baseline < row.seen_at <= row.at
        is_new = row.kind is OutcomeKind.PAGE and later
        return ChangeKind.NEW if is_new else None
    match row.news:
        case News.GONE:
            return ChangeKind.GONE
        case News.MOVED:
            return ChangeKind.MOVED
        case News.CHANGED if row.polled == OutcomeKind.PAGE:
            return ChangeKind.CHANGED
        case News.CHANGED if baseline is not None and row.at > baseline:
            return ChangeKind.NEW  # it was gone, moved or out of reach when it was asked before
    return None


def _withdrawal(row: OutcomeRow, at: float) -> Change:
    kind = ChangeKind.WITHDRAWN
    return Change(
        url=row.url, kind=kind, at=row.at, id=change_id(row.url, kind, at), title=row.title,
        status=row.status, via=row.via, seen_at=row.seen_at,
        withdraws=change_id(row.url, ChangeKind.CHANGED, at),
    )  # fmt: skip


def changes_from(
    home: CrawlDir, start: int, *, length: int, baseline: Baseline | None
) -> Iterator[tuple[Change, int]]:
    """Every change from byte `start` of the outcome log on, each with where to go on after it.

    That is the byte behind its row, or where the row begins if it has more to tell: who is killed in between
    hears the first again, and loses none. Withdrawn changes come, too. At the end go on from `length`.
    """
    if start >= length:
        return
    for offset, record in records(home / "outcomes.log", start=start, length=length):
        told = changes_in(_decode(record), offset, baseline)
        for change in told:
            behind = offset + FRAME.size + len(record)
            yield change, behind if change is told[-1] else offset
