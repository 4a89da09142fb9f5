"""Reading the files of the newest checkpoint while the crawl runs.

A running crawl deletes a file soon after a checkpoint that no longer names it. A reader that misses a file
reads the newer checkpoint and tries again; if there is no newer one, the file is missing. Only this module
does that.
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
    """A newer checkpoint replaced the one being read at every attempt."""

    def __init__(self, home: CrawlDir):
        super().__init__(f"`{home.path}` is crawled faster than it can be read", "ask again")


def look(home: CrawlDir, at: Callable[[Checkpoint], T], *, before: T) -> T:
    """Result of `at` for the newest checkpoint whose files all exist; `before` if there is no checkpoint yet.

    `at` raises `FileNotFoundError` or `Missing` for a missing file. If that happens at the newest
    checkpoint, the crawl did not delete the file, and the error is raised.
    """

    def attempt(last: Checkpoint) -> T | _Gone:
        try:
            return at(last)
        except (FileNotFoundError, Missing) as trouble:
            return _Gone(last, trouble)

    result = look_until(home, attempt, lambda result: not isinstance(result, _Gone))
    if result is None:
        return before
    if isinstance(result, _Gone):
        raise result.trouble if _is_newest(home, result.last) else TooFast(home) from result.trouble
    return result


def look_until(home: CrawlDir, at: Callable[[Checkpoint], T], is_whole: Callable[[T], bool]) -> T | None:
    """Result of `at` for the newest checkpoint, whole or not; None if there is no checkpoint yet.

    Tries again while the result is not whole and a newer checkpoint exists.
    """
    last, result = read_checkpoint(home), None
    for _ in range(_LOOKS):
        if last is None:
            break
        result = at(last)
        if is_whole(result) or _is_newest(home, last):
            break
        last = read_checkpoint(home)
    return result


class _Gone(NamedTuple):
    last: Checkpoint
    trouble: FileNotFoundError | Missing


def _is_newest(home: CrawlDir, last: Checkpoint) -> bool:
    newest = read_checkpoint(home)
    return newest is None or newest.at == last.at
