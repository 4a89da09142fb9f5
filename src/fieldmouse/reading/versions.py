"""Stored versions of a page, and the visible difference between two of them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import msgspec

from fieldmouse.errors import CrawlDirError, FieldmouseError, UsageError
from fieldmouse.figures import counted, when
from fieldmouse.indexer import noise
from fieldmouse.indexer.comparison import Hunk, compare, hunks
from fieldmouse.policy.noiserules import NoiseRules
from fieldmouse.reading.dates import read_moment
from fieldmouse.reading.page import StoredPage
from fieldmouse.records import News, OutcomeKind, OutcomeRow


class VersionDifference(msgspec.Struct, frozen=True):
    """The differences between two versions of a page, in page order."""

    url: str
    old: StoredPage
    new: StoredPage
    numbers: tuple[int, int]  # of both versions; 1 is the oldest
    share: float  # of the words
    hunks: list[Hunk] | None  # None for a page without text: only the bytes are compared

    @property
    def same(self) -> bool:
        """Whether there is no visible difference."""
        return self.hunks == [] or (self.hunks is None and self.old.body == self.new.body)


def versions_of(rows: Iterable[OutcomeRow]) -> list[OutcomeRow]:
    """The rows of stored versions among all rows of one URL, each with other bytes than the one before."""
    versions: list[OutcomeRow] = []
    for row in rows:
        if row.kind is OutcomeKind.PAGE and not (versions and versions[-1].digest == row.digest):
            versions.append(row)
    return versions


def told_apart(rows: Sequence[OutcomeRow]) -> list[tuple[int, OutcomeRow]]:
    """Versions with a visible difference to the one before, with their numbers; 1 is the oldest."""
    withdrawn = {at for row in rows for at in row.withdrawn_at}
    return [
        (number, row)
        for number, row in enumerate(versions_of(rows), 1)
        if number == 1 or (row.news is not News.NOISE and row.at not in withdrawn)
    ]


def news_of(versions: list[StoredPage]) -> list[News]:
    """The present judgement of each version: a withdrawn change is noise."""
    withdrawn = {at for version in versions for at in version.row.withdrawn_at}
    return [News.NOISE if version.row.at in withdrawn else version.row.news for version in versions]


def compared(old: StoredPage, new: StoredPage, rules: NoiseRules) -> tuple[list[Hunk] | None, float]:
    """The differences without learned noise, and the share of words; None for pages without text."""
    before, now = old.blocks(rules), new.blocks(rules)
    if before is None or now is None:
        return None, 0.0 if old.body == new.body else 1.0
    learned = noise.unpacked(new.row.memory).noise if rules.learn else frozenset[int]()
    visible = [hunk for hunk in hunks(before, now) if hunk.place not in learned]
    return visible, compare(before, now).share(learned)


def share_that_counts(old: StoredPage, new: StoredPage, rules: NoiseRules) -> float | None:
    """Share of words by which a version reported as changed differs from the one before.

    None if the rules ignore every difference. If no rule applies to the page or its archive is damaged,
    the recorded share stands.
    """
    if rules.at(new.url).empty:
        return new.row.difference
    try:
        differences, share = compared(old, new, rules)
    except CrawlDirError:
        return new.row.difference
    return share if differences or differences is None else None


def difference_of(
    url: str, versions: list[StoredPage], rules: NoiseRules, old: str | int | None, new: str | int | None
) -> VersionDifference:
    """Difference between the given versions; by default, the newest change and the version before it."""
    if not versions:
        raise FieldmouseError(f"no version of {url} is stored", "`fieldmouse explain DIR URL` says why")
    if len(versions) == 1:
        first = when(round(versions[0].row.at))
        raise FieldmouseError(
            f"only one version of {url} is stored, of {first}",
            "a refresh stores another one when the page has changed",
        )
    newer = _number(versions, new) if new is not None else _newest_change(versions, old, rules)
    older = _number(versions, old) if old is not None else newer - 1
    if older < 0:
        raise UsageError("there is no version before the oldest one", "name a later one with --to")
    differences, share = compared(versions[older], versions[newer], rules)
    return VersionDifference(
        url, versions[older], versions[newer], (older + 1, newer + 1), share, differences
    )


def _newest_change(versions: list[StoredPage], old: str | int | None, rules: NoiseRules) -> int:
    """The newest version in the list of changes; the newest of all if there is none or `old` is given."""
    if old is None:
        changed = [number for number, news in enumerate(news_of(versions)) if number and news is News.CHANGED]
        for number in reversed(changed):
            if share_that_counts(versions[number - 1], versions[number], rules) is not None:
                return number
    return len(versions) - 1


def _number(versions: list[StoredPage], name: str | int) -> int:
    """Index of the version, from 0."""
    try:
        number = int(name)
    except ValueError:
        return _standing(versions, str(name))
    place = number - 1 if number > 0 else len(versions) + number
    if not number or not 0 <= place < len(versions):
        raise UsageError(
            f"there is no version {number}", f"{counted(len(versions), 'version')} are stored, from 1 on"
        )
    return place


def _standing(versions: list[StoredPage], name: str) -> int:
    at = read_moment(name, time.time())
    stood = [place for place, version in enumerate(versions) if version.row.at <= at]
    if not stood:
        raise UsageError(
            f"there was no version at {when(round(at))}",
            f"the oldest is of {when(round(versions[0].row.at))}",
        )
    return stood[-1]
