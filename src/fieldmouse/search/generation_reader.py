"""Generations of the full-text index, opened for reading.

Readers take no lock: `snapshot.py` says which files of a generation count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import tantivy

from fieldmouse.errors import CrawlDirError, shell_quoted
from fieldmouse.search.index import has_key_columns, panics_as_errors
from fieldmouse.search.newest_versions import Uint64Array, VersionView, version_number, version_numbers
from fieldmouse.search.snapshot import readable_view
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.url import key_of


class GenerationReader:
    """One generation of one shard, as of its opening."""

    def __init__(self, directory: Path, path: Path):
        """Raises `CrawlDirError` if the index cannot be read; `directory` is the crawl directory."""
        self.path, self.directory = path, directory
        self.shard = int(path.parent.name.partition("-")[2])
        self._resources = ExitStack()
        with self.convert_read_errors():
            self.index = tantivy.Index.open(str(self._resources.enter_context(readable_view(path))))
            self.index.reload()
            self.searcher = self.index.searcher()
            self._columns = has_key_columns(self.index.schema)

    @contextmanager
    def convert_read_errors(self) -> Iterator[None]:
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

    def document_version(self, address: tantivy.DocAddress) -> int:
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
def open_generations(directory: Path) -> Iterator[tuple[list[GenerationReader], VersionView]]:
    """Open all generations of the crawl in `directory`, and its version table."""
    # Table first: a version that becomes old in between is still there, and so is the newer one.
    copies = VersionView(directory / "index")
    generations: list[GenerationReader] = []
    try:
        paths = sorted((directory / "index").glob("shard-*/*"))
        generations.extend(GenerationReader(directory, path) for path in paths if tantivy.Index.exists(str(path)))
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
