"""Durable part of the crawl that holds the shard states last reported by the workers.

Workers sync their own files, all at once and before the parts are sealed, so nothing is left to sync here.
"""

from __future__ import annotations

from fieldmouse.crawldir import Sealed
from fieldmouse.indexer.indexer import Indexer
from fieldmouse.indexer.wire import ShardState


class Shards:
    """See `crawldir/parts.py`. Call `Indexer.prepare` before sealing."""

    name = "shards"

    def __init__(self, indexer: Indexer):
        self._indexer = indexer

    def begin(self) -> None:
        """Nothing to do: `Indexer.begin` tells the workers and waits for them."""

    def seal(self) -> Sealed[list[ShardState]]:
        return Sealed(self._indexer.prepared)

    def committed(self) -> None:
        self._indexer.committed()

    def close(self) -> None:
        """Nothing to do: `Indexer.close` ends the workers and waits for them."""
