"""Crawl as of one checkpoint: the outcome rows that count, and the archive they name."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from fieldmouse.crawldir import CrawlDir, outcomes
from fieldmouse.errors import CrawlDirError, typed
from fieldmouse.figures import when
from fieldmouse.indexer.library import Library
from fieldmouse.reading.moment import Checkpoint, sealed_outcomes, sealed_shards
from fieldmouse.reading.page import StoredPage
from fieldmouse.records import OutcomeRow


class Volume:
    """Rows, pages and items of one crawl at a fixed checkpoint."""

    def __init__(self, home: CrawlDir, last: Checkpoint | None):
        """`last` is None before the first checkpoint: the crawl is empty then."""
        self.home, self.last = home, last
        self.length = sealed_outcomes(last)

    @cached_property
    def library(self) -> Library:
        return Library(self.home / "archive", sealed_shards(self.last))

    def page(self, row: OutcomeRow) -> StoredPage:
        return StoredPage(row, self.library)

    def rows(self) -> Iterator[OutcomeRow]:
        """Every row that counts, oldest first."""
        return outcomes.rows(self.home, length=self.length)

    def rows_of(self, url: str) -> list[OutcomeRow]:
        """All rows of one URL, oldest first."""
        return outcomes.rows_of(self.home, url, length=self.length)

    def pages(self) -> Iterator[OutcomeRow]:
        """The newest row of each stored page."""
        return outcomes.pages(self.home, length=self.length)

    def items_of(self, row: OutcomeRow) -> Iterator[dict[str, Any]]:
        """The rows extracted from a page, each with the page's URL and fetch time."""
        from fieldmouse.indexer.items import read_items

        for _, item in read_items(self.home / "archive", (row,)):
            yield {"url": row.url, "fetched_at": when(row.at)} | item

    def see_that_its_index_is_there(self) -> None:
        """Raise `CrawlDirError` if a part of the index is missing: a search would silently find less."""
        for shard, state in enumerate(sealed_shards(self.last)):
            for generation in range(state.generation + bool(state.generation_bytes)):
                part = self.home / "index" / f"shard-{shard}" / f"{generation:05}"
                if not part.is_dir():
                    raise CrawlDirError(
                        f"a part of the index is missing: `{part}`",
                        f"`fieldmouse doctor {typed(self.home.path)} --repair` builds it again",
                    )
