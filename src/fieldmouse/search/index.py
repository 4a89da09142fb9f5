"""Full-text index of one shard, stored in generations, and the errors of tantivy.

tantivy indexes words with their positions and stores the text for snippets. A checkpoint keeps a snapshot
of the index, and an uncommitted batch is undone by restoring the committed snapshot. Every document also
carries its batch number: without a snapshot, newer documents are deleted by it. Together with the page
key it determines the newer of two versions.

tantivy merges its segments into ever larger ones and maps them into memory while it does. To keep memory
from growing with the crawl, a shard's index is a series of generations: when one holds enough text it is
finished, and no pages are added to it.

tantivy hardly validates the files that it maps. Its Rust code panics over a damaged file, and pyo3 raises
a `PanicException`, which is not an `Exception`. Here it becomes a kind of `ValueError`, as tantivy raises
for all other errors. Files are also checked against the checksum that tantivy writes at their end.
"""

from __future__ import annotations

import shutil
import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec
import tantivy

from fieldmouse.config.rules_from_settings import PageProcessingConfig
from fieldmouse.errors import DamagedFile, IndexFileDamaged, storage_errors
from fieldmouse.search.query_parser import authority_of, searchable_host_names
from fieldmouse.search.snapshot import KEPT, META, IndexSnapshots, read_meta, remove_index_directory
from fieldmouse.storage.checkpoint import ShardState
from fieldmouse.storage.log import sync_directory


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Raise `IndexFileDamaged` instead of a panic; Ctrl-C and process exit pass unchanged."""
    try:
        yield
    except BaseException as error:
        # By name: every pyo3 extension module has its own class.
        if (type(error).__module__, type(error).__name__) != ("pyo3_runtime", "PanicException"):
            raise
        raise IndexFileDamaged(f"a file of it is damaged ({' '.join(str(error).split())})") from error


_FORMATS = range(4, 8)  # file formats that our tantivy can read; it ignores the rest of the version
_FOOTER = struct.Struct("<II")  # length of the JSON before it, and a magic number
_MAGIC = 1337
_PIECE = 1 << 20


def index_file_damage(path: Path, *, through: bool = True) -> str:
    """Description of the damage of an index file, or "". Unless `through`, only the footer is read."""
    with path.open("rb") as file:
        body, wanted = _read_footer(file, path.stat().st_size)
        if wanted is None:
            return f"`{path.name}` has lost its end"
        if not through:
            return ""
        file.seek(0)
        check = 0
        while body and (piece := file.read(min(body, _PIECE))):
            check, body = zlib.crc32(piece, check), body - len(piece)
    return "" if check == wanted else f"`{path.name}` does not match its checksum"


class TantivyVersion(msgspec.Struct):
    major: int
    minor: int
    patch: int
    index_format_version: int


class TantivyFooter(msgspec.Struct):
    """JSON footer, fields in the order in which they are written."""

    version: TantivyVersion
    crc: int


_decode = msgspec.json.Decoder(TantivyFooter).decode


def _read_footer(file: BinaryIO, size: int) -> tuple[int, int | None]:
    """Number of bytes before the footer, and their checksum; None if there is no valid footer."""
    if size <= _FOOTER.size:
        return 0, None
    file.seek(size - _FOOTER.size)
    length, magic = _FOOTER.unpack(file.read())
    body = size - _FOOTER.size - length
    if magic != _MAGIC or body < 0:
        return 0, None
    file.seek(body)
    try:
        footer = _decode(file.read(length))
    except msgspec.MsgspecError:
        return 0, None
    return body, footer.crc if footer.version.index_format_version in _FORMATS else None


def document_schema(store_text: bool = True, hosts: bool = True, columns: bool = True) -> tantivy.Schema:
    """Fields of a document. Positions are kept for phrases; `key` finds a page that is fetched again.

    Without `columns`, and then without `hosts`, it is the schema of older crawls, whose generations keep
    it.
    """
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("title", stored=True)
    builder.add_text_field("text", stored=store_text)
    builder.add_bytes_field("url", stored=True)
    builder.add_bytes_field("canonical", stored=True)
    builder.add_unsigned_field("key", indexed=True, fast=columns)
    builder.add_unsigned_field("batch", indexed=True, fast=columns)
    if hosts:  # for `host:`, see `query.searchable_host_names`
        builder.add_text_field("host", tokenizer_name="raw", index_option="basic")
    return builder.build()


def known_schemas() -> list[tantivy.Schema]:
    """Every schema that a generation may have: current and older ones, with and without stored text."""
    ages = ((True, True), (True, False), (False, False))
    return [document_schema(store_text, *age) for age in ages for store_text in (True, False)]


def has_key_columns(shape: tantivy.Schema) -> bool:
    """Whether key and batch are columns, readable for many documents at once; not so in older crawls."""
    return shape in (document_schema(), document_schema(store_text=False))


def verify_index(directory: Path, shard: int, state: ShardState) -> None:
    """Raise `DamagedFile` unless the index of this shard can be restored to `state`; changes nothing."""
    # A generation without pages is recreated, so none of its files have to exist.
    for number in range(state.generation + bool(state.generation_bytes)):
        path = _generation_path(directory, shard, number)
        last = number == state.generation
        listed = IndexSnapshots(path).file_list_to_open(state.batch if last else None)
        kept = listed.parent.name == KEPT
        meta = read_meta(listed)
        if meta is None:
            raise DamagedFile(path / META, "the list of the index's files cannot be read")
        for name in sorted(meta.files):
            file = path / name if (path / name).is_file() or not kept else path / KEPT / name
            if not file.is_file():
                raise DamagedFile(file, "the index names it, but it is missing")
            # tantivy opens any file it can map and fails later, when it adds a page or merges.
            if flaw := index_file_damage(file, through=last):
                raise DamagedFile(path, flaw)


class IndexWriter:
    """Writer of the index; added documents are durable after `commit`."""

    @panics_as_errors()
    def __init__(self, directory: Path, shard: int, config: PageProcessingConfig, state: ShardState):
        """Open the index as of `state`; newer generations and batches are deleted."""
        self._directory, self._shard, self._config = directory, shard, config
        self._schema = document_schema(config.store_text)
        self.generation, self.bytes = state.generation, state.generation_bytes
        home = directory / f"shard-{shard}"
        home.mkdir(parents=True, exist_ok=True)
        sync_directory(directory)
        for path in list(home.iterdir()):
            if path.is_dir() and path.name.isdigit():
                if int(path.name) < state.generation:
                    IndexSnapshots(path).undo_interrupted_document_deletion()
                elif int(path.name) > state.generation or not state.generation_bytes:
                    remove_index_directory(path)
        snapshots = IndexSnapshots(self._generation_directory)
        restored = snapshots.restore(state.batch)
        if not restored:
            snapshots.delete_unlisted_files()
        self._open()
        if not restored:
            self._delete_newer_than(state.batch)
        if self._outdated:
            self.begin_generation()
        self._committed = state.batch
        self.save_snapshot(state.batch)

    @property
    def _generation_directory(self) -> Path:
        return _generation_path(self._directory, self._shard, self.generation)

    def _open(self) -> None:
        path = self._generation_directory
        path.mkdir(exist_ok=True)
        self._snapshots = IndexSnapshots(path)
        self._outdated = False
        try:
            self._index = tantivy.Index(self._schema, str(path))
        except ValueError:
            if not tantivy.Index.exists(str(path)):
                raise
            # An older fieldmouse wrote it, with fewer fields: leave it as it is and begin the next one.
            self._index = tantivy.Index.open(str(path))
            self._outdated = True
        self._writer = self._index.writer(heap_size=self._config.index_heap, num_threads=1)
        self._unsaved = self._finished = False
        sync_directory(path.parent)

    def _delete_newer_than(self, batch: int) -> None:
        query = tantivy.Query.range_query(
            self._index.schema,
            "batch",
            tantivy.FieldType.Unsigned,
            batch,
            None,
            include_lower=False,
            use_inverted_index=True,
        )
        self._index.reload()
        if self._index.searcher().search(query, limit=1, count=False).hits:
            self._writer.delete_documents_by_query(query)
            self._writer.commit()

    def add_document(self, *, url: str, key: int, title: str, text: str, batch: int, canonical: str) -> None:
        # Any document is accepted; only the writer's disk can fail.
        with storage_errors(self._generation_directory, ValueError), panics_as_errors():
            self._writer.add_document(_build_document(url, key, title, text, batch, canonical))
        self._unsaved = True
        self.bytes += len(text) + len(url) + len(title)

    def delete_version(self, key: int, batch: int) -> None:
        """Delete this batch's version of a page. Older versions stay, because the batch may be undone."""
        with storage_errors(self._generation_directory, ValueError), panics_as_errors():
            self._writer.delete_documents_by_query(version_query(self._schema, key, batch))
        self._unsaved = True

    @panics_as_errors()
    def commit(self) -> None:
        """Make all added documents durable; begin a new generation if this one is full."""
        if self._unsaved:
            self._writer.commit()
            self._unsaved = False
        if self.bytes >= self._config.generation:
            self.begin_generation()

    @panics_as_errors()
    def begin_generation(self) -> None:
        """Finish this generation, whose documents are committed, and open the next, empty one."""
        self._writer.wait_merging_threads()
        # tantivy does not sync the directory after renaming its newest list.
        sync_directory(self._generation_directory)
        self.generation += 1
        self.bytes = 0
        self._open()

    def save_snapshot(self, batch: int) -> None:
        """Keep the committed documents as the snapshot of `batch`, so that it can be restored."""
        self._kept_batch: int | None = batch
        if not self._snapshots.save(batch):
            self._kept_batch = None
            sync_directory(self._generation_directory)

    def delete_snapshots_before(self, batch: int) -> None:
        """Delete the snapshots older than `batch`, which is committed."""
        self._committed = batch
        self._snapshots.drop_snapshots_before(batch)
        if self.generation:
            shutil.rmtree(_generation_path(self._directory, self._shard, self.generation - 1) / KEPT, True)

    @panics_as_errors()
    def finish(self) -> None:
        """Wait for the merges. No documents can be added afterwards."""
        self._writer.wait_merging_threads()
        self._finished = True
        if self._kept_batch is not None and not self._unsaved:
            # The merged files hold the same documents; keep them for the next process that opens the index.
            self._snapshots.save(self._kept_batch)
            self._snapshots.drop_snapshots_before(self._committed)
        self._snapshots.delete_unlisted_files()
        sync_directory(self._generation_directory)

    def close(self) -> None:
        """Close the index: its writer's threads neither merge nor delete afterwards."""
        if not self._finished:
            self._finished = True
            with suppress(ValueError), panics_as_errors():  # documents that failed to commit do not count
                self._writer.wait_merging_threads()


