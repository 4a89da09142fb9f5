"""The full-text index of one shard, kept in generations.

Words go to tantivy with their positions; the text itself is stored beside them
so that snippets need nothing else. Every document carries the number of its
batch, so that a batch that never counted can be taken out again.

tantivy merges its segments into ever larger ones and maps them into memory while
it does. To keep memory from growing with the crawl a shard's index is a series
of generations: when one holds enough text it is finished and never written again.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import tantivy

from fieldmouse.indexer.wire import IndexerConfig, ShardState


def schema(store_text: bool = True) -> tantivy.Schema:
    """What a document holds. Positions are kept for phrases; `key` finds a page that comes again."""
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("title", stored=True)
    builder.add_text_field("text", stored=store_text)
    builder.add_bytes_field("url", stored=True)
    builder.add_bytes_field("canonical", stored=True)
    builder.add_unsigned_field("key", indexed=True)
    builder.add_unsigned_field("batch", indexed=True)
    return builder.build()


class TextIndex:
    """Adds documents; what is added counts after `commit`."""

    def __init__(self, directory: Path, shard: int, config: IndexerConfig, state: ShardState):
        """Open the index as of `state`: younger generations and younger batches are taken out."""
        self._directory = directory / f"shard-{shard}"
        self._config = config
        self._schema = schema(config.store_text)
        self.generation, self.bytes = state.generation, state.generation_bytes
        self._directory.mkdir(parents=True, exist_ok=True)
        for path in self._directory.iterdir():
            if path.is_dir() and int(path.name) > state.generation:
                shutil.rmtree(path)
        self._open()
        if self._searcher_holds_more(state.batch):
            self._writer.delete_documents_by_query(_younger(self._schema, state.batch))
            self._writer.commit()

    def _open(self) -> None:
        path = self._directory / f"{self.generation:05}"
        path.mkdir(exist_ok=True)
        self._index = tantivy.Index(self._schema, str(path))
        self._writer = self._index.writer(heap_size=self._config.index_heap, num_threads=1)

    def _searcher_holds_more(self, batch: int) -> bool:
        self._index.reload()
        query = _younger(self._schema, batch)
        return bool(self._index.searcher().search(query, limit=1, count=False).hits)

    def add(
        self, *, url: str, key: int, title: str, text: str, batch: int, canonical: str, again: bool
    ) -> None:
        """Add a page; `again` says that an older copy may be there, which is taken out."""
        if again:
            # Deleting "by term" would look for a signed number, and find none.
            self._writer.delete_documents_by_query(tantivy.Query.term_query(self._schema, "key", key))
        document = tantivy.Document()
        document.add_bytes("url", url.encode())
        if title:
            document.add_text("title", title)
        if text:
            document.add_text("text", text)
        if canonical:
            document.add_bytes("canonical", canonical.encode())
        document.add_unsigned("key", key)
        document.add_unsigned("batch", batch)
        self._writer.add_document(document)
        self.bytes += len(text) + len(url) + len(title)

    def commit(self) -> None:
        """Make everything added durable; begin a new generation if this one is full."""
        self._writer.commit()
        if self.bytes >= self._config.generation:
            self._writer.wait_merging_threads()
            self.generation += 1
            self.bytes = 0
            self._open()

    def settle(self) -> None:
        """Wait until merges are done. Nothing can be added after."""
        self._writer.wait_merging_threads()


def _younger(shape: tantivy.Schema, batch: int) -> tantivy.Query:
    return tantivy.Query.range_query(
        shape, "batch", tantivy.FieldType.Unsigned, batch, None, include_lower=False, use_inverted_index=True
    )
