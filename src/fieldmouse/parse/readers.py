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

from fieldmouse.config.worker_config import WorkerConfig
from fieldmouse.http.headers import effective_media_type
from fieldmouse.import_string import import_callable
from fieldmouse.parse.charset import decode_text, find_charset
from fieldmouse.parse.html import MAX_TEXT, MAX_TITLE, Document, parse_html
from fieldmouse.parse.language import guess_language
from fieldmouse.parse.sitemap import read_sitemap as read_sitemap
from fieldmouse.plugins.page import PageText, RawPage
from fieldmouse.plugins.registry import PluginNames
from fieldmouse.plugins.runner import (
    InvalidPluginResult,
    PluginError,
    Watchdog,
    call_plugin,
    type_with_article,
)
from fieldmouse.url import Url

MAX_HTML = 4 << 20  # bytes of HTML parsed: a tree is about ten times as large as its page
HTML_TYPES = frozenset(("text/html", "application/xhtml+xml"))
URL_LIST = "sitemap"
"""The entry for sitemaps and feeds: these are recognized by how they were found, regardless of their type."""


class Reader(Protocol):
    def __call__(self, answer: RawPage, config: WorkerConfig) -> Document: ...


def read_html(answer: RawPage, config: WorkerConfig) -> Document:
    charset = find_charset(answer.body[:MAX_HTML], effective_media_type(answer.header_values("content-type")))
    html, language = html_for_parser(answer.body, charset), answer.header("content-language")
    page = parse_html(html, Url(answer.url), language=language, robot=config.robot, charset=charset)
    return replace(page, charset=charset, language=page.language or guess_language(page.text))


def read_plain(answer: RawPage, config: WorkerConfig) -> Document:
    charset = find_charset(
        answer.body, effective_media_type(answer.header_values("content-type")), markup=False
    )
    text = decode_text(answer.body[: 4 * MAX_TEXT], charset)[:MAX_TEXT]
    return Document(base=answer.url, charset=charset, text=text)


def read_url_list(answer: RawPage, config: WorkerConfig) -> Document:
    """Read a sitemap or feed: it has URLs and no text."""
    listed = read_sitemap(answer.body, answer.url, limit_bytes=config.decoded_limit, cut=answer.truncated)
    pages, sitemaps = [entry.url for entry in listed.urls], [entry.url for entry in listed.sitemaps]
    trouble = f"left after {len(pages) + len(sitemaps)} URLs: {listed.error}" if listed.error else ""
    return Document(base=answer.url, pages=pages, sitemaps=sitemaps, parse_error=trouble)


READERS: Mapping[str, Reader] = MappingProxyType(
    {
        "text/html": read_html,
        "application/xhtml+xml": read_html,
        "text/plain": read_plain,
        URL_LIST: read_url_list,
    }
)


class PluginReader:
    """A reader from a plug-in."""

    def __init__(self, name: str, names: PluginNames, onlooker: Watchdog):
        """Load the reader; raises `FieldmouseError` if that fails."""
        self.name, self._patience, self._onlooker = name, names.patience, onlooker
        self._read = import_callable(name, "reader", names.path)

    def __call__(self, answer: RawPage, config: WorkerConfig) -> Document:
        result = call_plugin(
            self.name, self._patience, self._onlooker, lambda: _document(self._read(answer), answer.url)
        )
        return self.unread_document(answer.url, result) if isinstance(result, PluginError) else result

    def unread_document(self, url: str, complaint: PluginError | None = None) -> Document:
        """Return the document of a page that the plug-in did not read."""
        complaint = complaint or PluginError(self.name, "was left out: plug-ins brought workers down")
        return Document(base=url, plugin_error=str(complaint))


def load_readers(names: PluginNames, onlooker: Watchdog) -> Mapping[str, Reader]:
    """Return the table of readers of a crawl."""
    return {**READERS, **{mime: PluginReader(name, names, onlooker) for mime, name in names.readers.items()}}


def _document(answer: object, url: str) -> Document:
    """Validate the result of a plug-in and cut its texts to the stored length."""
    if answer is None:
        return Document(base=url)
    if isinstance(answer, str):
        answer = PageText(answer)
    if not isinstance(answer, PageText):
        raise InvalidPluginResult(f"gave {type_with_article(answer)} and not a `PageText` or text")
    words = (answer.text, answer.title, answer.language, *answer.links)
    if not all(isinstance(text, str) for text in words):
        raise InvalidPluginResult("gave a `PageText` that holds something else than text")
    text, title, language = (_encodable(text) for text in words[:3])
    hrefs = [_encodable(href) for href in answer.links]
    title, text = " ".join(title.split())[:MAX_TITLE], text[:MAX_TEXT]
    language = language[:35] or guess_language(text)
    return Document(title, text, language, base=url, hrefs=hrefs, anchors=len(hrefs))


def _encodable(text: str) -> str:
    """Replace unpaired surrogates, which cannot be encoded."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def is_html(mime: str, body: bytes) -> bool:
    """Tell whether a document is HTML, or has no declared type and looks like HTML."""
    return mime in HTML_TYPES or (not mime and body.lstrip()[:1] == b"<")


def html_for_parser(body: bytes, charset: str) -> bytes | str:
    """Return HTML for lexbor: UTF-8 as bytes, everything else decoded."""
    body = body[:MAX_HTML]
    return body.removeprefix(BOM_UTF8) if charset == "utf-8" else decode_text(body, charset)
