"""Sections `[index]`, `[archive]`, `[plugins]` and `[storage]`: processing and storage of pages."""

from __future__ import annotations

from typing import Annotated

from fieldmouse.named import NAME
from fieldmouse.settings import kinds
from fieldmouse.settings.kinds import About
from fieldmouse.settings.sections import Section

_named = kinds.shaped(f"({NAME.pattern})?", '"package.module:name", or "" for none')
_prefix = kinds.shaped(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", "a file name of letters, digits, dots and dashes")
_shards = kinds.count_up_to(256)
_heap = kinds.size_between(15 << 20, 4000 << 20, 'a size from "15MiB" to "4000MiB"')


class IndexSection(Section, frozen=True):
    """Parsing and full text."""

    shards: Annotated[
        int, About(_shards, "worker processes; 0 for one per core; fixed when the crawl is made")
    ] = 0
    heap: Annotated[int, About(_heap, "memory of each worker's index writer; 15MiB to 4000MiB")] = 48 << 20
    sitemaps: Annotated[bool, About(kinds.FLAG, "read the sitemaps that robots.txt files name")] = True
    feeds: Annotated[
        bool, About(kinds.FLAG, "read the feeds (RSS, Atom) that pages name, a few of each host")
    ] = True
    store_text: Annotated[bool, About(kinds.FLAG, "keep the text of pages in the index, for snippets")] = True


class ArchiveSection(Section, frozen=True):
    """The WARC files."""

    warc_size: Annotated[int, About(kinds.SIZE, "start a new file after this size")] = 1 << 30
    prefix: Annotated[str, About(_prefix, "prefix of file names")] = "fieldmouse"


class PluginsSection(Section, frozen=True):
    """Your own code, by its import path (see docs/guides)."""

    extract: Annotated[str, About(_named, "function that makes rows from a page, for `export --items`")] = ""
    admit: Annotated[str, About(_named, "function that decides whether to follow a link")] = ""
    readers: Annotated[
        dict[str, str], About(kinds.READERS, "functions for documents of other MIME types")
    ] = {}  # noqa: RUF012 (msgspec copies it)
    sign: Annotated[str, About(_named, "function that returns request headers, for logins and tokens")] = ""
    sign_hosts: Annotated[
        tuple[str, ...],
        About(kinds.SEEDS, "hosts that get these headers, with their scheme; none for those of the seeds"),
    ] = ()
    keep_signatures: Annotated[
        bool,
        About(
            kinds.FLAG,
            "write its headers, and secret ones of `network.headers`, into WARC records as they are",
        ),
    ] = False
    patience: Annotated[
        float, About(kinds.SOME_TIME, "longest time of one call; its result is lost after that")
    ] = 5.0
    items: Annotated[int, About(kinds.SIZE, "most bytes of rows of one page; a page with more has none")] = (
        1 << 20
    )


class StorageSection(Section, frozen=True):
    """Durability."""

    checkpoint: Annotated[
        float,
        About(kinds.DURATION, "time between checkpoints; a kill repeats the fetches since the last one"),
    ] = 5.0
    min_free: Annotated[
        int, About(kinds.SIZE, "stop, ready to resume, when the disk has less space than this")
    ] = 1 << 30
