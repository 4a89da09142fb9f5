"""Snapshot of a crawl at its newest checkpoint, read while the crawl runs.

A running crawl deletes a file soon after a checkpoint that no longer names it. A reader that misses a file
reads the newer checkpoint and tries again; if there is no newer one, the file is missing. Only this module
does that.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import repeat
from typing import Any, TypeVar

from fieldmouse.archive.warc_reader import ArchiveReader
from fieldmouse.errors import CrawlDirError, MissingFile, shell_quoted
from fieldmouse.formatting import format_time
from fieldmouse.reader.page import StoredPage
from fieldmouse.storage import outcome_log_reader
from fieldmouse.storage.checkpoint import Checkpoint, read_checkpoint, sealed_outcome_bytes, shard_states
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.types.outcome import OutcomeRow

T = TypeVar("T")

_LOOKS = 20


def read_at_newest_checkpoint(home: CrawlDir, at: Callable[[Checkpoint], T], *, before: T) -> T:
    """Result of `at` for the newest checkpoint whose files all exist; `before` if there is no checkpoint yet.

    `at` raises `FileNotFoundError` or `MissingFile` for a missing file. If that happens at the newest
    checkpoint, the crawl did not delete the file, and the error is raised.
    """

    missing: FileNotFoundError | MissingFile | None = None
    for _ in range(_LOOKS):
        last = read_checkpoint(home)
        if last is None:
            return before
        try:
            return at(last)
        except (FileNotFoundError, MissingFile) as trouble:
            missing = trouble
            if _is_newest_checkpoint(home, last):
                raise
    raise CrawlDirError(f"`{home.path}` is crawled faster than it can be read", "ask again") from missing


def retry_until_whole(home: CrawlDir, at: Callable[[Checkpoint], T], is_whole: Callable[[T], bool]) -> T | None:
    """Result of `at` for the newest checkpoint, whole or not; None if there is no checkpoint yet.

    Tries again while the result is not whole and a newer checkpoint exists.
    """
    last, result = read_checkpoint(home), None
    for _ in range(_LOOKS):
        if last is None:
            break
        result = at(last)
        if is_whole(result) or _is_newest_checkpoint(home, last):
            break
        last = read_checkpoint(home)
    return result


def _is_newest_checkpoint(home: CrawlDir, last: Checkpoint) -> bool:
    newest = read_checkpoint(home)
    return newest is None or newest.at == last.at


class CrawlSnapshot:
    """Rows, pages and items of one crawl at a fixed checkpoint."""

    def __init__(self, home: CrawlDir, last: Checkpoint | None):
        """`last` is None before the first checkpoint: the crawl is empty then."""
        self.home, self.last = home, last
        self.length = sealed_outcome_bytes(last)

    @cached_property
    def record_reader(self) -> ArchiveReader:
        return ArchiveReader(self.home / "archive", shard_states(self.last))

    def page_of_row(self, row: OutcomeRow) -> StoredPage:
        return StoredPage(row, self.record_reader)

    def rows(self) -> Iterator[OutcomeRow]:
        """Every row that counts, oldest first."""
        return outcome_log_reader.outcome_rows(self.home, length=self.length)

    def rows_of(self, url: str) -> list[OutcomeRow]:
        """All rows of one URL, oldest first."""
        return outcome_log_reader.rows_of(self.home, url, length=self.length)

    def newest_page_rows(self) -> Iterator[OutcomeRow]:
        """The newest row of each stored page."""
        return outcome_log_reader.newest_page_rows(self.home, length=self.length)

    def extracted_items(self, row: OutcomeRow) -> Iterator[dict[str, Any]]:
        """The rows extracted from a page, each with the page's URL and fetch time."""
        from fieldmouse.archive.warc_reader import read_page_rows

        for item in read_page_rows(self.home / "archive", row):
            yield {"url": row.url, "fetched_at": format_time(row.at)} | item

    def check_index_exists(self) -> None:
        """Raise `CrawlDirError` if a part of the index is missing: a search would silently find less."""
        for shard, state in enumerate(shard_states(self.last)):
            for generation in range(state.generation_count):
                part = self.home / "index" / f"shard-{shard}" / f"{generation:05}"
                if not part.is_dir():
                    raise CrawlDirError(
                        f"a part of the index is missing: `{part}`",
                        f"`fieldmouse doctor {shell_quoted(self.home.path)} --repair` builds it again",
                    )


#: A row and the crawl it is from.
CrawlRow = tuple[CrawlSnapshot, OutcomeRow]


def rows_by_time(crawls: Iterable[tuple[CrawlSnapshot, Iterable[OutcomeRow]]]) -> Iterator[CrawlRow]:
    """Rows of several crawls merged by time; rows of one crawl keep their order."""
    return heapq.merge(*(zip(repeat(crawl), rows) for crawl, rows in crawls), key=lambda placed: placed[1].at)
