"""Content of a response: its text, title and links, read by MIME type.

The code is the same for a page that comes from the web and for one that is read from the
archive to rebuild its index. Apart from the set of sent links, nothing here is written or
remembered.

Built in are HTML, plain text and sitemaps. Readers of the user (`plugins.readers`) are in the same table,
wrapped in a call that limits their cost.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from fieldmouse.config.rules_from_settings import PageProcessingConfig
from fieldmouse.http.decoding import ENDS_EARLY, decode_response
from fieldmouse.http.headers import effective_media_type, mime_essence
from fieldmouse.import_string import import_callable
from fieldmouse.parse.charset import decode_text, find_charset
from fieldmouse.parse.html import (
    FEED_TYPES,
    MAX_TEXT,
    MAX_TITLE,
    Document,
    parse_html,
    parse_robots_tag,
    refresh_target,
)
from fieldmouse.parse.language import guess_language
from fieldmouse.parse.links import LinkExtractor
from fieldmouse.parse.sitemap import read_sitemap as read_sitemap
from fieldmouse.plugins import runner
from fieldmouse.plugins.page import PageText, RawPage
from fieldmouse.types.outcome import Response
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.request import Request, RequestKind
from fieldmouse.url import Url, resolve

MAX_HTML = 4 << 20  # bytes of HTML parsed: a tree is about ten times as large as its page
HTML_TYPES = frozenset(("text/html", "application/xhtml+xml"))
#: The entry for sitemaps and feeds: these are recognized by how they were found, regardless of their type.
URL_LIST = "sitemap"


Reader = Callable[[RawPage, PageProcessingConfig], Document]
Readers = Mapping[str, Reader]


def read_html(answer: RawPage, config: PageProcessingConfig) -> Document:
    charset = find_charset(answer.body[:MAX_HTML], effective_media_type(answer.header_values("content-type")))
    html, language = html_for_parser(answer.body, charset), answer.header("content-language")
    page = parse_html(html, Url(answer.url), language=language, robot=config.robot, charset=charset)
    return replace(page, charset=charset, language=page.language or guess_language(page.text))


def read_plain_text(answer: RawPage, config: PageProcessingConfig) -> Document:
    charset = find_charset(answer.body, effective_media_type(answer.header_values("content-type")), markup=False)
    text = decode_text(answer.body[: 4 * MAX_TEXT], charset)[:MAX_TEXT]
    return Document(base=answer.url, charset=charset, text=text)


def read_url_list(answer: RawPage, config: PageProcessingConfig) -> Document:
    """Read a sitemap or feed: it has URLs and no text."""
    listed = read_sitemap(answer.body, answer.url, limit_bytes=config.decoded_limit, cut=answer.truncated)
    pages, sitemaps = [entry.url for entry in listed.urls], [entry.url for entry in listed.sitemaps]
    trouble = f"left after {len(pages) + len(sitemaps)} URLs: {listed.error}" if listed.error else ""
    return Document(base=answer.url, pages=pages, sitemaps=sitemaps, parse_error=trouble)


READERS: Readers = MappingProxyType(
    {"text/html": read_html, "application/xhtml+xml": read_html, "text/plain": read_plain_text, URL_LIST: read_url_list}
)


class PluginReader:
    """A reader from a plug-in."""

    def __init__(self, name: str, names: runner.PluginConfig, observer: runner.CallObserver):
        """Load the reader; raises `FieldmouseError` if that fails."""
        self.name, self._patience, self._observer = name, names.patience, observer
        self._read = import_callable(name, "reader", names.path)

    def __call__(self, answer: RawPage, config: PageProcessingConfig) -> Document:
        result = runner.call_plugin(
            self.name, self._patience, self._observer, lambda: _document_from_plugin(self._read(answer), answer.url)
        )
        return self.unread_document(answer.url, result) if isinstance(result, runner.PluginFailure) else result

    def unread_document(self, url: str, complaint: runner.PluginFailure | None = None) -> Document:
        """Return the document of a page that the plug-in did not read."""
        complaint = complaint or runner.PluginFailure(self.name, "was left out: plug-ins brought workers down")
        return Document(base=url, plugin_error=str(complaint))


def load_readers(names: runner.PluginConfig, observer: runner.CallObserver) -> Readers:
    """Return the table of readers of a crawl."""
    return {**READERS, **{mime: PluginReader(name, names, observer) for mime, name in names.readers.items()}}


def _document_from_plugin(answer: object, url: str) -> Document:
    """Validate the result of a plug-in and cut its texts to the stored length."""
    if answer is None:
        return Document(base=url)
    if isinstance(answer, str):
        answer = PageText(answer)
    if not isinstance(answer, PageText):
        raise runner.InvalidPluginResult(f"gave {runner.type_with_article(answer)} and not a `PageText` or text")
    words = (answer.text, answer.title, answer.language, *answer.links)
    if not all(isinstance(text, str) for text in words):
        raise runner.InvalidPluginResult("gave a `PageText` that holds something else than text")
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


_FEED_MARKS = (b"<rss", b"<feed", b"<rdf:RDF")


class PageContent(msgspec.Struct, frozen=True):
    """A page after parsing. With a `reason` the response could not be used as a page."""

    body: bytes  # decompressed
    mime: str
    document: Document
    links: list[Request]
    indexable: bool  # whether it belongs in the full-text index
    charset: str = ""
    reason: OutcomeReason | None = None
    detail: str = ""
    dropped_links: int = 0  # links beyond `links_per_page`
    plugin_error: str = ""  # errors of plug-ins


def read_page_content(
    link: Request,
    response: Response,
    config: PageProcessingConfig,
    links: LinkExtractor,
    readers: Readers = READERS,
    *,
    bare: bool = False,
) -> PageContent:
    """Read the document of a 2xx response; `bare` disables plug-ins."""
    unpacked = decode_response(response, limit=config.decoded_limit, ratio=config.ratio_limit)
    body, detail, complaint = unpacked.body, "", ""
    reason: OutcomeReason | None = None
    is_bomb = unpacked.reason is OutcomeReason.DECOMPRESSION_BOMB
    if response.truncated and not is_bomb and unpacked.detail in ("", ENDS_EARLY):
        # Our own limit cut the compressed body, so its early end is not an error of the server.
        detail = f"cut by the limit on {response.truncated}"
        reason = None if body else unpacked.reason
    elif unpacked.reason is not None:
        detail = f"{unpacked.reason.value}: {unpacked.detail}" if unpacked.detail else unpacked.reason.value
        # Keep the part of a broken body before the error, but nothing of a decompression bomb.
        if is_bomb or not body:
            reason, detail, body = unpacked.reason, unpacked.detail, b""
    mime = response_mime(response)
    page, new_links, left_out = Document(base=link.url), list[Request](), 0
    links.start_page(link.url, bare=bare)
    if reason is None:
        cut = bool(response.truncated) or unpacked.reason is not None
        answer = RawPage(url=link.url, status=response.status, mime=mime, body=body, fields=response.headers, cut=cut)
        page = _read_document(link, answer, config, readers, bare)
        links.extend_scope_by_redirect(link)
        if not (page.rules.nofollow and config.nofollow):
            new_links, left_out = _links_of_document(link, page, response.ended_at, config, links)
        dropped = f"links left after {config.links_per_page}, {left_out} more were there" if left_out else ""
        complaint = "; ".join(filter(None, (page.plugin_error, links.plugin_error)))
        detail = "; ".join(filter(None, (detail, page.parse_error, dropped, complaint)))
    indexed = reason is None and not (page.rules.noindex and config.nofollow)
    return PageContent(body, mime, page, new_links, indexed, page.charset, reason, detail, left_out, complaint)


def _read_document(
    link: Request, answer: RawPage, config: PageProcessingConfig, readers: Readers, bare: bool
) -> Document:
    """Parse the document with the reader of its type, and add the robots rules and refresh of its headers."""
    reader = _reader_for(link, answer, config, readers)
    if reader is None:
        page = Document(base=link.url)
    elif bare and isinstance(reader, PluginReader):
        page = reader.unread_document(link.url)
    else:
        page = reader(answer, config)
        if page.parse_error and reader is readers[URL_LIST]:
            what = "sitemap" if link.kind is RequestKind.SITEMAP else "feed"
            page = replace(page, parse_error=f"{what} {page.parse_error}")
    if link.kind is not RequestKind.SITEMAP:
        for tag in answer.header_values("x-robots-tag"):
            parse_robots_tag(tag, page.rules, config.robot)
        if target := _refresh_header_target(answer):
            page = replace(page, hrefs=[*page.hrefs, target])
    return page


def _refresh_header_target(answer: RawPage) -> Url | None:
    """The target of a `Refresh` header, resolved against the page's URL and not against its `<base>`."""
    target = refresh_target(answer.header("refresh"))
    if not target:
        return None
    # the bytes as received; browsers decode them as UTF-8 if they are valid
    with suppress(UnicodeDecodeError):
        target = target.encode("latin-1", "replace").decode("utf-8")
    return resolve(target, answer.url)


