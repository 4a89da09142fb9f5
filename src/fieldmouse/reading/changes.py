"""The list of what changed: the log's own words, less what was withdrawn and what the user's rules ignore.

The log is read twice: what was told early may be withdrawn late. Rules of `[noise]` work on the
past, too: wherever one is about a page that changed, its two stored versions are compared again,
and what no longer differs was no change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from fieldmouse.crawldir import Checkpoint, CrawlDir, records
from fieldmouse.crawldir.news import Change, ChangeKind, changes_in, sealed_baseline
from fieldmouse.errors import CrawlDirError
from fieldmouse.indexer.library import Library
from fieldmouse.policy.noiserules import NoiseRules
from fieldmouse.reading.moment import sealed_outcomes
from fieldmouse.reading.page import StoredPage
from fieldmouse.reading.versions import compared
from fieldmouse.records import OutcomeKind, OutcomeRow

_decode = msgspec.msgpack.Decoder(OutcomeRow).decode


def list_changes(
    home: CrawlDir, last: Checkpoint, library: Library, rules: NoiseRules, *, since: float,
    is_wanted: Callable[[str], bool] | None,
) -> Iterator[Change]:  # fmt: skip
    """Every change that counts at a checkpoint, oldest first."""
    baseline, length = sealed_baseline(last), sealed_outcomes(last)

    def told(row: OutcomeRow) -> list[Change]:
        if row.at < since or (is_wanted is not None and not is_wanted(row.url)):
            return []
        return changes_in(row, baseline)

    withdrawn, followed = set[str](), set[str]()
    for row in _rows(home, length):
        for change in told(row):
            if change.kind is ChangeKind.WITHDRAWN:
                withdrawn.add(change.withdraws)
            elif change.kind is not ChangeKind.NEW:
                followed.add(change.url)
    copies: dict[str, OutcomeRow] = {}  # the version before, of pages with something to tell
    for row in _rows(home, length):
        for change in told(row):
            if change.kind is ChangeKind.WITHDRAWN or change.id in withdrawn:
                continue
            counted = _counted(change, copies.get(change.url), row, library, rules)
            if counted is not None:
                yield counted
        if row.kind is OutcomeKind.PAGE and row.url in followed:
            copies[row.url] = row


def _counted(
    change: Change, before: OutcomeRow | None, row: OutcomeRow, library: Library, rules: NoiseRules
) -> Change | None:
    """A change as it is listed; None if nothing is left of it."""
    if before is None or change.kind is ChangeKind.NEW:
        return change
    if change.kind is not ChangeKind.CHANGED:
        return msgspec.structs.replace(change, title=change.title or before.title)
    if rules.at(change.url).empty:
        return change
    try:
        hunks, share = compared(StoredPage(before, library), StoredPage(row, library), rules)
    except CrawlDirError:
        return change  # its archive is damaged: what was told stays told
    return msgspec.structs.replace(change, difference=share) if hunks or hunks is None else None


def _rows(home: CrawlDir, length: int) -> Iterator[OutcomeRow]:
    return (_decode(record) for _, record in records(home / "outcomes.log", length=length))
