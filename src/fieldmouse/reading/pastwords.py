"""Words in the versions that pages had before: what `search --versions` finds.

The index of a crawl holds one version of a page, its newest. All of them are in the archive, so who
looks for what a page said once is answered from there: the older versions are read and parsed again, an
index is made of them for this one question, and it is asked together with that of the crawl, so that the
ranks of both compare. Versions that differ in nothing but noise are one. What robots.txt excludes by now, or
a page that asks not to be indexed, is not found, whatever it said before.
"""

from __future__ import annotations

import heapq
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fieldmouse.crawldir import outcomes
from fieldmouse.indexer.query import understand
from fieldmouse.indexer.scratch import ScratchDocument, write_scratch
from fieldmouse.indexer.search import Hit, search_all
from fieldmouse.reading.versions import told_apart, versions_of
from fieldmouse.reading.volume import Volume
from fieldmouse.records import News, OutcomeKind, OutcomeRow

Placed = tuple[Volume, OutcomeRow]

_MARK = "#"  # no URL of a page has one


class VersionHit(Hit, frozen=True):
    """A version of a page that answers the question."""

    at: float  # epoch seconds: when it was first seen so
    version: int  # as `changes --versions` counts them; 1 is the oldest
    newest: bool  # whether it is what search finds without versions


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
    found = list[VersionHit]()
    for hit in hits:
        (volume, row), number = shown[hit.url] if hit.directory != scratch else past[hit.url]
        found.append(
            VersionHit(
                row.url, hit.title, hit.snippet, hit.score, volume.home.path, hit.pieces, row.at, number,
                hit.directory != scratch,
            )
        )  # fmt: skip
    return found


@contextmanager
def _scratch_directory() -> Iterator[Path]:
    """A directory for an index that is deleted in the end.

    The index looks for news of itself in the background, and may put a lock file there at the last moment.
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
    """The older versions, each under a name of its own; `past` says which it is."""
    for url, told in _histories(volumes, _followed(volumes)).items():
        for (volume, row), number in older_versions(told):
            name = f"{url}{_MARK}{number}"
            past[name] = (volume, row), number
            page = volume.page(row)
            yield ScratchDocument(name, page.title, page.text)


def _followed(volumes: Sequence[Volume]) -> set[str]:
    """The pages of which an older version may be stored."""
    return {
        row.url
        for volume in volumes
        for row in volume.rows()
        if outcomes.is_statement(row) and (row.polled or len(volumes) > 1) and row.news is not News.SAME
    }


def _histories(volumes: Sequence[Volume], urls: set[str]) -> dict[str, list[Placed]]:
    """All rows of these pages, by time."""
    told = defaultdict[str, list[Placed]](list)
    rows = ([(volume, row) for row in volume.rows() if row.url in urls] for volume in volumes)
    for volume, row in heapq.merge(*rows, key=lambda placed: placed[1].at) if urls else ():
        told[row.url].append((volume, row))
    return told


def older_versions(told: Sequence[Placed]) -> Iterator[tuple[Placed, int]]:
    """Of all that happened to a page, its versions but for the one that is shown now, with their numbers."""
    rows = [row for _, row in told]
    standing = next((row for row in reversed(rows) if outcomes.is_statement(row)), None)
    shown = outcomes.page_of(rows)
    if standing is None or standing.kind is OutcomeKind.REFUSED or (shown is not None and not shown.indexed):
        return
    places, versions = {id(row): volume for volume, row in told}, told_apart(rows)
    for number, row in versions[:-1] if shown is not None else versions:
        if row.indexed:
            yield (places[id(row)], row), number


def _newest(volumes: Sequence[Volume], urls: set[str]) -> dict[str, tuple[Placed, int]]:
    """The version that each of these pages has now, and its number."""
    found = dict[str, tuple[Placed, int]]()
    for url, told in _histories(volumes, urls).items():
        places, versions = {id(row): volume for volume, row in told}, versions_of(row for _, row in told)
        if versions:
            found[url] = (places[id(versions[-1])], versions[-1]), len(versions)
    return found
