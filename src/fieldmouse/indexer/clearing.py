"""Clearing old copies out of finished generations, many at once.

That a copy is masked is decided by the table; clearing only gives its room back and
keeps it from weighing on the ranks of others. So it may be late, and a kill in the
middle costs nothing. A page that is replaced pays for a look at a few documents; when
that is enough for a whole generation the next one is looked at, and it is written again
only if enough in it is old. So the cost of a page does not depend on how many generations
there are.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tantivy

from fieldmouse.indexer.copies import Copies, stands
from fieldmouse.indexer.generations import places
from fieldmouse.indexer.index import copy_of, has_columns
from fieldmouse.indexer.panics import panics_as_errors
from fieldmouse.indexer.snapshot import META, Snapshots, read_meta

LOOK = 12  # documents looked at for each page that is replaced
WORTH = 8  # a generation is written again when one in so many of its documents is old
_AT_ONCE = 4  # generations looked at after one checkpoint, at most
_HEAP = 15 << 20  # bytes; tantivy wants no less


class Clearing:
    """`home` is where the generations of a shard are."""

    def __init__(self, home: Path, shard: int, copies: Copies):
        self._home, self._shard, self._copies = home, shard, copies
        self._credit = 0  # documents that may be looked at
        self._next = 0

    def replaced(self, count: int) -> None:
        """So many pages were replaced, or are gone, and the journal knows."""
        self._credit += count * LOOK

    def go_on(self, finished: int) -> None:
        """Look at as many of the `finished` generations as were paid for."""
        looked = 0
        for _ in range(finished if self._credit else 0):
            path = self._home / f"{self._next % finished:05}"
            meta = read_meta(path / META)
            size = meta.documents if meta is not None else 0
            if size > self._credit or looked >= _AT_ONCE:
                break
            self._next = (self._next + 1) % finished
            if size:
                self._credit -= size
                looked += 1
                clear(path, self._shard, self._copies)


@panics_as_errors()
def clear(path: Path, shard: int, copies: Copies) -> int:
    """Delete the old copies of a finished generation, if they are worth it; returns how many went."""
    index = tantivy.Index.open(str(path))
    if not has_columns(index.schema):
        return 0
    index.reload()
    searcher = index.searcher()
    hits = searcher.search(tantivy.Query.all_query(), limit=max(1, searcher.num_docs), count=False).hits
    addresses = [address for _, address in hits]
    found, batches = places(searcher, addresses, columns=True, key_seed=lambda: 0)
    keys: list[int] = found.tolist()
    old = copies.newest(keys) > stands(batches, shard)
    count = int(np.count_nonzero(old))
    snapshots = Snapshots(path)
    if count * WORTH < len(keys) or not count or not snapshots.hold():
        return 0
    snapshots.sweep()  # what a killed writer left here would stop ours
    whole = {key for key, gone in zip(keys, old, strict=True) if not gone}
    alone = {key for key, gone in zip(keys, old, strict=True) if gone} - whole
    writer = index.writer(heap_size=_HEAP, num_threads=1)
    if alone:
        writer.delete_documents_by_query(tantivy.Query.term_set_query(index.schema, "key", sorted(alone)))
    for key, batch, gone in zip(keys, batches, old, strict=True):
        if gone and key in whole:
            writer.delete_documents_by_query(copy_of(index.schema, key, batch))
    writer.commit()
    writer.wait_merging_threads()
    snapshots.release()
    return count
