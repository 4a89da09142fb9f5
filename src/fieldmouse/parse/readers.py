"""Readers that turn a response into a `Document`, by MIME type.

Built in are HTML, plain text and sitemaps. Readers of the user (`plugins.readers`) are in the same table,
wrapped in a call that limits their cost.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from msgspec.structs import replace

from fieldmouse.config.worker_config import IndexerConfig
from fieldmouse.http.headers import media_type
from fieldmouse.import_string import load_function
from fieldmouse.parse.charset import decoded, find_charset
from fieldmouse.parse.html import TEXT, TITLE, Document, parse
from fieldmouse.parse.language import guess
from fieldmouse.parse.sitemap import read as read_sitemap
from fieldmouse.plugins.page import Answer, PageText
from fieldmouse.plugins.registry import PluginNames
from fieldmouse.plugins.runner import BadAnswer, Complaint, Onlooker, call, kind_of
from fieldmouse.url import Url

MARKUP = 4 << 20  # bytes of HTML parsed: a tree is about ten times as large as its page
HTML = frozenset(("text/html", "application/xhtml+xml"))
LISTING = "sitemap"
"""The entry for sitemaps and feeds: these are recognized by how they were found, regardless of their type."""


class Reader(Protocol):
    def __call__(self, answer: Answer, config: IndexerConfig) -> Document: ...


def read_html(answer: Answer, config: IndexerConfig) -> Document:
    charset = find_charset(answer.body[:MARKUP], media_type(answer.all("content-type")))
    html, language = markup_of(answer.body, charset), answer.header("content-language")
    page = parse(html, Url(answer.url), language=language, robot=config.robot, charset=charset)
    return replace(page, charset=charset, language=page.language or guess(page.text))


def read_plain(answer: Answer, config: IndexerConfig) -> Document:
    charset = find_charset(answer.body, media_type(answer.all("content-type")), markup=False)
    text = decoded(answer.body[: 4 * TEXT], charset)[:TEXT]
    return Document(base=answer.url, charset=charset, text=text)


def read_listing(answer: Answer, config: IndexerConfig) -> Document:
    """Read a sitemap or feed: it has URLs and no text."""
    listed = read_sitemap(answer.body, answer.url, limit_bytes=config.decoded_limit, cut=answer.cut)
    pages, sitemaps = [entry.url for entry in listed.urls], [entry.url for entry in listed.sitemaps]
    trouble = f"left after {len(pages) + len(sitemaps)} URLs: {listed.trouble}" if listed.trouble else ""
    return Document(base=answer.url, pages=pages, sitemaps=sitemaps, trouble=trouble)


READERS: Mapping[str, Reader] = MappingProxyType(
    {
        "text/html": read_html,
        "application/xhtml+xml": read_html,
        "text/plain": read_plain,
        LISTING: read_listing,
    }
)


class OwnReader:
    """A reader from a plug-in."""

    def __init__(self, name: str, names: PluginNames, onlooker: Onlooker):
        """Load the reader; raises `FieldmouseError` if that fails."""
        self.name, self._patience, self._onlooker = name, names.patience, onlooker
        self._read = load_function(name, "reader", names.path)

    def __call__(self, answer: Answer, config: IndexerConfig) -> Document:
        result = call(
            self.name, self._patience, self._onlooker, lambda: _document(self._read(answer), answer.url)
        )
        return self.without(answer.url, result) if isinstance(result, Complaint) else result

    def without(self, url: str, complaint: Complaint | None = None) -> Document:
        """Return the document of a page that the plug-in did not read."""
        complaint = complaint or Complaint(self.name, "was left out: plug-ins brought workers down")
        return Document(base=url, complaint=str(complaint))


def own_readers(names: PluginNames, onlooker: Onlooker) -> Mapping[str, Reader]:
    """Return the table of readers of a crawl."""
    return {**READERS, **{mime: OwnReader(name, names, onlooker) for mime, name in names.readers.items()}}


def _document(answer: object, url: str) -> Document:
    """Validate the result of a plug-in and cut its texts to the stored length."""
    if answer is None:
        return Document(base=url)
    if isinstance(answer, str):
        answer = PageText(answer)
    if not isinstance(answer, PageText):
        raise BadAnswer(f"gave {kind_of(answer)} and not a `PageText` or text")
    words = (answer.text, answer.title, answer.language, *answer.links)
    if not all(isinstance(text, str) for text in words):
        raise BadAnswer("gave a `PageText` that holds something else than text")
    text, title, language = (_encodable(text) for text in words[:3])
    hrefs = [_encodable(href) for href in answer.links]
    title, text = " ".join(title.split())[:TITLE], text[:TEXT]
    language = language[:35] or guess(text)
    return Document(title, text, language, base=url, hrefs=hrefs, anchors=len(hrefs))


def _encodable(text: str) -> str:
    """Replace unpaired surrogates, which cannot be encoded."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def is_markup(mime: str, body: bytes) -> bool:
    """Tell whether a document is HTML, or has no declared type and looks like HTML."""
    return mime in HTML or (not mime and body.lstrip()[:1] == b"<")


def markup_of(body: bytes, charset: str) -> bytes | str:
    """Return HTML for lexbor: UTF-8 as bytes, everything else decoded."""
    body = body[:MARKUP]
    return body.removeprefix(BOM_UTF8) if charset == "utf-8" else decoded(body, charset)
