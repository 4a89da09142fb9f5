"""List of page changes from the outcome logs, without withdrawn changes and without noise.

Each log is read twice, because a later row may withdraw an earlier change. Rules in `[noise]` also apply to
the past: where a rule matches a changed page, its two stored versions are compared again, and the change is
dropped if they no longer differ.

When several crawls are read as one, two of them may report the same change. A page is new only if no other
crawl had it, and a change that a second crawl finds again is listed once.

Outcomes that the coordinator rejected, because another agent's came first, are noted in `unbooked.log`.
Readers still show the newest copy; only an explanation mentions the rejection.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence

import msgspec

from fieldmouse.policy.noise_rules import NoiseRules
from fieldmouse.reader.snapshot import CrawlSnapshot
from fieldmouse.reader.versions import changed_word_share
from fieldmouse.storage.changes_from_outcomes import Change, ChangeKind, changes_in, sealed_baseline
from fieldmouse.storage.log import read_records
from fieldmouse.types.outcome import OutcomeRow
from fieldmouse.types.reason import OutcomeKind

_decode = msgspec.msgpack.Decoder(OutcomeRow).decode

#: A row and the crawl it is from.
RowInCrawl = tuple[OutcomeRow, CrawlSnapshot]


def list_changes(
    snapshots: Sequence[CrawlSnapshot], rules: NoiseRules, since: float, is_wanted: Callable[[str], bool]
) -> Iterator[tuple[Change, CrawlSnapshot]]:
    """Every change that counts, oldest first within each crawl, with the crawl that saw it first."""
    baselines = {snapshot: sealed_baseline(snapshot.last) for snapshot in snapshots}

    def changes_of(row: OutcomeRow, snapshot: CrawlSnapshot, offset: int) -> list[Change]:
        return changes_in(row, offset, baselines[snapshot]) if row.at >= since and is_wanted(row.url) else []

    withdrawn, followed = set[str](), set[str]()
    for row, snapshot, offset in _rows_with_offsets(snapshots):
        for change in changes_of(row, snapshot, offset):
            if change.kind is ChangeKind.WITHDRAWN:
                withdrawn.add(change.withdraws)
            elif change.kind is not ChangeKind.NEW or len(snapshots) > 1:
                followed.add(change.url)
    copies: dict[str, RowInCrawl] = {}  # previous version of each page that has changes
    reported: dict[str, RowInCrawl] = {}  # last row reported for each page
    for row, snapshot, offset in _rows_with_offsets(snapshots):
        for change in changes_of(row, snapshot, offset):
            if change.kind is ChangeKind.WITHDRAWN or change.id in withdrawn:
                continue
            before = copies.get(change.url)
            if _already_reported((row, snapshot), before, reported.get(change.url)):
                continue
            reported[change.url] = row, snapshot
            counted = _unless_noise(change, before, (row, snapshot), rules)
            if counted is not None:
                yield counted, snapshot
        if row.kind is OutcomeKind.PAGE and row.url in followed:
            copies[row.url] = row, snapshot


def _already_reported(now: RowInCrawl, before: RowInCrawl | None, reported: RowInCrawl | None) -> bool:
    """Whether another crawl already had this "new" page, or already reported this change."""
    row, snapshot = now
    if not row.polled:
        return before is not None and before[1] is not snapshot
    return reported is not None and reported[1] is not snapshot and _page_state(reported[0]) == _page_state(row)


def _page_state(row: OutcomeRow) -> tuple[OutcomeKind, str]:
    """State of a page that makes two reports the same."""
    return row.kind, row.digest if row.kind is OutcomeKind.PAGE else row.target


def _unless_noise(change: Change, before: RowInCrawl | None, now: RowInCrawl, rules: NoiseRules) -> Change | None:
    """The change as listed; None if the noise rules leave nothing of it."""
    if before is None or change.kind is ChangeKind.NEW:
        return change
    if change.kind is not ChangeKind.CHANGED:
        return msgspec.structs.replace(change, title=change.title or before[0].title)
    old, new = (snapshot.page_of_row(row) for row, snapshot in (before, now))
    share = changed_word_share(old, new, rules)
    return None if share is None else msgspec.structs.replace(change, difference=share)


def _rows_with_offsets(snapshots: Sequence[CrawlSnapshot]) -> Iterator[tuple[OutcomeRow, CrawlSnapshot, int]]:
    """The rows of all logs merged by time, with their offsets; rows of one log keep their order."""
    return heapq.merge(*map(_log_rows, snapshots), key=lambda placed: placed[0].at)


def _log_rows(snapshot: CrawlSnapshot) -> Iterator[tuple[OutcomeRow, CrawlSnapshot, int]]:
    for offset, record in read_records(snapshot.home / "outcomes.log", length=snapshot.length):
        yield _decode(record), snapshot, offset
