"""Reader of several crawls as one; `fieldmouse.open` returns it for a list of directories.

Each agent of a cluster has a directory, and sometimes two agents have stored the same page. The reader shows
it once: the copy fetched last, or none if the page was gone at the last fetch. Most URLs occur in one crawl
only and need no entry: the choice keeps the keys of outdated URLs, eight bytes each, and is built from the
latest outcomes, sixteen bytes a URL of every crawl.
"""

from __future__ import annotations

import heapq
import os
import time
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fieldmouse.errors import UsageError
from fieldmouse.reader.crawl_reader import CrawlReader
from fieldmouse.reader.page import StoredPage
from fieldmouse.reader.snapshot import CrawlSnapshot
from fieldmouse.reader.user_input import is_on_host, parse_url, possible_urls
from fieldmouse.storage import outcome_log
from fieldmouse.storage.outcome_log import LatestOutcomes, url_hash
from fieldmouse.types.outcome import OutcomeRow

if TYPE_CHECKING:
    from fieldmouse.policy.packing.plan import PackingPlan
    from fieldmouse.reader.explain import CombinedExplanation
    from fieldmouse.reader.freshness import FreshnessReport
    from fieldmouse.reader.versions import VersionDifference, VersionHit
    from fieldmouse.search.search import Hit
    from fieldmouse.storage.changes import Change
    from fieldmouse.storage.outcome_log import LatestOutcomes


