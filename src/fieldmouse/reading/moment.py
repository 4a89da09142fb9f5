"""The newest checkpoint of a crawl, and how to read its files while the crawl goes on.

A running crawl deletes a file soon after a checkpoint that no longer names it. An onlooker
who finds a file gone reads the newer checkpoint and looks again; if there is no
newer one, the file is missing. That is done here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

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
    "look_until",
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

    def attempt(last: Checkpoint) -> T | _Gone:
        try:
            return at(last)
        except (FileNotFoundError, Missing) as trouble:
            return _Gone(last, trouble)

    found = look_until(home, attempt, lambda found: not isinstance(found, _Gone))
    if found is None:
        return before
    if isinstance(found, _Gone):
        raise found.trouble if _is_newest(home, found.last) else TooFast(home) from found.trouble
    return found


def look_until(home: CrawlDir, at: Callable[[Checkpoint], T], is_whole: Callable[[T], bool]) -> T | None:
    """What `at` finds at the newest checkpoint, whole or not; None if there is none yet.

    It looks again as long as what it found is not whole and the crawl has gone on meanwhile.
    """
    last, found = read_checkpoint(home), None
    for _ in range(_LOOKS):
        if last is None:
            break
        found = at(last)
        if is_whole(found) or _is_newest(home, last):
            break
        last = read_checkpoint(home)
    return found


class _Gone(NamedTuple):
    last: Checkpoint
    trouble: FileNotFoundError | Missing


def _is_newest(home: CrawlDir, last: Checkpoint) -> bool:
    newest = read_checkpoint(home)
    return newest is None or newest.at == last.at
