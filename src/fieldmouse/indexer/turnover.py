"""The pages of a shard that come again: noted at once, counted with the checkpoint, cleared at leisure."""

from __future__ import annotations

from pathlib import Path

from fieldmouse.indexer.clearing import Clearing
from fieldmouse.indexer.copies import Copies, CopyLog, stand
from fieldmouse.indexer.wire import ShardState


class Turnover:
    def __init__(self, directory: Path, shard: int, state: ShardState):
        """As of `state`; `directory` is that of all indexes."""
        self._shard = shard
        self._log = CopyLog(directory, shard, state.copies)
        self._copies = Copies(directory, shard)
        # Killed after the journal held them and before the table did: these count all the same.
        self._copies.catch_up(state.copies)
        self._clearing = Clearing(directory / f"shard-{shard}", shard, self._copies)
        self._here: set[int] = set()  # pages that have a document in the batch being written
        self._lengths: dict[int, int] = {}  # of the log, by batches that may come to count

    def added(self, key: int) -> None:
        """The batch being written holds a document of this page."""
        self._here.add(key)

    def note(self, key: int, batch: int, *, present: bool) -> bool:
        """A page came again, or is gone. True if the same batch has a copy already, which has to go now."""
        self._log.note(key, stand(batch, self._shard, present=present))
        known = key in self._here
        self._here.discard(key)
        return known

    def seal(self, batch: int) -> int:
        """Make what was noted durable; returns the length of the log that counts with `batch`."""
        self._here.clear()
        self._lengths[batch] = self._log.seal()
        return self._lengths[batch]

    def committed(self, batch: int, finished: int) -> None:
        """The journal holds `batch`: only now may older copies go, from `finished` generations."""
        length = max((length for known, length in self._lengths.items() if known <= batch), default=0)
        self._lengths = {known: length for known, length in self._lengths.items() if known > batch}
        self._clearing.replaced(self._copies.catch_up(length) if length else 0)
        self._clearing.go_on(finished)

    def close(self) -> None:
        self._log.close()
        self._copies.close()
