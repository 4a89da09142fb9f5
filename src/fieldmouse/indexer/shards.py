"""The shards as a part of the crawl: what the workers have made durable, as of their last answer.

Workers sync their own files, all at once and before anybody seals, so there is nothing left to sync here.
"""

from __future__ import annotations

from fieldmouse.crawldir import Sealed
from fieldmouse.indexer.indexer import Indexer
from fieldmouse.indexer.wire import ShardState


class Shards:
    """See `crawldir/parts.py`. Call `Indexer.prepare` before it is sealed."""

    name = "shards"

    def __init__(self, indexer: Indexer):
        self._indexer = indexer

    def begin(self) -> None:
        """Workers are told by `Indexer.begin`, which waits for them."""

    def seal(self) -> Sealed[list[ShardState]]:
        return Sealed(self._indexer.prepared)

    def committed(self) -> None:
        self._indexer.committed()

    def close(self) -> None:
        """Workers are ended by `Indexer.close`, which waits for them."""