def _build_document(url: str, key: int, title: str, text: str, batch: int, canonical: str = "") -> tantivy.Document:
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
    for name in searchable_host_names(authority_of(url)):
        document.add_text("host", name)
    return document


def version_query(shape: tantivy.Schema, key: int, batch: int) -> tantivy.Query:
    """Query for the version of a page in a batch."""
    # Deletion by term would search for a signed number and match nothing.
    terms = (("key", key), ("batch", batch))
    return tantivy.Query.boolean_query(
        [(tantivy.Occur.Must, tantivy.Query.term_query(shape, field, value)) for field, value in terms]
    )


def _generation_path(directory: Path, shard: int, number: int) -> Path:
    return directory / f"shard-{shard}" / f"{number:05}"


_HEAP_BYTES = 15 << 20  # bytes; tantivy's minimum


class PastVersionDocument(NamedTuple):
    """A searchable text; `url` is its URL or starts with it."""

    url: str
    title: str
    text: str


@panics_as_errors()
def write_scratch_index(directory: Path, documents: Iterable[PastVersionDocument]) -> int:
    """Write an index that `search_crawls` can read like a crawl; return the number of documents."""
    path, count = directory / "index" / "shard-0" / "00000", 0
    path.mkdir(parents=True)
    index = tantivy.Index(document_schema(), str(path))
    writer = index.writer(heap_size=_HEAP_BYTES, num_threads=1)
    for count, (name, title, text) in enumerate(documents, 1):
        writer.add_document(_build_document(name, count, title, text, batch=1))
    writer.commit()
    writer.wait_merging_threads()
    return count
