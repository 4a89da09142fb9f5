"""The newest checkpoint of a crawl, and how to read its files while the crawl goes on.

A running crawl deletes a file soon after a checkpoint that no longer names it. An onlooker
who finds a file gone reads the newer checkpoint and looks again; if there is no
newer one, the file is missing. That is done here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fieldmouse.crawldir import Checkpoint, CrawlDir, read_checkpoint, sealed_outcomes, sealed_tally
from fieldmouse.errors import CrawlDirError, Missing
from fieldmouse.frontier.moment import sealed_frontier
from fieldmouse.indexer.wire import sealed_shards

T = TypeVar("T")

_LOOKS = 20

__all__ = [
    "Checkpoint",
    "TooFast",
    "look",
    "read_checkpoint",
    "sealed_frontier",
    "sealed_outcomes",
    "sealed_shards",
    "sealed_tally",
]


class TooFast(CrawlDirError):
    """Every time we looked, the crawl had gone on."""

    def __init__(self, home: CrawlDir):
        super().__init__(f"`{home.path}` is crawled faster than it can be read", "ask again")


def look(home: CrawlDir, at: Callable[[Checkpoint], T], *, before: T) -> T:
    """What `at` makes of the newest checkpoint whose files are all there; `before` if there is none yet.

    `at` raises `FileNotFoundError` or `Missing` for a file that is gone. If that happens at the newest
    checkpoint, it is not the crawl that took it, and the error goes up.
    """
    last = read_checkpoint(home)
    for _ in range(_LOOKS):
        if last is None:
            return before
        try:
            return at(last)
        except (FileNotFoundError, Missing):
            newer = read_checkpoint(home)
            if newer is None or newer.at == last.at:
                raise
            last = newer
    raise TooFast(home)
