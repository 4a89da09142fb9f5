"""Full-text search in older versions of pages (`search --versions`).

The index of a crawl holds only the newest version of a page. The archive holds all of them, so the older
versions are read and parsed again and written to a temporary index. Both indexes are searched together, so
that scores compare. Versions that differ only in noise count as one. A page that robots.txt now excludes,
or that asks not to be indexed, is not found in any version.
"""

from __future__ import annotations

import heapq
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import structs

from fieldmouse.crawldir import outcomes
from fieldmouse.indexer.query import understand
from fieldmouse.indexer.scratch import ScratchDocument, write_scratch
from fieldmouse.indexer.search import Hit, search_all
from fieldmouse.reading.versions import told_apart, versions_of
from fieldmouse.reading.volume import Volume
from fieldmouse.records import News, OutcomeKind, OutcomeRow

Placed = tuple[Volume, OutcomeRow]

_MARK = "#"  # never in the URL of a page


class VersionHit(Hit, frozen=True):
    """A version of a page that matches the query."""

    at: float  # epoch seconds: first seen
    version: int  # number as in `changes --versions`; 1 is the oldest
    newest: bool  # whether an ordinary search finds it


def search_versions(
    volumes: Sequence[Volume], words: str, limit: int, counts: Callable[[int, str], bool]
) -> list[VersionHit]:
    """The best versions of all pages for `words`, best first; `counts` as in `search_all`."""
    if understand(words).empty:
        return []
    past = dict[str, tuple[Placed, int]]()
    with _scratch_directory() as scratch:
        write_scratch(scratch, _documents(volumes, past))
        crawls = [volume.home.path for volume in volumes]
        hits = search_all(
            [*crawls, scratch], words, limit, lambda crawl, url: crawl == len(crawls) or counts(crawl, url)
        )
    shown = _newest(volumes, {hit.url for hit in hits if hit.directory != scratch})

    def version(hit: Hit) -> VersionHit:
        newest = hit.directory != scratch
        (volume, row), number = (shown if newest else past)[hit.url]
        where = {"url": row.url, "directory": volume.home.path}
        return VersionHit(**structs.asdict(hit) | where, at=row.at, version=number, newest=newest)

    return [version(hit) for hit in hits]


@contextmanager
def _scratch_directory() -> Iterator[Path]:
    """Temporary directory for an index, deleted at the end.

    Deletion is retried, because a background thread of the index may still create a lock file.
    """
    path = Path(tempfile.mkdtemp(prefix="fieldmouse-"))
    try:
        yield path
    finally:
        for _ in range(5):
            shutil.rmtree(path, ignore_errors=True)
            if not path.exists():
                break


def _documents(volumes: Sequence[Volume], past: dict[str, tuple[Placed, int]]) -> Iterator[ScratchDocument]:
    """The older versions, each under a unique name that is a key of `past`."""
    for url, history in _histories(volumes, _followed(volumes)).items():
        for (volume, row), number in older_versions(history):
            name = f"{url}{_MARK}{number}"
            past[name] = (volume, row), number
            page = volume.page(row)
            yield ScratchDocument(name, page.title, page.text)


def _followed(volumes: Sequence[Volume]) -> set[str]:
    """Pages that may have an older version in the archive."""
    return {
        row.url
        for volume in volumes
        for row in volume.rows()
        if outcomes.is_statement(row) and (row.polled or len(volumes) > 1) and row.news is not News.SAME
    }


def _histories(volumes: Sequence[Volume], urls: set[str]) -> dict[str, list[Placed]]:
    """All rows of these pages, by time."""
    history = defaultdict[str, list[Placed]](list)
    rows = ([(volume, row) for row in volume.rows() if row.url in urls] for volume in volumes)
    for volume, row in heapq.merge(*rows, key=lambda placed: placed[1].at) if urls else ():
        history[row.url].append((volume, row))
    return history


def older_versions(history: Sequence[Placed]) -> Iterator[tuple[Placed, int]]:
    """Versions of a page except the one shown now, with their numbers."""
    rows = [row for _, row in history]
    standing = next((row for row in reversed(rows) if outcomes.is_statement(row)), None)
    shown = outcomes.page_of(rows)
    if standing is None or standing.kind is OutcomeKind.REFUSED or (shown is not None and not shown.indexed):
        return
    places, versions = {id(row): volume for volume, row in history}, told_apart(rows)
    for number, row in versions[:-1] if shown is not None else versions:
        if row.indexed:
            yield (places[id(row)], row), number


def _newest(volumes: Sequence[Volume], urls: set[str]) -> dict[str, tuple[Placed, int]]:
    """The present version of each of these pages, and its number."""
    newest = dict[str, tuple[Placed, int]]()
    for url, history in _histories(volumes, urls).items():
        places = {id(row): volume for volume, row in history}
        versions = versions_of(row for _, row in history)
        if versions:
            newest[url] = (places[id(versions[-1])], versions[-1]), len(versions)
    return newest
