"""The list of what changed: the logs' own words, less what was withdrawn and what the user's rules ignore.

A log is read twice: what was told early may be withdrawn late. Rules of `[noise]` work on the
past, too: wherever one is about a page that changed, its two stored versions are compared again,
and what no longer differs was no change.

Of several crawls read as one, each may tell what another told before: a page is new only if
none had it, and what a second crawl finds as the first told it is told once.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence

import msgspec

from fieldmouse.crawldir import records
from fieldmouse.crawldir.news import Change, ChangeKind, changes_in, sealed_baseline
from fieldmouse.policy.noiserules import NoiseRules
from fieldmouse.reading.versions import share_that_counts
from fieldmouse.reading.volume import Volume
from fieldmouse.records import OutcomeKind, OutcomeRow

_decode = msgspec.msgpack.Decoder(OutcomeRow).decode

Placed = tuple[OutcomeRow, Volume]
"""A row, and where it stands."""


def list_changes(
    volumes: Sequence[Volume], rules: NoiseRules, *, since: float, is_wanted: Callable[[str], bool] | None
) -> Iterator[tuple[Change, Volume]]:
    """Every change that counts, oldest first within each crawl, and which of them saw it first."""
    baselines = {volume: sealed_baseline(volume.last) for volume in volumes}

    def told(row: OutcomeRow, volume: Volume, offset: int) -> list[Change]:
        if row.at < since or (is_wanted is not None and not is_wanted(row.url)):
            return []
        return changes_in(row, offset, baselines[volume])

    withdrawn, followed = set[str](), set[str]()
    for row, volume, offset in _rows(volumes):
        for change in told(row, volume, offset):
            if change.kind is ChangeKind.WITHDRAWN:
                withdrawn.add(change.withdraws)
            elif change.kind is not ChangeKind.NEW or len(volumes) > 1:
                followed.add(change.url)
    copies: dict[str, Placed] = {}  # the version before, of pages with something to tell
    known: dict[str, Placed] = {}  # what was told of them last
    for row, volume, offset in _rows(volumes):
        for change in told(row, volume, offset):
            if change.kind is ChangeKind.WITHDRAWN or change.id in withdrawn:
                continue
            before = copies.get(change.url)
            if _is_old((row, volume), before, known.get(change.url)):
                continue
            known[change.url] = row, volume
            counted = _counted(change, before, (row, volume), rules)
            if counted is not None:
                yield counted, volume
        if row.kind is OutcomeKind.PAGE and row.url in followed:
            copies[row.url] = row, volume


def _is_old(now: Placed, before: Placed | None, told: Placed | None) -> bool:
    """Whether another crawl had a page that is called new here, or told already what is told here."""
    row, volume = now
    if not row.polled:
        return before is not None and before[1] is not volume
    return told is not None and told[1] is not volume and _state(told[0]) == _state(row)


def _state(row: OutcomeRow) -> tuple[OutcomeKind, str]:
    """What a page became."""
    return row.kind, row.digest if row.kind is OutcomeKind.PAGE else row.target


def _counted(change: Change, before: Placed | None, now: Placed, rules: NoiseRules) -> Change | None:
    """A change as it is listed; None if nothing is left of it."""
    if before is None or change.kind is ChangeKind.NEW:
        return change
    if change.kind is not ChangeKind.CHANGED:
        return msgspec.structs.replace(change, title=change.title or before[0].title)
    old, new = (volume.page(row) for row, volume in (before, now))
    share = share_that_counts(old, new, rules)
    return None if share is None else msgspec.structs.replace(change, difference=share)


def _rows(volumes: Sequence[Volume]) -> Iterator[tuple[OutcomeRow, Volume, int]]:
    """The rows of all logs by their time, as far as each log goes by it; with the byte where each begins."""
    return heapq.merge(*map(_rows_of, volumes), key=lambda placed: placed[0].at)


def _rows_of(volume: Volume) -> Iterator[tuple[OutcomeRow, Volume, int]]:
    for offset, record in records(volume.home / "outcomes.log", length=volume.length):
        yield _decode(record), volume, offset
