"""The newest checkpoint of a crawl, and how to read its files while the crawl goes on.

A running crawl deletes a file soon after a checkpoint that no longer names it. An onlooker
who finds a file gone reads the newer checkpoint and looks again; if there is no
newer one, the file is missing. That is done here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fieldmouse.crawldir import Checkpoint, CrawlDir, read_checkpoint
from fieldmouse.errors import CrawlDirError, Missing

T = TypeVar("T")

_LOOKS = 20

__all__ = ["Checkpoint", "look", "read_checkpoint"]


def look(home: CrawlDir, at: Callable[[Checkpoint], T]) -> T | None:
    """What `at` makes of the newest checkpoint whose files are all there; None before the first one.

    `at` raises `FileNotFoundError` or `Missing` for a file that is gone.
    """
    last = read_checkpoint(home)
    for _ in range(_LOOKS):
        if last is None:
            return None
        try:
            return at(last)
        except (FileNotFoundError, Missing):
            newer = read_checkpoint(home)
            if newer is None or newer.at == last.at:
                raise
            last = newer
    raise CrawlDirError(f"`{home.path}` is crawled faster than it can be read", "ask again")
