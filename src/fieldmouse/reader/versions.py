"""Stored versions of a page: the visible difference between two of them, and full-text search in old ones.

The index of a crawl holds only the newest version of a page. The archive holds all of them, so `search
--versions` parses the older ones again into a temporary index and searches both together, so that scores
compare. Versions that differ only in noise count as one. A page that robots.txt now excludes, or that
asks not to be indexed, is not found in any version.
"""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import structs

from fieldmouse.diff import change_detection
from fieldmouse.diff.compare import Hunk, compare_versions, find_hunks
from fieldmouse.errors import CrawlDirError, FieldmouseError, UsageError, shell_quoted
from fieldmouse.formatting import format_count, format_time
from fieldmouse.policy.noise_rules import NoiseRules
from fieldmouse.reader.page import StoredPage
from fieldmouse.reader.snapshot import CrawlRow, CrawlSnapshot, rows_by_time
from fieldmouse.reader.user_input import parse_time
from fieldmouse.search.index import PastVersionDocument, write_scratch_index
from fieldmouse.search.query_parser import parse_query
from fieldmouse.search.search import Hit, search_crawls
from fieldmouse.search.snapshot import remove_index_directory
from fieldmouse.storage import outcome_log_reader
from fieldmouse.storage.changes_from_outcomes import Change
from fieldmouse.types.outcome import ContentChange, OutcomeRow
from fieldmouse.types.reason import OutcomeKind


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


def stored_versions(history: Sequence[CrawlRow]) -> list[CrawlRow]:
    """The same for the rows of one URL in several crawls, by time."""
    crawls = {id(row): crawl for crawl, row in history}
    return [(crawls[id(row)], row) for row in versions_of(row for _, row in history)]


def visibly_different(rows: Sequence[OutcomeRow]) -> list[tuple[int, OutcomeRow]]:
    """Versions with a visible difference to the one before, with their numbers; 1 is the oldest."""
    withdrawn = {at for row in rows for at in row.withdrawn_at}
    return [
        (number, row)
        for number, row in enumerate(versions_of(rows), 1)
        if number == 1 or (row.news is not ContentChange.NOISE and row.at not in withdrawn)
    ]


def content_changes_of(versions: list[StoredPage]) -> list[ContentChange]:
    """The present judgement of each version: a withdrawn change is noise."""
    withdrawn = {at for version in versions for at in version.row.withdrawn_at}
    return [ContentChange.NOISE if version.row.at in withdrawn else version.row.news for version in versions]


def compare_pages(old: StoredPage, new: StoredPage, rules: NoiseRules) -> tuple[list[Hunk] | None, float]:
    """The differences without learned noise, and the share of words; None for pages without text."""
    before, now = old.blocks(rules), new.blocks(rules)
    if before is None or now is None:
        return None, 0.0 if old.body == new.body else 1.0
    learned = change_detection.unpack_memory(new.row.memory).noise_places if rules.learn else frozenset[int]()
    visible = [hunk for hunk in find_hunks(before, now) if hunk.place not in learned]
    return visible, compare_versions(before, now).changed_share(learned)


def changed_word_share(old: StoredPage, new: StoredPage, rules: NoiseRules) -> float | None:
    """Share of words by which a version reported as changed differs from the one before.

    None if the rules ignore every difference. If no rule applies to the page or its archive is damaged,
    the recorded share stands.
    """
    if rules.for_page(new.url).is_empty:
        return new.row.difference
    try:
        differences, share = compare_pages(old, new, rules)
    except CrawlDirError:
        return new.row.difference
    return share if differences or differences is None else None


def too_few_versions_error(
    url: str, versions: list[StoredPage], last: Change | None, directories: Sequence[Path]
) -> FieldmouseError:
    """Error for a page with less than two versions; `last` is the last listed change of the page."""
    others = "".join(f" --with {shell_quoted(path)}" for path in directories[1:])
    explain = f"`fieldmouse explain {shell_quoted(directories[0])}{others} {shell_quoted(url)}`"
    if not versions:
        return FieldmouseError(f"no version of {url} is stored", f"{explain} says why")
    only = f"only one version of {url} is stored, of {format_time(round(versions[0].row.at))}"
    if last is None:
        return FieldmouseError(only, "a refresh stores another one when the page has changed")
    seen = format_time(round(last.at))
    return FieldmouseError(f"{only}; the page is {last.kind}, as seen at {seen}", f"{explain} says more")


def difference_between(
    url: str, versions: list[StoredPage], rules: NoiseRules, old: str | int | None, new: str | int | None
) -> VersionDifference:
    """Difference between the given versions; by default, the newest change and the version before it."""
    newer = _version_index(versions, new) if new is not None else _newest_changed_version(versions, old, rules)
    older = _version_index(versions, old) if old is not None else newer - 1
    if older < 0:
        raise UsageError("there is no version before the oldest one", "name a later one with --to")
    differences, share = compare_pages(versions[older], versions[newer], rules)
    return VersionDifference(url, versions[older], versions[newer], (older + 1, newer + 1), share, differences)


