"""Replaced pages of a shard: logged at once, effective at the checkpoint, deleted later."""

from __future__ import annotations

from pathlib import Path

from fieldmouse.indexer.clearing import Clearing
from fieldmouse.indexer.copies import Copies, CopyLog, stand
from fieldmouse.indexer.wire import ShardState


class Turnover:
    def __init__(self, directory: Path, shard: int, state: ShardState):
        """Open at `state`; `directory` has the indexes of all shards."""
        self._shard = shard
        self._log = CopyLog(directory, shard, state.copies)
        self._copies = Copies(directory, shard)
        # After a kill between journal and table: entries in the journal are valid.
        self._copies.catch_up(state.copies)
        self._clearing = Clearing(directory / f"shard-{shard}", shard, self._copies)
        self._in_batch: set[int] = set()  # pages with a document in the current batch
        self._lengths: dict[int, int] = {}  # length of the log by batch, for batches not committed yet

    def added(self, key: int) -> None:
        """Note that the current batch has a document of this page."""
        self._in_batch.add(key)

    def note(self, key: int, batch: int, *, present: bool) -> bool:
        """Log that a page was fetched again or is gone; True if this batch has a document to delete."""
        self._log.note(key, stand(batch, self._shard, present=present))
        replaced = key in self._in_batch
        self._in_batch.discard(key)
        return replaced

    def seal(self, batch: int) -> int:
        """Make the log durable; return its length as of `batch`."""
        self._in_batch.clear()
        self._lengths[batch] = self._log.seal()
        return self._lengths[batch]

    def committed(self, batch: int, finished: int) -> None:
        """Delete older versions from generations before `finished`, now that the journal has `batch`."""
        length = max((length for sealed, length in self._lengths.items() if sealed <= batch), default=0)
        self._lengths = {sealed: length for sealed, length in self._lengths.items() if sealed > batch}
        self._clearing.replaced(self._copies.catch_up(length) if length else 0)
        self._clearing.go_on(finished)

    def close(self) -> None:
        self._log.close()
        self._copies.close()
