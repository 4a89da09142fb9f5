"""The versions of a page that the archive holds, and what a reader would see differ between two of them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import msgspec

from fieldmouse.errors import CrawlDirError, FieldmouseError, UsageError
from fieldmouse.figures import counted, when
from fieldmouse.indexer import noise
from fieldmouse.indexer.comparison import Comparison, Hunk, compare, hunks
from fieldmouse.policy.noiserules import NoiseRules
from fieldmouse.reading.dates import read_moment
from fieldmouse.reading.page import StoredPage
from fieldmouse.records import News, OutcomeKind, OutcomeRow


class VersionDifference(msgspec.Struct, frozen=True):
    """What differs between two versions of a page, from its beginning to its end."""

    url: str
    old: StoredPage
    new: StoredPage
    numbers: tuple[int, int]  # of both among all versions; 1 is the oldest
    share: float  # of the words
    hunks: list[Hunk] | None  # None if it is no text: then only the bytes tell

    @property
    def same(self) -> bool:
        """Whether a reader sees no difference."""
        return self.hunks == [] or (self.hunks is None and self.old.body == self.new.body)


def versions_of(rows: Iterable[OutcomeRow]) -> list[OutcomeRow]:
    """Of all rows of one URL those of its stored versions, each with other bytes than the one before."""
    found: list[OutcomeRow] = []
    for row in rows:
        if row.kind is OutcomeKind.PAGE and not (found and found[-1].digest == row.digest):
            found.append(row)
    return found


def told_apart(rows: Sequence[OutcomeRow]) -> list[tuple[int, OutcomeRow]]:
    """The versions that a reader would tell apart, by where each begins; 1 is the number of the oldest."""
    withdrawn = {at for row in rows for at in row.withdrawn_at}
    return [
        (number, row)
        for number, row in enumerate(versions_of(rows), 1)
        if number == 1 or (row.news is not News.NOISE and row.at not in withdrawn)
    ]


def news_of(versions: list[StoredPage]) -> list[News]:
    """What is held of each version by now: a change that was withdrawn is noise."""
    withdrawn = {at for version in versions for at in version.row.withdrawn_at}
    return [News.NOISE if version.row.at in withdrawn else version.row.news for version in versions]


def compared(old: StoredPage, new: StoredPage, rules: NoiseRules) -> tuple[list[Hunk] | None, float]:
    """What differs, and the share of words; None for what is no text. Noise that was learned is left out."""
    before, now = old.blocks(rules), new.blocks(rules)
    if before is None or now is None:
        return None, 0.0 if old.body == new.body else 1.0
    learned = noise.unpacked(new.row.memory).noise if rules.learn else frozenset[int]()
    told = [hunk for hunk in hunks(before, now) if hunk.place not in learned]
    seen: Comparison = compare(before, now)
    return told, seen.share(learned)


def share_that_counts(old: StoredPage, new: StoredPage, rules: NoiseRules) -> float | None:
    """Share of words by which a version that was told as changed differs from the one before.

    None if the rules leave nothing of it. Where no rule is about the page, and where its archive is
    damaged, what was told stays told.
    """
    if rules.at(new.url).empty:
        return new.row.difference
    try:
        told, share = compared(old, new, rules)
    except CrawlDirError:
        return new.row.difference
    return share if told or told is None else None


def difference_of(
    url: str, versions: list[StoredPage], rules: NoiseRules, old: str | int | None, new: str | int | None
) -> VersionDifference:
    """Between the versions named; without names, the newest change and what was there before it."""
    if not versions:
        raise FieldmouseError(
            f"no version of {url} is stored", "`fieldmouse explain DIR URL` says what became of it"
        )
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
    told, share = compared(versions[older], versions[newer], rules)
    return VersionDifference(url, versions[older], versions[newer], (older + 1, newer + 1), share, told)


def _newest_change(versions: list[StoredPage], old: str | int | None, rules: NoiseRules) -> int:
    """The newest version that the list of changes has; the newest of all if none, or if `old` is named."""
    if old is None:
        told = [number for number, news in enumerate(news_of(versions)) if number and news is News.CHANGED]
        for number in reversed(told):
            if share_that_counts(versions[number - 1], versions[number], rules) is not None:
                return number
    return len(versions) - 1


def _number(versions: list[StoredPage], name: str | int) -> int:
    """Which version is meant, counted from 0."""
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
