"""Deletion of documents that newer versions of their pages replace in the full-text index.

A finished generation is kept as `clearing.json`, like the files of a checkpoint, while documents are deleted
from it. Deletion only frees space and removes the influence of old documents on ranks, so it may be late,
and a kill in the middle does no harm. Each replaced page adds credit to examine a few documents. When the
credit covers a whole generation, the next one is examined, and it is rewritten only if enough of its
documents are old. So the cost per page does not depend on the number of generations.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tantivy

from fieldmouse.search.generation_reader import all_doc_addresses, document_keys_and_batches
from fieldmouse.search.index import has_key_columns, panics_as_errors, version_query
from fieldmouse.search.newest_versions import VersionLog, VersionTable, version_number, version_numbers
from fieldmouse.search.snapshot import META, IndexSnapshots, read_meta
from fieldmouse.storage.checkpoint import ShardState

DOCUMENTS_PER_REPLACEMENT = 12  # documents to examine per replaced page
REWRITE_ONE_IN = 8  # a generation is rewritten if at least one in this many of its documents is old
_MAX_GENERATIONS = 4  # maximum number of generations examined after one checkpoint
_HEAP = 15 << 20  # bytes; the minimum that tantivy accepts


@panics_as_errors()
def delete_replaced_versions(path: Path, shard: int, copies: VersionTable) -> int:
    """Delete the old versions from a finished generation if they are enough; return the number deleted."""
    index = tantivy.Index.open(str(path))
    if not has_key_columns(index.schema):
        return 0
    index.reload()
    searcher = index.searcher()
    page_keys, batches = document_keys_and_batches(
        searcher, all_doc_addresses(searcher), columns=True, key_seed=lambda: 0
    )
    keys: list[int] = page_keys.tolist()
    old = copies.newest_versions(keys) > version_numbers(batches, shard)
    count = int(np.count_nonzero(old))
    snapshots = IndexSnapshots(path)
    if count * REWRITE_ONE_IN < len(keys) or not count or not snapshots.save_before_deletion():
        return 0
    snapshots.delete_unlisted_files()  # files of a killed writer would block ours
    current = {key for key, gone in zip(keys, old, strict=True) if not gone}
    replaced = {key for key, gone in zip(keys, old, strict=True) if gone} - current
    writer = index.writer(heap_size=_HEAP, num_threads=1)
    if replaced:
        writer.delete_documents_by_query(tantivy.Query.term_set_query(index.schema, "key", sorted(replaced)))
    for key, batch, gone in zip(keys, batches, old, strict=True):
        if gone and key in current:
            writer.delete_documents_by_query(version_query(index.schema, key, batch))
    writer.commit()
    writer.wait_merging_threads()
    snapshots.drop_after_deletion()
    return count


class DocumentReplacements:
    """Log of the pages of one shard that were fetched again or are gone, and deletion of their old documents."""

    def __init__(self, directory: Path, shard: int, state: ShardState):
        """Open at `state`; `directory` has the indexes of all shards."""
        self._shard = shard
        self._log = VersionLog(directory, shard, state.copies)
        self._copies = VersionTable(directory, shard)
        # After a kill between journal and table: entries in the journal are valid.
        self._copies.apply_log(state.copies)
        self._generations = directory / f"shard-{shard}"
        self._credit = 0  # number of documents that may be examined
        self._next_generation = 0
        self._in_batch: set[int] = set()  # pages with a document in the current batch
        self._lengths: dict[int, int] = {}  # length of the log by batch, for batches not committed yet

    def note_document_in_batch(self, key: int) -> None:
        """Note that the current batch has a document of this page."""
        self._in_batch.add(key)

    def log_replacement(self, key: int, batch: int, *, present: bool) -> bool:
        """Log that a page was fetched again or is gone; True if this batch has a document to delete."""
        self._log.set_newest_version(key, version_number(batch, self._shard, present=present))
        replaced = key in self._in_batch
        self._in_batch.discard(key)
        return replaced

    def make_durable(self, batch: int) -> int:
        """Make the log durable; return its length as of `batch`."""
        self._in_batch.clear()
        self._lengths[batch] = self._log.make_durable()
        return self._lengths[batch]

    def delete_replaced_after_commit(self, batch: int, finished: int) -> None:
        """Delete older versions from generations before `finished`, now that the journal has `batch`."""
        length = max((length for sealed, length in self._lengths.items() if sealed <= batch), default=0)
        self._lengths = {sealed: length for sealed, length in self._lengths.items() if sealed > batch}
        if length:
            self._credit += self._copies.apply_log(length) * DOCUMENTS_PER_REPLACEMENT
        self._delete_old_versions(finished)

    def _delete_old_versions(self, finished: int) -> None:
        """Examine as many of the `finished` generations as the credit allows."""
        examined = 0
        for _ in range(finished if self._credit else 0):
            path = self._generations / f"{self._next_generation % finished:05}"
            meta = read_meta(path / META)
            size = meta.document_count if meta is not None else 0
            if size > self._credit or examined >= _MAX_GENERATIONS:
                break
            self._next_generation = (self._next_generation + 1) % finished
            if size:
                self._credit -= size
                examined += 1
                delete_replaced_versions(path, self._shard, self._copies)

    def close(self) -> None:
        self._log.close()
        self._copies.close()