def _reader_for(link: Request, answer: RawPage, config: PageProcessingConfig, readers: Readers) -> Reader | None:
    """The reader for this document; None if there is none."""
    mime, body = answer.mime, answer.body
    if link.kind is RequestKind.SITEMAP:
        return readers[URL_LIST] if config.sitemaps else None
    if (mime in FEED_TYPES and mime not in readers) or _is_feed(link, mime, body):
        return readers[URL_LIST] if config.feeds else None
    return readers.get(mime) if mime or not is_html(mime, body) else readers["text/html"]


def _links_of_document(
    link: Request, page: Document, now: float, config: PageProcessingConfig, links: LinkExtractor
) -> tuple[list[Request], int]:
    """The links of a document, and the number dropped because there were too many."""
    new_links = links.listed_links(link, page.pages, RequestKind.PAGE, now) if page.pages else []
    if page.sitemaps and link.kind is RequestKind.SITEMAP:
        new_links += links.listed_links(link, page.sitemaps, RequestKind.SITEMAP, now)
    # Feeds first: a feed requested as a page would be fetched and not read.
    if page.feeds and config.feeds:
        new_links += links.links_to_feeds(link, Url(page.base), page.feeds, now)
    if not page.hrefs:
        return new_links, 0
    new_links += links.new_links_of_page(link, Url(page.base), page.hrefs, now)
    return new_links, links.dropped_hrefs


def _is_feed(link: Request, mime: str, body: bytes) -> bool:
    """Whether the link was declared as a feed and the document looks like one."""
    return link.kind is RequestKind.FEED and (
        mime not in HTML_TYPES or any(mark in body[:1024] for mark in _FEED_MARKS)
    )


def response_mime(response: Response) -> str:
    return mime_essence(effective_media_type(response.all_headers("content-type")))
