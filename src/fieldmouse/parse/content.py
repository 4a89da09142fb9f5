"""Content of a response: its text, title and links, and whether it may be indexed.

The code is the same for a page that comes from the web and for one that is read from the
archive to rebuild its index. Apart from the set of sent links, nothing here is written or
remembered.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fieldmouse.config.worker_config import WorkerConfig
from fieldmouse.http.decoding import ENDS_EARLY, decode_response
from fieldmouse.http.headers import effective_media_type, essence
from fieldmouse.parse.html import FEED_TYPES, Document, parse_robots_tag, refresh_target
from fieldmouse.parse.links import LinkExtractor
from fieldmouse.parse.readers import HTML_TYPES, READERS, URL_LIST, PluginReader, Reader, is_html
from fieldmouse.plugins.page import RawPage
from fieldmouse.types.outcome import Response
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.request import Request, RequestKind
from fieldmouse.url import Url, resolve

Readers = Mapping[str, Reader]
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
    config: WorkerConfig,
    links: LinkExtractor,
    readers: Readers = READERS,
    *,
    bare: bool = False,
) -> PageContent:
    """Read the document of a 2xx response; `bare` disables plug-ins."""
    unpacked = decode_response(response, limit=config.decoded_limit, ratio=config.ratio_limit)
    body, detail, complaint = unpacked.body, "", ""
    reason: OutcomeReason | None = None
    if (
        response.truncated
        and unpacked.reason is not OutcomeReason.DECOMPRESSION_BOMB
        and unpacked.detail in ("", ENDS_EARLY)
    ):
        # Our own limit cut the compressed body, so its early end is not an error of the server.
        detail = f"cut by the limit on {response.truncated}"
        reason = None if body else unpacked.reason
    elif unpacked.reason is not None:
        detail = f"{unpacked.reason.value}: {unpacked.detail}" if unpacked.detail else unpacked.reason.value
        # Keep the part of a broken body before the error, but nothing of a decompression bomb.
        if unpacked.reason is OutcomeReason.DECOMPRESSION_BOMB or not body:
            reason, detail, body = unpacked.reason, unpacked.detail, b""
    mime = response_mime(response)
    page, new_links, left_out = Document(base=link.url), list[Request](), 0
    links.start_page(link.url, bare=bare)
    if reason is None:
        cut = bool(response.truncated) or unpacked.reason is not None
        answer = RawPage(
            url=link.url, status=response.status, mime=mime, body=body, fields=response.headers, cut=cut
        )
        page = _read(link, answer, config, readers, bare)
        links.admit_redirect_target(link)
        if not (page.rules.nofollow and config.nofollow):
            new_links, left_out = _links(link, page, response.ended_at, config, links)
        dropped = f"links left after {config.links_per_page}, {left_out} more were there" if left_out else ""
        complaint = "; ".join(filter(None, (page.plugin_error, links.plugin_error)))
        detail = "; ".join(filter(None, (detail, page.parse_error, dropped, complaint)))
    indexed = reason is None and not (page.rules.noindex and config.nofollow)
    return PageContent(
        body, mime, page, new_links, indexed, page.charset, reason, detail, left_out, complaint
    )


def _read(link: Request, answer: RawPage, config: WorkerConfig, readers: Readers, bare: bool) -> Document:
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
            page = msgspec.structs.replace(page, parse_error=f"{what} {page.parse_error}")
    if link.kind is not RequestKind.SITEMAP:
        for tag in answer.header_values("x-robots-tag"):
            parse_robots_tag(tag, page.rules, config.robot)
        if target := _refresh_url(answer):
            page = msgspec.structs.replace(page, hrefs=[*page.hrefs, target])
    return page


def _refresh_url(answer: RawPage) -> Url | None:
    """The target of a `Refresh` header, resolved against the page's URL and not against its `<base>`."""
    target = refresh_target(answer.header("refresh"))
    if not target:
        return None
    # the bytes as received; browsers decode them as UTF-8 if they are valid
    raw = target.encode("latin-1", "replace")
    try:
        return resolve(raw.decode("utf-8"), answer.url)
    except UnicodeDecodeError:
        return resolve(target, answer.url)


def _reader_for(link: Request, answer: RawPage, config: WorkerConfig, readers: Readers) -> Reader | None:
    """The reader for this document; None if there is none."""
    mime, body = answer.mime, answer.body
    if link.kind is RequestKind.SITEMAP:
        return readers[URL_LIST] if config.sitemaps else None
    if (mime in FEED_TYPES and mime not in readers) or _is_feed(link, mime, body):
        return readers[URL_LIST] if config.feeds else None
    return readers.get(mime) if mime or not is_html(mime, body) else readers["text/html"]


def _links(
    link: Request, page: Document, now: float, config: WorkerConfig, links: LinkExtractor
) -> tuple[list[Request], int]:
    """The links of a document, and the number dropped because there were too many."""
    new_links = links.listed_links(link, page.pages, RequestKind.PAGE, now) if page.pages else []
    if page.sitemaps and link.kind is RequestKind.SITEMAP:
        new_links += links.listed_links(link, page.sitemaps, RequestKind.SITEMAP, now)
    # Feeds first: a feed requested as a page would be fetched and not read.
    if page.feeds and config.feeds:
        new_links += links.feed_links(link, Url(page.base), page.feeds, now)
    if not page.hrefs:
        return new_links, 0
    new_links += links.links_of_page(link, Url(page.base), page.hrefs, now)
    return new_links, links.dropped_hrefs


def _is_feed(link: Request, mime: str, body: bytes) -> bool:
    """Whether the link was declared as a feed and the document looks like one."""
    return link.kind is RequestKind.FEED and (
        mime not in HTML_TYPES or any(mark in body[:1024] for mark in _FEED_MARKS)
    )


def response_mime(response: Response) -> str:
    return essence(effective_media_type(response.all_headers("content-type")))
