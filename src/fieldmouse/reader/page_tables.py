"""Page tables of one or several crawls, opened together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from fieldmouse.reader.snapshot import at_newest_checkpoint
from fieldmouse.refresh.page_table import PageTable, read_page_table
from fieldmouse.storage.checkpoint import Checkpoint
from fieldmouse.storage.directory import CrawlDir


class OpenPageTable(NamedTuple):
    """A crawl, its newest checkpoint and its page table as of then."""

    home: CrawlDir
    last: Checkpoint
    ledger: PageTable


@contextmanager
def open_page_tables(homes: Sequence[CrawlDir]) -> Iterator[list[OpenPageTable]]:
    """Open the page table of each crawl that has a checkpoint."""
    opened: list[OpenPageTable] = []
    try:
        for home in homes:
            shelf = at_newest_checkpoint(home, partial(_shelf, home), before=None)
            if shelf is not None:
                opened.append(shelf)
        yield opened
    finally:
        for shelf in opened:
            shelf.ledger.close()


def _shelf(home: CrawlDir, last: Checkpoint) -> OpenPageTable | None:
    return OpenPageTable(home, last, read_page_table(home, last))
