"""URLs a host says it has: sitemaps, sitemap indexes, feeds and plain lists.

Read as a stream, packed or not, and left alone after `limit_urls` URLs or
`limit_bytes` bytes: a sitemap of a billion entries costs what the first fifty
thousand cost. Declared entities are refused, since that is how a kilobyte of XML
grows to gigabytes. What was read before a file broke is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.parsers import expat

import msgspec
from isal import isal_zlib

from fieldmouse.url import Url, resolve

URLS = 50_000  # in one sitemap, as sitemaps.org has it
BYTES = 50 * 1024 * 1024
DEPTH = 32  # of elements; a sitemap has three
TEXT = 4096  # characters of one URL
PIECE = 64 * 1024
TOKEN = 4 * PIECE  # no tag or comment of a sane sitemap is as long


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One URL, and when it last changed in the host's own words (W3C date or RFC 822), or ""."""

    url: Url
    lastmod: str = ""


class Sitemap(msgspec.Struct, frozen=True):
    """What a file named: pages, and further sitemaps if it is an index."""

    urls: list[Entry]
    sitemaps: list[Entry]
    truncated: bool = False  # there was more than we read
    trouble: str = ""  # why reading ended early


def read(body: bytes, base: Url | str, *, limit_urls: int = URLS, limit_bytes: int = BYTES) -> Sitemap:
    """Read a sitemap found at `base`; never raises, whatever the file holds.

    >>> found = read(b"<urlset><url><loc>/a</loc></url></urlset>", "http://example.org/sitemap.xml")
    >>> [entry.url for entry in found.urls]
    ['http://example.org/a']
    """
    reader = _Reader(base, limit_urls)
    pieces = _pieces(body, limit_bytes)
    try:
        first = next(pieces, b"")
        if first.lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n\0")[:1] == b"<":
            _read_xml(first, pieces, reader)
        else:
            _read_lines(first, pieces, reader)
    except _Enough:
        return Sitemap(reader.urls, reader.sitemaps, truncated=True, trouble="more than the limit")
    except (expat.ExpatError, _Broken) as error:
        return Sitemap(reader.urls, reader.sitemaps, trouble=str(error))
    return Sitemap(reader.urls, reader.sitemaps)


class _Enough(Exception):
    """A limit is reached."""


class _Broken(Exception):
    """No sense in reading on."""


def _pieces(body: bytes, limit: int) -> Iterator[bytes]:
    """The file unpacked, a piece at a time."""
    plain = _gunzip(body) if body[:2] == b"\x1f\x8b" else _slices(body)
    for piece in plain:
        yield piece[:limit]
        limit -= len(piece)
        if limit < 0:
            raise _Enough


def _slices(body: bytes) -> Iterator[bytes]:
    return (body[start : start + PIECE] for start in range(0, len(body), PIECE))


def _gunzip(body: bytes) -> Iterator[bytes]:
    stream = isal_zlib.decompressobj(31)
    try:
        for packed in _slices(body):
            while packed and not stream.eof:
                yield stream.decompress(packed, PIECE)
                packed = stream.unconsumed_tail
        while not stream.eof and (piece := stream.decompress(b"", PIECE)):
            yield piece
    except isal_zlib.error as error:  # type: ignore[misc]  # its stub calls it an instance
        raise _Broken(str(error)) from None
    if not stream.eof:
        raise _Broken("the gzip file ends early")


def _read_xml(first: bytes, pieces: Iterator[bytes], reader: _Reader) -> None:
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    parser.EntityDeclHandler = reader.entity
    fed = 0
    piece: bytes | None = first.lstrip() if first[:1] in b" \t\r\n" else first
    while piece is not None:
        parser.Parse(piece, False)
        fed += len(piece)
        # An older expat scans an unfinished token again with every piece; nobody needs one this long.
        if fed - parser.CurrentByteIndex > TOKEN:
            raise _Broken("a tag or a comment without end")
        piece = next(pieces, None)
    parser.Parse(b"", True)


def _read_lines(first: bytes, pieces: Iterator[bytes], reader: _Reader) -> None:
    """One URL a line, UTF-8."""
    piece: bytes | None = first.removeprefix(b"\xef\xbb\xbf")
    rest = b""
    while piece is not None:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            reader.line(line)
        rest = rest[:TEXT]
        piece = next(pieces, None)
    reader.line(rest)


class _Reader:
    """Collects entries from elements as they open and close.

    `loc` counts inside `url` and `sitemap` only: images and videos have one too.
    Prefixes are ignored, so `sm:url` is a `url`, but `image:loc` sits in `image:image`.
    """

    def __init__(self, base: Url | str, limit: int):
        self.urls: list[Entry] = []
        self.sitemaps: list[Entry] = []
        self._base, self._limit = base, limit
        self._open: list[str] = []
        self._words: list[str] | None = None  # the text of the element we are in, if we want it
        self._room = 0
        self._loc = self._lastmod = ""

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._open) >= DEPTH:
            raise _Broken("elements too deep")
        name = name[name.find(":") + 1 :]
        parent = self._open[-1] if self._open else ""
        self._open.append(name)
        if name in _ENTRIES:
            self._loc = self._lastmod = ""
        elif parent in _ENTRIES and name in _TEXTS:
            self._words, self._room = [], TEXT
            if name == "link" and "href" in attributes and attributes.get("rel", "alternate") == "alternate":
                self._loc = self._loc or attributes["href"][: TEXT + 1]

    def text(self, words: str) -> None:
        if self._words is not None and self._room > 0:
            self._words.append(words[: self._room + 1])
            self._room -= len(words)

    def end(self, name: str) -> None:
        name = self._open.pop()
        if self._words is not None and name in _TEXTS:
            words = "".join(self._words).strip()
            self._words = None
            if name in _LOCS:
                self._loc = self._loc or words
            else:
                self._lastmod = words[:64]
        elif name in _ENTRIES:
            self._words = None
            self._add(self.sitemaps if name == "sitemap" else self.urls, self._loc, self._lastmod)

    def entity(self, *_: object) -> None:
        raise _Broken("declares entities")

    def line(self, line: bytes) -> None:
        text = line.strip().decode("utf-8", "replace")
        if text.startswith(("http://", "https://")):
            self._add(self.urls, text, "")

    def _add(self, entries: list[Entry], loc: str, lastmod: str) -> None:
        url = resolve(loc, self._base) if loc and len(loc) <= TEXT else None
        if url is None:
            return
        if len(self.urls) + len(self.sitemaps) >= self._limit:
            raise _Enough
        entries.append(Entry(url, lastmod))


_ENTRIES = frozenset(("url", "sitemap", "item", "entry"))  # of sitemaps, indexes, RSS and Atom
_LOCS = frozenset(("loc", "link"))
_TEXTS = _LOCS | {"lastmod", "pubDate", "updated"}
