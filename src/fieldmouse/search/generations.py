"""Generations of the full-text index, and the deletion of documents that newer ones replace.

tantivy writes its files once and never changes them; the content of an index is the list in its
`meta.json`. tantivy deletes and merges files at its own time, and fails on files that a killed writer
left behind. So a checkpoint gives every file of the index a second name, in `kept/`, together with the
list:

    00003/                  where tantivy works
    00003/kept/17.json      the list as of batch 17
    00003/kept/*            the files it names, as hard links

Restoring is exact, no matter when tantivy was killed: the files of the list get their names back, the
list becomes `meta.json`, and everything else in the directory is deleted. Nothing has to be searched,
deleted and merged again, and the order in which names reach the disk does not matter.

A finished generation is kept in the same way, as `clearing.json`, while replaced documents are deleted
from it. Readers take no lock.

Deletion only frees space and removes the influence of old documents on ranks, so it may be late, and a
kill in the middle does no harm. Each replaced page adds credit to examine a few documents. When the
credit covers a whole generation, the next one is examined, and it is rewritten only if enough of its
documents are old. So the cost per page does not depend on the number of generations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import tantivy

from fieldmouse.errors import CrawlDirError, shell_quoted
from fieldmouse.search.index import has_key_columns, panics_as_errors, version_query
from fieldmouse.search.snapshot import META, IndexSnapshots, read_meta, readable_view
from fieldmouse.search.version_table import (
    Uint64Array,
    VersionLog,
    VersionTable,
    VersionView,
    version_number,
    version_numbers,
)
from fieldmouse.storage.checkpoint import ShardState
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.url import key_of


class IndexGeneration:
    """One generation of one shard, as of its opening."""

    def __init__(self, directory: Path, path: Path):
        """Raises `CrawlDirError` if the index cannot be read; `directory` is the crawl directory."""
        self.path, self.directory = path, directory
        self.shard = int(path.parent.name.partition("-")[2])
        self._resources = ExitStack()
        with self.read_errors():
            self.index = tantivy.Index.open(str(self._resources.enter_context(readable_view(path))))
            self.index.reload()
            self.searcher = self.index.searcher()
            self._columns = has_key_columns(self.index.schema)

    @contextmanager
    def read_errors(self) -> Iterator[None]:
        """Convert read errors to a `CrawlDirError` that names the index."""
        try:
            with panics_as_errors():
                yield
        except (ValueError, OSError) as trouble:
            command = f"fieldmouse doctor {shell_quoted(self.directory)}"
            hint = f"`{command}` lists all damage, and `--repair` rebuilds the index"
            if isinstance(trouble, PermissionError):
                hint = f"its owner can give you access with `chmod -R a+rX {self.directory}`"
            raise CrawlDirError(f"the index in `{self.path}` cannot be read: {trouble}", hint) from trouble

    def close(self) -> None:
        self._resources.close()

    def version_number(self, address: tantivy.DocAddress) -> int:
        """The version number of a document; the greater is the newer."""
        _, (batch,) = document_keys_and_batches(self.searcher, [address], columns=self._columns, key_seed=lambda: 0)
        return version_number(batch, self.shard)

    def _key_seed(self) -> int:
        return CrawlDir.open(self.directory).identity.key_seed

    def are_newest_versions(self, addresses: Sequence[tantivy.DocAddress], copies: VersionView) -> list[bool]:
        """For each document, whether it is the newest version of its page."""
        if not copies.has_entries or not addresses:
            return [True] * len(addresses)
        keys, batches = document_keys_and_batches(
            self.searcher, addresses, columns=self._columns, key_seed=self._key_seed
        )
        newest = copies.newest_versions(keys.tolist()) <= version_numbers(batches, self.shard)
        return [bool(is_newest) for is_newest in newest]

    def url_of_document(self, address: tantivy.DocAddress) -> str:
        return document_field_text(self.searcher.doc(address), "url")


def document_keys_and_batches(
    searcher: tantivy.Searcher, addresses: Sequence[tantivy.DocAddress], *, columns: bool, key_seed: Callable[[], int]
) -> tuple[Uint64Array, list[int]]:
    """The keys and the batches of documents."""
    if columns:
        fields = (searcher.fast_field_values(name, list(addresses)) for name in ("key", "batch"))
        keys, batches = ([int(value or 0) for value in values] for values in fields)
    else:  # written by an older fieldmouse, which fetched no page twice; later versions are newer
        seed = key_seed()
        keys = [key_of(document_field_text(searcher.doc(address), "url"), seed) for address in addresses]
        batches = [0] * len(addresses)
    return np.array(keys, np.uint64), batches


def all_doc_addresses(searcher: tantivy.Searcher) -> list[tantivy.DocAddress]:
    """The addresses of all documents."""
    hits = searcher.search(tantivy.Query.all_query(), limit=max(1, searcher.num_docs), count=False).hits
    return [address for _, address in hits]


@contextmanager
def open_generations(directory: Path) -> Iterator[tuple[list[IndexGeneration], VersionView]]:
    """Open all generations of the crawl in `directory`, and its version table."""
    # Table first: a version that becomes old in between is still there, and so is the newer one.
    copies = VersionView(directory / "index")
    generations: list[IndexGeneration] = []
    try:
        paths = sorted((directory / "index").glob("shard-*/*"))
        generations.extend(IndexGeneration(directory, path) for path in paths if tantivy.Index.exists(str(path)))
        yield generations, copies
    finally:
        for generation in generations:
            generation.close()
        copies.close()


def document_field_text(document: tantivy.Document, field: str) -> str:
    value = document.get_first(field)
    if value is None:
        return ""
    return value if isinstance(value, str) else bytes(value).decode()


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
    if count * REWRITE_ONE_IN < len(keys) or not count or not snapshots.save_for_deletion():
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

    def add_batch_document(self, key: int) -> None:
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

    def committed(self, batch: int, finished: int) -> None:
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
