"""Parser of sitemaps, sitemap indexes, feeds (RSS, Atom, JSON Feed) and plain lists of URLs.

The file is read as a stream, compressed or not, up to `limit_urls` URLs or `limit_bytes` bytes: a sitemap
of a billion entries costs as much as its first fifty thousand. An invalid entry is skipped; if the file
breaks, the entries before are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

import msgspec
from isal import isal_zlib

from fieldmouse.http.decoding import FIRST_PIECE, MAX_GZIP_MEMBERS
from fieldmouse.parse.xml_stream import BrokenFile, XmlStreamParser, decode_pieces, parse_attributes
from fieldmouse.url import Url, resolve

MAX_URLS = 50_000  # in one sitemap, the limit of sitemaps.org
MAX_BYTES = 50 * 1024 * 1024
MAX_JSON = 2 * 1024 * 1024  # characters of a JSON Feed, which is read as a whole
MAX_URL_LENGTH = 4096  # characters of one URL
PIECE_SIZE = 64 * 1024

_XML_ROOT = re.compile(r"<(?:\w+:)?(?:urlset|sitemapindex|rss|feed|RDF)\b").search
_BLANK = " \t\r\n\f\v\0\u00a0\ufeff"


class SitemapEntry(msgspec.Struct, frozen=True, array_like=True):
    """A URL and its last change as written by the host (W3C date or RFC 822), or ""."""

    url: Url
    lastmod: str = ""


class Sitemap(msgspec.Struct, frozen=True):
    """URLs in a file: pages, and further sitemaps if it is an index."""

    urls: list[SitemapEntry]
    sitemaps: list[SitemapEntry]
    truncated: bool = False  # the file has more than was read
    error: str = ""  # why reading ended early


def read_sitemap(
    body: bytes, base: Url | str, *, limit_urls: int = MAX_URLS, limit_bytes: int = MAX_BYTES, cut: bool = False
) -> Sitemap:
    """Read a sitemap or feed found at `base`; never raises.

    If the file was `cut`, its last line may be half a URL and is dropped.

    >>> found = read_sitemap(b"<urlset><url><loc>/a</loc></url></urlset>", "http://example.org/sitemap.xml")
    >>> [entry.url for entry in found.urls]
    ['http://example.org/a']
    """
    entries = _Entries(base, limit_urls)
    try:
        _read_entries(decode_pieces(_decompressed_pieces(body, limit_bytes)), entries, cut)
    except _LimitReached:
        return Sitemap(entries.urls, entries.sitemaps, truncated=True, error="more than the limit")
    except BrokenFile as error:
        return Sitemap(entries.urls, entries.sitemaps, error=str(error))
    return Sitemap(entries.urls, entries.sitemaps)


class _LimitReached(BrokenFile):
    """A limit was reached."""


def _decompressed_pieces(body: bytes, limit: int) -> Iterator[bytes]:
    """Yield the decompressed file in pieces."""
    slices = (body[start : start + PIECE_SIZE] for start in range(0, len(body), PIECE_SIZE))
    for piece in _gunzip(body) if body[:2] == b"\x1f\x8b" else slices:
        yield piece[:limit]
        limit -= len(piece)
        if limit < 0:
            raise _LimitReached


def _gunzip(body: bytes) -> Iterator[bytes]:
    """Yield all members of a gzip file; anything behind the last one is padding."""
    at, trouble, members = 0, "", 0
    while not trouble and body[at : at + 2] == b"\x1f\x8b":
        members += 1
        if members > MAX_GZIP_MEMBERS:
            raise BrokenFile(f"more than {MAX_GZIP_MEMBERS:,} gzip members")
        stream = isal_zlib.decompressobj(31)
        sip = FIRST_PIECE  # grows with the member: the rest behind it is copied
        try:
            while not stream.eof and at < len(body):
                packed = body[at : at + sip]
                at, sip = at + len(packed), min(2 * sip, PIECE_SIZE)
                while packed and not stream.eof:
                    yield stream.decompress(packed, PIECE_SIZE)
                    packed = stream.unconsumed_tail
            while not stream.eof and (piece := stream.decompress(b"", PIECE_SIZE)):
                yield piece
        except isal_zlib.error as error:  # type: ignore[misc]  # its stub calls it an instance
            trouble = str(error)
        else:
            trouble = "" if stream.eof else "the gzip file ends early"
        at -= len(stream.unused_data)
    if trouble:
        raise BrokenFile(trouble)


def _read_entries(text: Iterator[str], entries: _Entries, cut: bool) -> None:
    # The first pieces may be empty: an empty gzip member, a byte order mark, blank lines.
    first = next((piece for piece in text if piece.strip(_BLANK)), "").lstrip(_BLANK)
    text = chain((first,), text)
    if first.startswith("<") or _XML_ROOT(first):
        stream = XmlStreamParser(_EntryCollector(entries))
        for piece in text:
            stream.feed(piece)
        stream.close()
    elif first.startswith("{"):
        _read_json(text, entries)
    else:
        _read_lines(text, entries, cut)


def _read_lines(text: Iterator[str], entries: _Entries, cut: bool) -> None:
    """Read one URL per line."""
    rest = ""
    for piece in text:
        *lines, rest = re.split(r"[\r\n]", rest + piece)
        for line in lines:
            entries.add_line(line)
        rest = rest[: MAX_URL_LENGTH + 1]
    if not cut:
        entries.add_line(rest)


class _JsonItem(msgspec.Struct):
    url: str = ""
    date_modified: str = ""
    date_published: str = ""


class _JsonFeed(msgspec.Struct):
    version: str = ""
    items: list[msgspec.Raw] = []


def _read_json(text: Iterator[str], entries: _Entries) -> None:
    """Read a JSON Feed (jsonfeed.org); an invalid item is skipped."""
    pieces, size = list[str](), 0
    for piece in text:
        pieces.append(piece)
        size += len(piece)
        if size > MAX_JSON:
            raise BrokenFile(f"more than {MAX_JSON:,} characters of JSON")
    try:
        feed = msgspec.json.decode("".join(pieces).encode("utf-8", "replace"), type=_JsonFeed)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BrokenFile(f"not a JSON Feed: {error}") from None
    if "jsonfeed.org" not in feed.version:
        raise BrokenFile("JSON, but not a JSON Feed")
    for raw in feed.items:
        try:
            item = msgspec.json.decode(raw, type=_JsonItem)
        except (msgspec.MsgspecError, RecursionError):
            continue
        entries.add(entries.urls, item.url.strip(), item.date_modified or item.date_published)


class _Entries:
    """The URLs found, up to a limit."""

    def __init__(self, base: Url | str, limit: int):
        self.urls: list[SitemapEntry] = []
        self.sitemaps: list[SitemapEntry] = []
        self.base, self._limit = base, limit

    def add(self, entries: list[SitemapEntry], loc: str, lastmod: str, base: Url | str | None = None) -> None:
        url = resolve(loc, base or self.base) if loc and len(loc) <= MAX_URL_LENGTH else None
        if url is None:
            return
        if len(self.urls) + len(self.sitemaps) >= self._limit:
            raise _LimitReached
        entries.append(SitemapEntry(url, lastmod[:64]))

    def add_line(self, line: str) -> None:
        line = line.strip(_BLANK)
        if line[:8].lower().startswith(("http://", "https://")):
            self.add(self.urls, line, "")


class _EntryCollector:
    """Collects entries from elements as they open and close.

    Only direct children of an entry count: images, videos, quoted sources and other languages have their
    own `loc`, `url` or `link`. The kind of the entry determines which children hold URL and date.
    """

    def __init__(self, entries: _Entries):
        self._entries = entries
        self._depth = 0
        self._entry, self._inside = "", 0  # kind of the current entry, and the depth of its children
        self._wanted: list[str] | None = None  # text of the current element, if it is wanted
        self._space_left = 0
        self._place = self._link = self._permalink = self._lastmod = ""
        self._bases: list[tuple[int, Url]] = []  # xml:base with the depth of its element

    def start(self, name: str, written: str) -> None:
        self._depth += 1
        if "xml:base" in written:
            href = parse_attributes(written).get("xml:base", "")[: MAX_URL_LENGTH + 1]
            if (base := resolve(href, self._base())) is not None:
                self._bases.append((self._depth, base))
        if not self._entry:
            if name in _ENTRIES:
                self._entry, self._inside = name, self._depth + 1
                self._place = self._link = self._permalink = self._lastmod = ""
                if name == "item" and "about" in written:
                    self._permalink = parse_attributes(written).get("rdf:about", "")[: MAX_URL_LENGTH + 1]
        elif self._depth == self._inside and name in _ENTRIES[self._entry]:
            self._wanted, self._space_left = [], MAX_URL_LENGTH
            if name == "link" and "href" in written:
                values = parse_attributes(written)
                href = values.get("href", "").strip()[: MAX_URL_LENGTH + 1]
                if values.get("rel", "alternate").lower() == "alternate" and href and not self._link:
                    # At once: the base of a link may differ from that of its entry.
                    self._link = resolve(href, self._base()) or ""
            elif name == "guid" and parse_attributes(written).get("isPermaLink", "true").lower() == "false":
                self._wanted = None

    def text(self, text: str) -> None:
        if self._wanted is not None and self._depth == self._inside and self._space_left >= 0:
            self._wanted.append(text[: self._space_left + 1])
            self._space_left -= len(text)

    def end(self, name: str) -> None:
        if self._wanted is not None and self._depth == self._inside:
            self._set_field(name, "".join(self._wanted).strip())
            self._wanted = None
        elif self._entry and self._depth == self._inside - 1:
            listed = self._entries.sitemaps if self._entry == "sitemap" else self._entries.urls
            loc = self._place or self._link or self._permalink
            self._entries.add(listed, loc, self._lastmod, self._base())
            self._entry = ""
        while self._bases and self._bases[-1][0] >= self._depth:
            self._bases.pop()
        self._depth -= 1

    def _set_field(self, name: str, words: str) -> None:
        if name in ("loc", "link"):
            self._place = self._place or words
        elif name == "guid":
            self._permalink = words if words.lower().startswith(("http://", "https://")) else self._permalink
        elif not self._lastmod:
            self._lastmod = words[:64]

    def _base(self) -> Url | str:
        return self._bases[-1][1] if self._bases else self._entries.base


_ENTRIES = {  # Entry elements of sitemaps, indexes, RSS and Atom, each with the children to read.
    "url": frozenset(("loc", "lastmod")),
    "sitemap": frozenset(("loc", "lastmod")),
    "item": frozenset(("link", "guid", "pubdate", "date")),
    "entry": frozenset(("link", "updated", "published", "modified", "issued")),
}
