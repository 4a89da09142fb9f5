"""Temporary search index for texts that the indexes of a crawl do not have."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import tantivy

from fieldmouse.indexer.index import schema
from fieldmouse.indexer.panics import panics_as_errors
from fieldmouse.indexer.query import authority_of, names

_HEAP_BYTES = 15 << 20  # bytes; tantivy's minimum


class ScratchDocument(NamedTuple):
    """A searchable text; `name` is its URL or starts with it."""

    name: str
    title: str
    text: str


@panics_as_errors()
def write_scratch(directory: Path, documents: Iterable[ScratchDocument]) -> int:
    """Write an index that `search_all` can read like a crawl; return the number of documents."""
    path, count = directory / "index" / "shard-0" / "00000", 0
    path.mkdir(parents=True)
    index = tantivy.Index(schema(), str(path))
    writer = index.writer(heap_size=_HEAP_BYTES, num_threads=1)
    for count, (name, title, text) in enumerate(documents, 1):
        document = tantivy.Document()
        document.add_bytes("url", name.encode())
        document.add_text("title", title)
        document.add_text("text", text)
        document.add_unsigned("key", count)
        document.add_unsigned("batch", 1)
        for host in names(authority_of(name)):
            document.add_text("host", host)
        writer.add_document(document)
    writer.commit()
    writer.wait_merging_threads()
    return count
