"""Several crawls, open for reading as one: what `fieldmouse.open` returns for a list of directories.

The agents of a network leave a directory each, and now and then two of them have stored one page.
Here it is one page: what was fetched last, or nothing, if whoever asked last found it gone. Crawls
that know nothing of each other may be read together as well.
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
    """Crawls in several directories, read as one. Takes no lock, writes nothing.

    Of a URL that several of them know, the newest word counts. Each question is answered as of the
    newest checkpoint of each crawl. What one crawl has for itself, such as its status, its room knows:

        for room in fieldmouse.open(["agent-1", "agent-2"]).rooms:
            print(room.status())

    Where pages are gone through or searched, sixteen bytes of memory a URL of every crawl are needed.
    """

    def __init__(self, directories: Iterable[str | os.PathLike[str]]):
        """`NotACrawl` if there is no crawl in one of them; `UsageError` if one is named twice."""
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
        self._known: tuple[Statements, ...] = ()  # what was read last time: logs only grow

    @property
    def rooms(self) -> tuple[ReadingRoom, ...]:
        """Each crawl by itself, in the order in which they were named."""
        return self._rooms

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(room.path for room in self._rooms)

    def still(self) -> ReadingRooms:
        """The same crawls as of now: pages and rows stay the same there, however the crawls go on."""
        held = ReadingRooms(self.paths)
        held._rooms = tuple(room.still() for room in self._rooms)
        held._known = self._known
        return held

    def _volumes(self) -> list[Volume]:
        return [room.volume() for room in self._rooms]

    def _precedence(self, volumes: list[Volume]) -> Precedence:
        from fieldmouse.crawldir.statements import NOTHING, read_statements
        from fieldmouse.reading.precedence import Precedence

        with self._reading:
            known = self._known or (NOTHING,) * len(volumes)
            self._known = tuple(
                read_statements(volume.home, volume.length, said)
                for volume, said in zip(volumes, known, strict=True)
            )
            return Precedence(self._known)

    # -- pages

    def pages(self, host: str | None = None) -> Iterator[StoredPage]:
        """Every stored page, the newest version of each, about in the order in which they were stored.

        Its `directory` says which crawl has it. `host` as in a room. Each log is read three times.
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
        """The newest version of one page; None if it is not stored. Each log is read through once."""
        volumes = self._volumes()
        for name in names_of(url):
            told = [(volume, volume.rows_of(name)) for volume in volumes]
            found = _page_of(told)
            if found is not None:
                return found
        return None

    def rows(self) -> Iterator[OutcomeRow]:
        """Every outcome of every crawl, about by time: also what moved, failed or was refused."""
        return (row for _, row in self.placed_rows())

    def placed_rows(self) -> Iterator[tuple[Path, OutcomeRow]]:
        """The same, each with the directory of its crawl."""
        for volume, row in self._all_rows():
            yield volume.home.path, row

    def _all_rows(self) -> Iterator[tuple[Volume, OutcomeRow]]:
        return _by_time(_placed(volume) for volume in self._volumes())

    def items(self, *, all: bool = False) -> Iterator[dict[str, Any]]:
        """The rows that `plugins.extract` made of the pages: as in a room, and with the `directory`."""
        for volume, row in self._all_rows() if all else self._newest_rows():
            for item in volume.items_of(row):
                yield {"directory": str(volume.home.path)} | item

    # -- what changed

    def changes(
        self, since: float | datetime | timedelta | None = None, host: str | None = None
    ) -> Iterator[Change]:
        """Pages that are new, changed, gone or moved, as in a room; what two crawls saw is told once.

        The rules in `[noise]` are those of the crawl that was named first.
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
            told = list_changes(volumes, rules, since=moment_of(since), is_wanted=is_wanted)
            yield from ((volume.home.path, change) for change, volume in told)

    def versions(self, url: str) -> list[StoredPage]:
        """Every version of one page that is stored anywhere, oldest first, each other than the one before."""
        from fieldmouse.reading.versions import versions_of

        volumes = self._volumes()
        for name in names_of(url):
            told = list(_by_time([(volume, row) for row in volume.rows_of(name)] for volume in volumes))
            where = {id(row): volume for volume, row in told}
            found = versions_of(row for _, row in told)
            if found:
                return [where[id(row)].page(row) for row in found]
        return []

    def difference(
        self, url: str, old: str | int | None = None, new: str | int | None = None
    ) -> VersionDifference:
        """What a reader would see differ between two versions of a page, as in a room."""
        from fieldmouse.reading.versions import difference_of
        from fieldmouse.settings.rules import noise_of

        rules = noise_of(self._rooms[0].settings())
        return difference_of(url_of(url), self.versions(url), rules, old, new)

    # -- what happened

    def explain(self, url: str) -> Explanations:
        """What each crawl knows of `url`, and which of them has the last word."""
        from fieldmouse.reading.explanations import explain_all

        return explain_all([volume.home for volume in self._volumes()], url_of(url))

    def freshness(self, budgets: Sequence[float] = (), window: float | None = None) -> FreshnessReport:
        """How fresh the copies of all crawls are together, as in a room; budgets are those of all."""
        from fieldmouse.reading.freshness import WINDOW, read_freshness

        first, *others = (volume.home for volume in self._volumes())
        return read_freshness(first, time.time(), others=others, budgets=budgets, window=window or WINDOW)

    def packing(self, capacity: float, *, anew: bool = False) -> PackingPlan:
        """The nodes that the sites of all crawls need together, as in a room."""
        from fieldmouse.reading.packing import pack

        first, *others = (volume.home for volume in self._volumes())
        return pack(first, capacity, time.time(), others=others, anew=anew)

    # -- words

    def search(self, words: str, limit: int = 10) -> list[Hit]:
        """The best pages of all crawls for `words`, best first, ranked as in one; `hit.directory` has it."""
        from fieldmouse.indexer.search import search_all

        volumes, counts = self._indexes()
        return search_all([volume.home.path for volume in volumes], words, limit, counts)

    def search_versions(self, words: str, limit: int = 10) -> list[VersionHit]:
        """The same in all versions of all pages, as in a room."""
        from fieldmouse.reading.pastwords import search_versions

        volumes, counts = self._indexes()
        return search_versions(volumes, words, limit, counts)

    def _indexes(self) -> tuple[list[Volume], Callable[[int, str], bool]]:
        volumes = [room.newest_volume() for room in self._rooms]
        for volume in volumes:
            volume.see_that_its_index_is_there()
        # Before the indexes are opened: what a log calls the newest must be in them.
        return volumes, self._precedence(volumes).is_to_be_found

    # -- for people

    def __repr__(self) -> str:
        return f"<ReadingRooms {', '.join(f'`{path}`' for path in self.paths)}>"


def _placed(volume: Volume) -> Iterator[tuple[Volume, OutcomeRow]]:
    for row in volume.rows():
        yield volume, row


def _by_time(
    crawls: Iterable[Iterable[tuple[Volume, OutcomeRow]]],
) -> Iterator[tuple[Volume, OutcomeRow]]:
    """Rows of several crawls by their time, as far as each log goes by it; those of one stay in order."""
    return heapq.merge(*crawls, key=lambda placed: placed[1].at)


def _page_of(told: list[tuple[Volume, list[OutcomeRow]]]) -> StoredPage | None:
    """The page that a URL is, by all rows that each crawl has of it."""
    last: tuple[float, Volume, list[OutcomeRow]] | None = None
    for volume, rows in told:
        at = max((place for place, row in enumerate(rows) if outcomes.is_statement(row)), default=None)
        if at is not None and (last is None or rows[at].at > last[0]):
            last = rows[at].at, volume, rows
    row = outcomes.page_of(last[2]) if last is not None else None
    if last is None or row is None:
        return None
    is_unlisted = any(seen.unlisted and seen.at > last[0] for _, rows in told for seen in rows)
    return last[1].page(outcomes.listed_no_more(row) if is_unlisted else row)