def _newest_changed_version(versions: list[StoredPage], old: str | int | None, rules: NoiseRules) -> int:
    """The newest version in the list of changes; the newest of all if there is none or `old` is given."""
    if old is None:
        changed = [
            number
            for number, news in enumerate(content_changes_of(versions))
            if number and news is ContentChange.CHANGED
        ]
        for number in reversed(changed):
            if changed_word_share(versions[number - 1], versions[number], rules) is not None:
                return number
    return len(versions) - 1


def _version_index(versions: list[StoredPage], name: str | int) -> int:
    """Index of the version, from 0."""
    try:
        number = int(name)
    except ValueError:
        return _version_index_at(versions, str(name))
    place = number - 1 if number > 0 else len(versions) + number
    if not number or not 0 <= place < len(versions):
        raise UsageError(
            f"there is no version {number}", f"{format_count(len(versions), 'version')} are stored, from 1 on"
        )
    return place


def _version_index_at(versions: list[StoredPage], name: str) -> int:
    at = parse_time(name, time.time())
    stood = [place for place, version in enumerate(versions) if version.row.at <= at]
    if not stood:
        raise UsageError(
            f"there was no version at {format_time(round(at))}",
            f"the oldest is of {format_time(round(versions[0].row.at))}",
        )
    return stood[-1]


_MARK = "#"  # never in the URL of a page


class VersionSearchHit(Hit, frozen=True):
    """A version of a page that matches the query."""

    at: float  # epoch seconds: first seen
    version: int  # number as in `changes --versions`; 1 is the oldest
    newest: bool  # whether an ordinary search finds it


def search_versions(
    snapshots: Sequence[CrawlSnapshot], is_visible: Callable[[int, str], bool], words: str, limit: int
) -> list[VersionSearchHit]:
    """The best versions of all pages for `words`, best first; `is_visible` as in `search_crawls`."""
    if parse_query(words).is_empty:
        return []
    past = dict[str, tuple[CrawlRow, int]]()
    with _scratch_directory() as scratch:
        write_scratch_index(scratch, _past_version_documents(snapshots, past))
        crawls = [snapshot.home.path for snapshot in snapshots]
        hits = search_crawls(
            [*crawls, scratch], words, limit, lambda crawl, url: crawl == len(crawls) or is_visible(crawl, url)
        )
    shown = _present_versions(snapshots, {hit.url for hit in hits if hit.directory != scratch})

    def version(hit: Hit) -> VersionSearchHit:
        newest = hit.directory != scratch
        (snapshot, row), number = (shown if newest else past)[hit.url]
        where = {"url": row.url, "directory": snapshot.home.path}
        return VersionSearchHit(**structs.asdict(hit) | where, at=row.at, version=number, newest=newest)

    return [version(hit) for hit in hits]


@contextmanager
def _scratch_directory() -> Iterator[Path]:
    """Temporary directory for an index, deleted at the end."""
    path = Path(tempfile.mkdtemp(prefix="fieldmouse-"))
    try:
        yield path
    finally:
        remove_index_directory(path)


def _past_version_documents(
    snapshots: Sequence[CrawlSnapshot], past: dict[str, tuple[CrawlRow, int]]
) -> Iterator[PastVersionDocument]:
    """The older versions, each under a unique name that is a key of `past`."""
    for url, history in _rows_by_url(snapshots, _urls_with_past_versions(snapshots)).items():
        for (snapshot, row), number in past_versions(history):
            name = f"{url}{_MARK}{number}"
            past[name] = (snapshot, row), number
            page = snapshot.page_of_row(row)
            yield PastVersionDocument(name, page.title, page.text)


def _urls_with_past_versions(snapshots: Sequence[CrawlSnapshot]) -> set[str]:
    """Pages that may have an older version in the archive."""
    return {
        row.url
        for snapshot in snapshots
        for row in snapshot.rows()
        if outcome_log_reader.decides_page(row)
        and (row.polled or len(snapshots) > 1)
        and row.news is not ContentChange.SAME
    }


def _rows_by_url(snapshots: Sequence[CrawlSnapshot], urls: set[str]) -> dict[str, list[CrawlRow]]:
    """All rows of these pages, by time."""
    history = defaultdict[str, list[CrawlRow]](list)
    wanted = ((snapshot, [row for row in snapshot.rows() if row.url in urls]) for snapshot in snapshots if urls)
    for snapshot, row in rows_by_time(wanted):
        history[row.url].append((snapshot, row))
    return history


def past_versions(history: Sequence[CrawlRow]) -> Iterator[tuple[CrawlRow, int]]:
    """Versions of a page except the one shown now, with their numbers."""
    rows = [row for _, row in history]
    standing = next((row for row in reversed(rows) if outcome_log_reader.decides_page(row)), None)
    shown = outcome_log_reader.newest_page_row(rows)
    if standing is None or standing.kind is OutcomeKind.REFUSED or (shown is not None and not shown.indexed):
        return
    places, versions = {id(row): snapshot for snapshot, row in history}, visibly_different(rows)
    for number, row in versions[:-1] if shown is not None else versions:
        if row.indexed:
            yield (places[id(row)], row), number


def _present_versions(snapshots: Sequence[CrawlSnapshot], urls: set[str]) -> dict[str, tuple[CrawlRow, int]]:
    """The present version of each of these pages, and its number."""
    versions = {url: stored_versions(history) for url, history in _rows_by_url(snapshots, urls).items()}
    return {url: (stored[-1], len(stored)) for url, stored in versions.items() if stored}
