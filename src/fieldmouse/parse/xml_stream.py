"""Tolerant streaming XML parser for sitemaps and feeds.

Sitemaps and feeds come from templates and are rarely validated. A strict parser fails at the first `&`
that is not `&amp;`, at an unknown encoding, at a newline before `<?xml`; and often the rest of the file is
fine. Here an error costs only the place where it occurs. Nothing external is loaded, and a document that
declares entities is rejected, since these can expand a kilobyte to gigabytes.

Memory is limited to one unfinished tag and the names of open elements. The work is bounded by the bytes
and, since an error takes as long as an element, by the number of tags.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Protocol

from fieldmouse.parse.charset import BOMS, codec_for_label

MAX_DEPTH = 256  # of elements; a sitemap has three, a feed that quotes a page some more
MAX_TAGS = 1_000_000  # of one file, valid or not: three seconds' work
MAX_TAG_LENGTH = 64 * 1024  # characters of one tag; no sane one is that long

# A `>` may be inside quotes; if the quotes do not close, the tag ends at the first one.
_tag = re.compile(r"<(/?)([^\s/<>!?=\"'][^\s/<>]*+)((?:[^<>\"']++|\"[^\"<]*+\"|'[^'<]*+')*+>|[^<>]*+>)").match
_declaration = re.compile(r"<![^<>\[]*+[\[>]").match
_attribute = re.compile(r"([^\s=/\"'<>]++)\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)'|([^\s\"'>]++))").findall
_reference = re.compile(r"&(?:#([0-9]{1,7})|#[xX]([0-9A-Fa-f]{1,6})|(amp|lt|gt|quot|apos));").sub
_encoding = re.compile(rb"\s*<\?xml[^>]*?\sencoding\s*=\s*[\"']([A-Za-z0-9._:\-]+)[\"']").match
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_ENOUGH = 1024  # bytes needed to detect an encoding
_ZEROS = ([True, False, True, False], [False, True, False, True])  # of ASCII in UTF-16
_SECTIONS = (("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>"))


class BrokenFile(Exception):
    """The file cannot be read further."""


class XmlListener(Protocol):
    """Receiver of parse events; names have no prefix and are in lower case."""

    def start(self, name: str, attributes: str) -> None: ...

    def end(self, name: str) -> None: ...

    def text(self, text: str) -> None: ...


def decode_pieces(pieces: Iterator[bytes]) -> Iterator[str]:
    """Decode the pieces of a file in its detected encoding, without a byte order mark."""
    first, ended = b"", None
    try:
        while len(first) < _ENOUGH and (piece := next(pieces, None)) is not None:
            first += piece
    except BrokenFile as error:
        ended = error
    decoder = codecs.getincrementaldecoder(detect_encoding(first))("replace")
    try:
        yield decoder.decode(first).lstrip("\ufeff")
        if ended is not None:
            raise ended
        for piece in pieces:
            yield decoder.decode(piece)
        yield decoder.decode(b"", True)
    except UnicodeError as error:  # charsets with escapes have errors that cannot be replaced
        raise BrokenFile(f"cannot be decoded: {error}") from None


def detect_encoding(first: bytes) -> str:
    """Detect the codec of a file from its first piece: byte order mark, zero bytes, XML declaration.

    For an unknown name (`ANSI`, `utf8mb4`) and bytes that are not UTF-8 it is windows-1252.
    """
    for mark, codec in BOMS:
        if first.startswith(mark):
            return codec
    zeros = [not byte for byte in first[:4]]
    if zeros in _ZEROS:
        return "utf-16-be" if zeros[0] else "utf-16-le"
    declared = _encoding(first)
    codec = codec_for_label(declared[1].decode("ascii")) if declared else ""
    if codec and not codec.startswith("utf"):
        return codec
    try:
        codecs.getincrementaldecoder("utf-8")().decode(first)
    except UnicodeDecodeError:
        return "utf-8" if codec else "cp1252"
    return "utf-8"


def unescape(text: str) -> str:
    """Replace the references in a text; invalid ones stay.

    >>> unescape("/?a=1&amp;b=2&c=3&#x26;&nbsp;")
    '/?a=1&b=2&c=3&&nbsp;'
    """
    return _reference(_referenced_character, text) if "&" in text else text


def _referenced_character(match: re.Match[str]) -> str:
    if match[3]:
        return _NAMED[match[3]]
    code = int(match[1]) if match[1] else int(match[2], 16)
    return chr(code) if 0 < code < 0xD800 or 0xDFFF < code < 0x110000 else "\ufffd"


def parse_attributes(written: str) -> dict[str, str]:
    """Parse the attributes of a tag: names as written, the first of each name.

    >>> parse_attributes(' rel="self" href=/a?b&amp;c>')
    {'rel': 'self', 'href': '/a?b&c'}
    """
    parsed: dict[str, str] = {}
    for name, *values in _attribute(written):
        parsed.setdefault(name, unescape("".join(values)))
    return parsed


class XmlStreamParser:
    """Push parser that calls a listener."""

    def __init__(self, listener: XmlListener):
        self._listener = listener
        self._open: list[str] = []
        self._rest = ""  # a possible beginning of markup
        self._until = ""  # end of the current comment, section or instruction
        self._begun = False
        self._tags = 0

    def feed(self, text: str) -> None:
        text_so_far = self._rest + text
        at = 0
        while True:
            if self._until:
                at = self._skip_section(text_so_far, at)
                if self._until:
                    return
            place = text_so_far.find("<", at)
            if place < 0:
                self._buffer_rest(text_so_far[at:])
                return
            if place > at:
                self._listener.text(unescape(text_so_far[at:place]))
            self._tags += 1
            if self._tags > MAX_TAGS:
                raise BrokenFile("too many tags")
            tag = _tag(text_so_far, place)
            if tag is not None:
                self._handle_tag(tag)
                at = tag.end()
                continue
            at = self._handle_other_markup(text_so_far, place)
            if at < 0:
                self._buffer_rest(text_so_far[place:])
                return

    def close(self) -> None:
        """End the file; raises `BrokenFile` if it is incomplete."""
        if self._open or self._until or self._rest.startswith("<") or not self._begun:
            raise BrokenFile("the file ends early")

    def _buffer_rest(self, rest: str) -> None:
        if len(rest) > MAX_TAG_LENGTH:
            if rest.startswith("<"):
                raise BrokenFile("a tag without end")
            self._listener.text(unescape(rest))
            rest = ""
        self._rest = rest

    def _skip_section(self, text_so_far: str, at: int) -> int:
        """Continue inside a section; at its end `_until` becomes empty."""
        end = text_so_far.find(self._until, at)
        stop = end if end >= 0 else max(at, len(text_so_far) - len(self._until) + 1)
        if self._until == "]]>":
            self._listener.text(text_so_far[at:stop])
        if end < 0:
            self._rest = text_so_far[stop:]
            return stop
        stop += len(self._until)
        self._until = ""
        return stop

    def _handle_other_markup(self, text_so_far: str, place: int) -> int:
        """Handle markup that is not a tag; return where to continue, or -1 if more data is needed."""
        for begin, end in _SECTIONS:
            if text_so_far.startswith(begin, place):
                self._until = end
                return place + len(begin)
            if begin.startswith(text_so_far[place : place + len(begin)]):
                return -1
        declaration = _declaration(text_so_far, place)
        if declaration is not None:
            if declaration[0].startswith("<!ENTITY"):
                raise BrokenFile("declares entities")
            return declaration.end()
        if text_so_far.find("<", place + 1) < 0 and text_so_far.find(">", place) < 0:
            return -1
        self._listener.text("<")
        return place + 1

    def _handle_tag(self, tag: re.Match[str]) -> None:
        name = tag[2].rpartition(":")[2].lower()
        if not tag[1]:
            if len(self._open) >= MAX_DEPTH:
                raise BrokenFile("elements too deep")
            if not self._open and name == "html":
                raise BrokenFile("a page of HTML")
            self._begun = True
            self._open.append(name)
            self._listener.start(name, tag[3])
            if not tag[3].endswith("/>"):
                return
        elif name not in self._open:
            return  # closes nothing
        # Elements left open inside end with it.
        while True:
            inner = self._open.pop()
            self._listener.end(inner)
            if inner == name:
                return
