"""Page tables of one or several crawls, opened together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from fieldmouse.reader.snapshot import look
from fieldmouse.refresh.page_table import Ledger, read_ledger
from fieldmouse.storage.checkpoint import Checkpoint
from fieldmouse.storage.directory import CrawlDir


class LedgerShelf(NamedTuple):
    """A crawl, its newest checkpoint and its page table as of then."""

    home: CrawlDir
    last: Checkpoint
    ledger: Ledger


@contextmanager
def shelves(homes: Sequence[CrawlDir]) -> Iterator[list[LedgerShelf]]:
    """Open the page table of each crawl that has a checkpoint."""
    opened: list[LedgerShelf] = []
    try:
        for home in homes:
            shelf = look(home, partial(_shelf, home), before=None)
            if shelf is not None:
                opened.append(shelf)
        yield opened
    finally:
        for shelf in opened:
            shelf.ledger.close()


def _shelf(home: CrawlDir, last: Checkpoint) -> LedgerShelf | None:
    return LedgerShelf(home, last, read_ledger(home, last))