class MultiCrawlReader:
    """Read access to crawls in several directories, as one. Takes no lock, writes nothing.

    For a URL in several crawls, the newest outcome counts. Each method reads the newest checkpoint of each
    crawl. Facts of a single crawl, such as its status, come from its own reader:

        for room in fieldmouse.open(["agent-1", "agent-2"]).rooms:
            print(room.status())

    Iterating pages and searching take sixteen bytes of memory a URL of every crawl.
    """

    def __init__(self, directories: Iterable[str | os.PathLike[str]]):
        """Raise `NotACrawl` if a directory holds no crawl, `UsageError` if one is named twice."""
        self._rooms = tuple(CrawlReader(directory) for directory in directories)
        if not self._rooms:
            raise UsageError("there is no crawl to read", "name at least one directory")
        seen: dict[Path, Path] = {}
        for path in self.paths:
            first = seen.setdefault(path.resolve(), path)
            if first is not path:
                same = f"`{path}` is named twice" if first == path else f"`{first}` and `{path}` are the same"
                raise UsageError(same, "name each crawl once")
        self._reading = Lock()
        self._latest: tuple[LatestOutcomes, ...] = ()  # as of the last read; logs only grow

    @property
    def rooms(self) -> tuple[CrawlReader, ...]:
        """A reader of each crawl, in the order given."""
        return self._rooms

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(room.path for room in self._rooms)

    def pinned(self) -> MultiCrawlReader:
        """A reader fixed at the present checkpoints: pages and rows do not change while the crawls run."""
        fixed = MultiCrawlReader(self.paths)
        fixed._rooms = tuple(room.pinned() for room in self._rooms)
        fixed._latest = self._latest
        return fixed

    def _volumes(self) -> list[CrawlSnapshot]:
        return [room.snapshot() for room in self._rooms]

    def _precedence(self, volumes: list[CrawlSnapshot]) -> NewestCrawl:
        from fieldmouse.storage.outcome_log import NO_OUTCOMES, read_latest_outcomes

        with self._reading:
            latest = self._latest or (NO_OUTCOMES,) * len(volumes)
            self._latest = tuple(
                read_latest_outcomes(volume.home, volume.length, before)
                for volume, before in zip(volumes, latest, strict=True)
            )
            return NewestCrawl(self._latest)

    # -- pages

    def pages(self, host: str | None = None) -> Iterator[StoredPage]:
        """Every stored page in its newest version, roughly in the order of storing.

        Its `directory` names the crawl. `host` as for one crawl. Reads each log three times.
        """
        is_wanted = None if host is None else is_on_host(host)
        for volume, row in self._newest_rows():
            if is_wanted is None or is_wanted(row.url):
                yield volume.page(row)

    def _newest_rows(self) -> Iterator[tuple[CrawlSnapshot, OutcomeRow]]:
        volumes = self._volumes()
        precedence = self._precedence(volumes)

        def newest(crawl: int, volume: CrawlSnapshot) -> Iterator[tuple[CrawlSnapshot, OutcomeRow]]:
            for row in volume.pages():
                if not precedence.is_outdated(crawl, row.url):
                    yield volume, outcome_log.without_index(row) if precedence.is_unlisted(row.url) else row

        return _by_time(newest(crawl, volume) for crawl, volume in enumerate(volumes))

    def page(self, url: str) -> StoredPage | None:
        """The newest version of one page; None if it is not stored. Reads each log once."""
        volumes = self._volumes()
        for name in possible_urls(url):
            page = _page_of([(volume, volume.rows_of(name)) for volume in volumes])
            if page is not None:
                return page
        return None

    def rows(self) -> Iterator[OutcomeRow]:
        """Every outcome of every crawl, roughly by time, including redirects, failures and refusals."""
        return (row for _, row in self.rows_with_directory())

    def rows_with_directory(self) -> Iterator[tuple[Path, OutcomeRow]]:
        """The same, each with the directory of its crawl."""
        for volume, row in self._all_rows():
            yield volume.home.path, row

    def _all_rows(self) -> Iterator[tuple[CrawlSnapshot, OutcomeRow]]:
        return _by_time(_placed(volume) for volume in self._volumes())

    def items(self, *, all: bool = False) -> Iterator[dict[str, Any]]:
        """The rows that `plugins.extract` made from the pages, as for one crawl, with `directory` added."""
        for volume, row in self._all_rows() if all else self._newest_rows():
            for item in volume.extracted_rows(row):
                yield {"directory": str(volume.home.path)} | item

    # -- changes

    def changes(self, since: float | datetime | timedelta | None = None, host: str | None = None) -> Iterator[Change]:
        """New, changed, gone and moved pages, as for one crawl; a change seen by two crawls is listed once.

        The rules in `[noise]` are those of the first crawl.
        """
        return (change for _, change in self.changes_with_directory(since, host))

    def changes_with_directory(
        self, since: float | datetime | timedelta | None = None, host: str | None = None
    ) -> Iterator[tuple[Path, Change]]:
        """The same, each with the directory of the crawl that saw it first."""
        from fieldmouse.config.factories import noise_of
        from fieldmouse.reader.changes import list_changes
        from fieldmouse.reader.user_input import to_epoch

        volumes = [volume for volume in self._volumes() if volume.last is not None]
        is_wanted = None if host is None else is_on_host(host)
        if volumes:
            rules = noise_of(self._rooms[0].settings())
            changes = list_changes(volumes, rules, since=to_epoch(since), is_wanted=is_wanted)
            yield from ((volume.home.path, change) for change, volume in changes)

    def versions(self, url: str) -> list[StoredPage]:
        """Every version of one page in all crawls, oldest first, each with other bytes than the last."""
        from fieldmouse.reader.versions import versions_of

        volumes = self._volumes()
        for name in possible_urls(url):
            placed = list(_by_time([(volume, row) for row in volume.rows_of(name)] for volume in volumes))
            where = {id(row): volume for volume, row in placed}
            versions = versions_of(row for _, row in placed)
            if versions:
                return [where[id(row)].page(row) for row in versions]
        return []

    def difference(self, url: str, old: str | int | None = None, new: str | int | None = None) -> VersionDifference:
        """The visible difference between two versions of a page, as for one crawl."""
        from fieldmouse.config.factories import noise_of
        from fieldmouse.reader.versions import difference_between

        rules = noise_of(self._rooms[0].settings())
        return difference_between(parse_url(url), self.versions(url), rules, old, new)

    # -- state and history

    def explain(self, url: str) -> CombinedExplanation:
        """The explanation of `url` by each crawl, and the crawl with the newest outcome."""
        from fieldmouse.reader.explain import explain_in_all

        return explain_in_all([volume.home for volume in self._volumes()], parse_url(url))

    def freshness(self, budgets: Sequence[float] = (), window: float | None = None) -> FreshnessReport:
        """Freshness of all crawls together, as for one crawl; budgets are totals."""
        from fieldmouse.reader.freshness import WINDOW, read_freshness

        first, *others = (volume.home for volume in self._volumes())
        return read_freshness(first, time.time(), others=others, budgets=budgets, window=window or WINDOW)

    def packing(self, capacity: float, *, anew: bool = False) -> PackingPlan:
        """Packing of the sites of all crawls together, as for one crawl."""
        from fieldmouse.reader.polling_plan import pack

        first, *others = (volume.home for volume in self._volumes())
        return pack(first, capacity, time.time(), others=others, anew=anew)

    # -- full-text search

    def search(self, words: str, limit: int = 10) -> list[Hit]:
        """The best pages of all crawls for `words`, best first; `hit.directory` names the crawl."""
        from fieldmouse.search.search import search_crawls

        volumes, counts = self._indexes()
        return search_crawls([volume.home.path for volume in volumes], words, limit, counts)

    def search_versions(self, words: str, limit: int = 10) -> list[VersionHit]:
        """The same in all versions of all pages, as for one crawl."""
        from fieldmouse.reader.versions import search_versions

        volumes, counts = self._indexes()
        return search_versions(volumes, words, limit, counts)

    def _indexes(self) -> tuple[list[CrawlSnapshot], Callable[[int, str], bool]]:
        volumes = [room.newest_snapshot() for room in self._rooms]
        for volume in volumes:
            volume.check_index_exists()
        # Read the logs before opening the indexes: the newest page of a log must be in its index.
        return volumes, self._precedence(volumes).is_searchable

    # -- display

    def __repr__(self) -> str:
        return f"<MultiCrawlReader {', '.join(f'`{path}`' for path in self.paths)}>"

    # former names
    still = pinned
    placed_rows = rows_with_directory
    placed_changes = changes_with_directory


