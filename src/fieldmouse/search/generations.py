"""Generations of the full-text index: their snapshots, and read-only access to each page's newest version.

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
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import tantivy

from fieldmouse.errors import CrawlDirError, shell_quoted
from fieldmouse.search.index import has_columns
from fieldmouse.search.snapshot import readable_view
from fieldmouse.search.tantivy_errors import panics_as_errors
from fieldmouse.search.versions import Uint64Array, VersionView, version_numbers
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.url import key_of


class Generation:
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
            self._columns = has_columns(self.index.schema)

    @contextmanager
    def read_errors(self) -> Iterator[None]:
        """Convert read errors to a `CrawlDirError` that names the index."""
        try:
            with panics_as_errors():
                yield
        except PermissionError as trouble:
            raise CrawlDirError(
                f"the index in `{self.path}` cannot be read: {trouble}",
                f"its owner can give you access with `chmod -R a+rX {self.directory}`",
            ) from trouble
        except (ValueError, OSError) as trouble:
            raise CrawlDirError(
                f"the index in `{self.path}` cannot be read: {trouble}",
                f"`fieldmouse doctor {shell_quoted(self.directory)}` lists all damage,"
                " and `--repair` rebuilds the index",
            ) from trouble

    def close(self) -> None:
        self._resources.close()

    def all_addresses(self) -> list[tantivy.DocAddress]:
        searcher = self.searcher
        if not searcher.num_docs:
            return []
        hits = searcher.search(tantivy.Query.all_query(), limit=searcher.num_docs, count=False).hits
        return [address for _, address in hits]

    def keys(self, addresses: Sequence[tantivy.DocAddress]) -> Uint64Array:
        """The page keys of these documents."""
        return keys_and_batches(self.searcher, addresses, columns=self._columns, key_seed=self._key_seed)[0]

    def version_numbers(self, addresses: Sequence[tantivy.DocAddress]) -> Uint64Array:
        """The version numbers of these documents; the greater is the newer."""
        return version_numbers(batches_of(self.searcher, addresses, columns=self._columns), self.shard)

    def _key_seed(self) -> int:
        return CrawlDir.open(self.directory).identity.key_seed

    def are_newest(self, addresses: Sequence[tantivy.DocAddress], copies: VersionView) -> list[bool]:
        """For each document, whether it is the newest version of its page."""
        if not copies.has_entries or not addresses:
            return [True] * len(addresses)
        newest: list[bool] = (
            copies.newest_versions(self.keys(addresses).tolist()) <= self.version_numbers(addresses)
        ).tolist()
        return newest

    def url(self, address: tantivy.DocAddress) -> str:
        return field_text(self.searcher.doc(address), "url")


def keys_and_batches(
    searcher: tantivy.Searcher,
    addresses: Sequence[tantivy.DocAddress],
    *,
    columns: bool,
    key_seed: Callable[[], int],
) -> tuple[Uint64Array, list[int]]:
    """The keys and the batches of documents."""
    if columns:
        keys = [int(key or 0) for key in searcher.fast_field_values("key", list(addresses))]
    else:
        seed = key_seed()
        keys = [key_of(field_text(searcher.doc(address), "url"), seed) for address in addresses]
    return np.array(keys, np.uint64), batches_of(searcher, addresses, columns=columns)


def batches_of(
    searcher: tantivy.Searcher, addresses: Sequence[tantivy.DocAddress], *, columns: bool
) -> list[int]:
    if not columns:  # written by an older fieldmouse, which fetched no page twice; later versions are newer
        return [0] * len(addresses)
    return [int(batch or 0) for batch in searcher.fast_field_values("batch", list(addresses))]


@contextmanager
def open_generations(directory: Path) -> Iterator[tuple[list[Generation], VersionView]]:
    """Open all generations of the crawl in `directory`, and its version table."""
    # Table first: a version that becomes old in between is still there, and so is the newer one.
    copies = VersionView(directory / "index")
    generations: list[Generation] = []
    try:
        paths = sorted((directory / "index").glob("shard-*/*"))
        generations.extend(Generation(directory, path) for path in paths if tantivy.Index.exists(str(path)))
        yield generations, copies
    finally:
        for generation in generations:
            generation.close()
        copies.close()


def field_text(document: tantivy.Document, field: str) -> str:
    value = document.get_first(field)
    if value is None:
        return ""
    return value if isinstance(value, str) else bytes(value).decode()
