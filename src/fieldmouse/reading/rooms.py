"""Reader of several crawls as one; `fieldmouse.open` returns it for a list of directories.

Each agent of a cluster has a directory, and sometimes two agents have stored the same page. The reader
shows it once: the copy fetched last, or none if the page was gone at the last fetch. Unrelated crawls can
be read together as well.
"""

from __future__ import annotations

import heapq
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from fieldmouse.crawldir import outcomes
from fieldmouse.errors import UsageError
from fieldmouse.reading.naming import living_at, names_of, url_of
from fieldmouse.reading.page import StoredPage
from fieldmouse.reading.room import ReadingRoom
from fieldmouse.reading.volume import Volume
from fieldmouse.records import OutcomeRow

if TYPE_CHECKING:
    from fieldmouse.crawldir.news import Change
    from fieldmouse.crawldir.statements import Statements
    from fieldmouse.indexer.search import Hit
    from fieldmouse.policy.packing.plan import PackingPlan
    from fieldmouse.reading.explanations import Explanations
    from fieldmouse.reading.freshness import FreshnessReport
    from fieldmouse.reading.pastwords import VersionHit
    from fieldmouse.reading.precedence import Precedence
    from fieldmouse.reading.versions import VersionDifference


class ReadingRooms:
    """Read access to crawls in several directories, as one. Takes no lock, writes nothing.

    For a URL in several crawls, the newest outcome counts. Each method reads the newest checkpoint of each
    crawl. Facts of a single crawl, such as its status, come from its own reader:

        for room in fieldmouse.open(["agent-1", "agent-2"]).rooms:
            print(room.status())

    Iterating pages and searching take sixteen bytes of memory a URL of every crawl.
    """

    def __init__(self, directories: Iterable[str | os.PathLike[str]]):
        """Raise `NotACrawl` if a directory holds no crawl, `UsageError` if one is named twice."""
        self._rooms = tuple(ReadingRoom(directory) for directory in directories)
        if not self._rooms:
            raise UsageError("there is no crawl to read", "name at least one directory")
        seen: dict[Path, Path] = {}
        for path in self.paths:
            first = seen.setdefault(path.resolve(), path)
            if first is not path:
                same = f"`{path}` is named twice" if first == path else f"`{first}` and `{path}` are the same"
                raise UsageError(same, "name each crawl once")
        self._reading = Lock()
        self._latest: tuple[Statements, ...] = ()  # as of the last read; logs only grow

    @property
    def rooms(self) -> tuple[ReadingRoom, ...]:
        """A reader of each crawl, in the order given."""
        return self._rooms

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(room.path for room in self._rooms)

    def still(self) -> ReadingRooms:
        """A reader fixed at the present checkpoints: pages and rows do not change while the crawls run."""
        fixed = ReadingRooms(self.paths)
        fixed._rooms = tuple(room.still() for room in self._rooms)
        fixed._latest = self._latest
        return fixed

    def _volumes(self) -> list[Volume]:
        return [room.volume() for room in self._rooms]

    def _precedence(self, volumes: list[Volume]) -> Precedence:
        from fieldmouse.crawldir.statements import NOTHING, read_statements
        from fieldmouse.reading.precedence import Precedence

        with self._reading:
            latest = self._latest or (NOTHING,) * len(volumes)
            self._latest = tuple(
                read_statements(volume.home, volume.length, before)
                for volume, before in zip(volumes, latest, strict=True)
            )
            return Precedence(self._latest)

    # -- pages

    def pages(self, host: str | None = None) -> Iterator[StoredPage]:
        """Every stored page in its newest version, roughly in the order of storing.

        Its `directory` names the crawl. `host` as for one crawl. Reads each log three times.
        """
        is_wanted = None if host is None else living_at(host)
        for volume, row in self._newest_rows():
            if is_wanted is None or is_wanted(row.url):
                yield volume.page(row)

    def _newest_rows(self) -> Iterator[tuple[Volume, OutcomeRow]]:
        volumes = self._volumes()
        precedence = self._precedence(volumes)

        def newest(crawl: int, volume: Volume) -> Iterator[tuple[Volume, OutcomeRow]]:
            for row in volume.pages():
                if not precedence.is_outdated(crawl, row.url):
                    yield volume, outcomes.listed_no_more(row) if precedence.is_unlisted(row.url) else row

        return _by_time(newest(crawl, volume) for crawl, volume in enumerate(volumes))

    def page(self, url: str) -> StoredPage | None:
        """The newest version of one page; None if it is not stored. Reads each log once."""
        volumes = self._volumes()
        for name in names_of(url):
            page = _page_of([(volume, volume.rows_of(name)) for volume in volumes])
            if page is not None:
                return page
        return None

    def rows(self) -> Iterator[OutcomeRow]:
        """Every outcome of every crawl, roughly by time, including redirects, failures and refusals."""
        return (row for _, row in self.placed_rows())

    def placed_rows(self) -> Iterator[tuple[Path, OutcomeRow]]:
        """The same, each with the directory of its crawl."""
        for volume, row in self._all_rows():
            yield volume.home.path, row

    def _all_rows(self) -> Iterator[tuple[Volume, OutcomeRow]]:
        return _by_time(_placed(volume) for volume in self._volumes())

    def items(self, *, all: bool = False) -> Iterator[dict[str, Any]]:
        """The rows that `plugins.extract` made from the pages, as for one crawl, with `directory` added."""
        for volume, row in self._all_rows() if all else self._newest_rows():
            for item in volume.items_of(row):
                yield {"directory": str(volume.home.path)} | item

    # -- changes

    def changes(
        self, since: float | datetime | timedelta | None = None, host: str | None = None
    ) -> Iterator[Change]:
        """New, changed, gone and moved pages, as for one crawl; a change seen by two crawls is listed once.

        The rules in `[noise]` are those of the first crawl.
        """
        return (change for _, change in self.placed_changes(since, host))

    def placed_changes(
        self, since: float | datetime | timedelta | None = None, host: str | None = None
    ) -> Iterator[tuple[Path, Change]]:
        """The same, each with the directory of the crawl that saw it first."""
        from fieldmouse.reading.changes import list_changes
        from fieldmouse.reading.dates import moment_of
        from fieldmouse.settings.rules import noise_of

        volumes = [volume for volume in self._volumes() if volume.last is not None]
        is_wanted = None if host is None else living_at(host)
        if volumes:
            rules = noise_of(self._rooms[0].settings())
            changes = list_changes(volumes, rules, since=moment_of(since), is_wanted=is_wanted)
            yield from ((volume.home.path, change) for change, volume in changes)

    def versions(self, url: str) -> list[StoredPage]:
        """Every version of one page in all crawls, oldest first, each with other bytes than the last."""
        from fieldmouse.reading.versions import versions_of

        volumes = self._volumes()
        for name in names_of(url):
            placed = list(_by_time([(volume, row) for row in volume.rows_of(name)] for volume in volumes))
            where = {id(row): volume for volume, row in placed}
            versions = versions_of(row for _, row in placed)
            if versions:
                return [where[id(row)].page(row) for row in versions]
        return []

    def difference(
        self, url: str, old: str | int | None = None, new: str | int | None = None
    ) -> VersionDifference:
        """The visible difference between two versions of a page, as for one crawl."""
        from fieldmouse.reading.versions import difference_of
        from fieldmouse.settings.rules import noise_of

        rules = noise_of(self._rooms[0].settings())
        return difference_of(url_of(url), self.versions(url), rules, old, new)

    # -- state and history

    def explain(self, url: str) -> Explanations:
        """The explanation of `url` by each crawl, and the crawl with the newest outcome."""
        from fieldmouse.reading.explanations import explain_all

        return explain_all([volume.home for volume in self._volumes()], url_of(url))

    def freshness(self, budgets: Sequence[float] = (), window: float | None = None) -> FreshnessReport:
        """Freshness of all crawls together, as for one crawl; budgets are totals."""
        from fieldmouse.reading.freshness import WINDOW, read_freshness

        first, *others = (volume.home for volume in self._volumes())
        return read_freshness(first, time.time(), others=others, budgets=budgets, window=window or WINDOW)

    def packing(self, capacity: float, *, anew: bool = False) -> PackingPlan:
        """Packing of the sites of all crawls together, as for one crawl."""
        from fieldmouse.reading.packing import pack

        first, *others = (volume.home for volume in self._volumes())
        return pack(first, capacity, time.time(), others=others, anew=anew)

    # -- full-text search

    def search(self, words: str, limit: int = 10) -> list[Hit]:
        """The best pages of all crawls for `words`, best first; `hit.directory` names the crawl."""
        from fieldmouse.indexer.search import search_all

        volumes, counts = self._indexes()
        return search_all([volume.home.path for volume in volumes], words, limit, counts)

    def search_versions(self, words: str, limit: int = 10) -> list[VersionHit]:
        """The same in all versions of all pages, as for one crawl."""
        from fieldmouse.reading.pastwords import search_versions

        volumes, counts = self._indexes()
        return search_versions(volumes, words, limit, counts)

    def _indexes(self) -> tuple[list[Volume], Callable[[int, str], bool]]:
        volumes = [room.newest_volume() for room in self._rooms]
        for volume in volumes:
            volume.see_that_its_index_is_there()
        # Read the logs before opening the indexes: the newest page of a log must be in its index.
        return volumes, self._precedence(volumes).is_to_be_found

    # -- display

    def __repr__(self) -> str:
        return f"<ReadingRooms {', '.join(f'`{path}`' for path in self.paths)}>"


def _placed(volume: Volume) -> Iterator[tuple[Volume, OutcomeRow]]:
    for row in volume.rows():
        yield volume, row


def _by_time(
    crawls: Iterable[Iterable[tuple[Volume, OutcomeRow]]],
) -> Iterator[tuple[Volume, OutcomeRow]]:
    """Rows of several crawls merged by time; rows of one crawl keep their order."""
    return heapq.merge(*crawls, key=lambda placed: placed[1].at)


def _page_of(crawls: list[tuple[Volume, list[OutcomeRow]]]) -> StoredPage | None:
    """The stored page of a URL, given its rows in each crawl."""
    last: tuple[float, Volume, list[OutcomeRow]] | None = None
    for volume, rows in crawls:
        at = max((place for place, row in enumerate(rows) if outcomes.is_statement(row)), default=None)
        if at is not None and (last is None or rows[at].at > last[0]):
            last = rows[at].at, volume, rows
    row = outcomes.page_of(last[2]) if last is not None else None
    if last is None or row is None:
        return None
    is_unlisted = any(seen.unlisted and seen.at > last[0] for _, rows in crawls for seen in rows)
    return last[1].page(outcomes.listed_no_more(row) if is_unlisted else row)