def _placed(volume: CrawlSnapshot) -> Iterator[tuple[CrawlSnapshot, OutcomeRow]]:
    for row in volume.rows():
        yield volume, row


def _by_time(
    crawls: Iterable[Iterable[tuple[CrawlSnapshot, OutcomeRow]]],
) -> Iterator[tuple[CrawlSnapshot, OutcomeRow]]:
    """Rows of several crawls merged by time; rows of one crawl keep their order."""
    return heapq.merge(*crawls, key=lambda placed: placed[1].at)


def _page_of(crawls: list[tuple[CrawlSnapshot, list[OutcomeRow]]]) -> StoredPage | None:
    """The stored page of a URL, given its rows in each crawl."""
    last: tuple[float, CrawlSnapshot, list[OutcomeRow]] | None = None
    for volume, rows in crawls:
        at = max((place for place, row in enumerate(rows) if outcome_log.decides_page(row)), default=None)
        if at is not None and (last is None or rows[at].at > last[0]):
            last = rows[at].at, volume, rows
    row = outcome_log.newest_page_row(last[2]) if last is not None else None
    if last is None or row is None:
        return None
    is_unlisted = any(seen.unlisted and seen.at > last[0] for _, rows in crawls for seen in rows)
    return last[1].page(outcome_log.without_index(row) if is_unlisted else row)


class NewestCrawl:
    """Outdated and unlisted URLs of several crawls, which are identified by their index."""

    def __init__(self, crawls: Sequence[LatestOutcomes]):
        keys = np.sort(np.concatenate([latest.keys for latest in crawls]))
        shared = np.unique(keys[1:][keys[1:] == keys[:-1]])
        del keys
        last, at = np.zeros(len(shared), np.int32), np.full(len(shared), -np.inf)
        for crawl, latest in enumerate(crawls):
            there, when = _times_of(latest, shared)
            newer = there & (when > at)
            last[newer], at[newer] = crawl, when[newer]
        self._outdated = [
            _packed(shared[_times_of(latest, shared)[0] & (last != n)]) for n, latest in enumerate(crawls)
        ]
        self._unlisted = frozenset(
            key for latest in crawls for key, when in latest.unlisted.items() if when > _newest(crawls, key)
        )

    def is_outdated(self, crawl: int, url: str) -> bool:
        """Whether another crawl has a newer outcome of a URL that this crawl has stored."""
        outdated = self._outdated[crawl]
        key = url_hash(url) if outdated else 0
        place = bisect_left(outdated, key)
        return place < len(outdated) and outdated[place] == key

    def is_unlisted(self, url: str) -> bool:
        """Whether a crawl found the page unchanged but not to be listed, after every latest outcome of it."""
        return bool(self._unlisted) and url_hash(url) in self._unlisted

    def is_searchable(self, crawl: int, url: str) -> bool:
        """Whether a search may show this crawl's copy."""
        return not self.is_outdated(crawl, url) and not self.is_unlisted(url)


def _times_of(latest: LatestOutcomes, keys: NDArray[np.uint64]) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Which of these keys a crawl has, and the times of their latest outcomes."""
    if not len(latest.keys):
        return np.zeros(len(keys), np.bool_), np.zeros(len(keys))
    places = np.minimum(np.searchsorted(latest.keys, keys), len(latest.keys) - 1)
    return latest.keys[places] == keys, latest.at[places]


def _packed(keys: NDArray[np.uint64]) -> array[int]:
    packed = array("Q")
    packed.frombytes(keys.tobytes())
    return packed


def _newest(crawls: Sequence[LatestOutcomes], key: int) -> float:
    return max((at for latest in crawls if (at := latest.time_of(key)) is not None), default=-np.inf)
