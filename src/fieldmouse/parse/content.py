"""Content of a response: its text, title and links, and whether it may be indexed.

The code is the same for a page that comes from the web and for one that is read from the
archive to rebuild its index. Apart from the set of sent links, nothing here is written or
remembered.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fieldmouse.config.worker_config import IndexerConfig
from fieldmouse.http.decoding import EARLY, unpack
from fieldmouse.http.headers import essence, media_type
from fieldmouse.parse.html import FEEDS, Document, read_robots_tag, refresh_target
from fieldmouse.parse.links import Links
from fieldmouse.parse.readers import HTML, LISTING, READERS, OwnReader, Reader, is_markup
from fieldmouse.plugins.page import Answer
from fieldmouse.types.outcome import Response
from fieldmouse.types.reason import Reason
from fieldmouse.types.request import Kind, Link
from fieldmouse.url import Url, resolve

Readers = Mapping[str, Reader]
_FEED_MARKS = (b"<rss", b"<feed", b"<rdf:RDF")


class Contents(msgspec.Struct, frozen=True):
    """A page after parsing. With a `reason` the response could not be used as a page."""

    body: bytes  # decompressed
    mime: str
    page: Document
    links: list[Link]
    indexed: bool  # whether it belongs in the full-text index
    charset: str = ""
    reason: Reason | None = None
    detail: str = ""
    left_out: int = 0  # links beyond `links_per_page`
    complaint: str = ""  # errors of plug-ins


def read_contents(
    link: Link,
    response: Response,
    config: IndexerConfig,
    links: Links,
    readers: Readers = READERS,
    *,
    bare: bool = False,
) -> Contents:
    """Read the document of a 2xx response; `bare` disables plug-ins."""
    unpacked = unpack(response, limit=config.decoded_limit, ratio=config.ratio_limit)
    body, detail, complaint = unpacked.body, "", ""
    reason: Reason | None = None
    if response.truncated and unpacked.reason is not Reason.BOMB and unpacked.detail in ("", EARLY):
        # Our own limit cut the compressed body, so its early end is not an error of the server.
        detail = f"cut by the limit on {response.truncated}"
        reason = None if body else unpacked.reason
    elif unpacked.reason is not None:
        detail = f"{unpacked.reason.value}: {unpacked.detail}" if unpacked.detail else unpacked.reason.value
        # Keep the part of a broken body before the error, but nothing of a decompression bomb.
        if unpacked.reason is Reason.BOMB or not body:
            reason, detail, body = unpacked.reason, unpacked.detail, b""
    mime = mime_of(response)
    page, new_links, left_out = Document(base=link.url), list[Link](), 0
    links.begin(link.url, bare=bare)
    if reason is None:
        cut = bool(response.truncated) or unpacked.reason is not None
        answer = Answer(
            url=link.url, status=response.status, mime=mime, body=body, fields=response.headers, cut=cut
        )
        page = _read(link, answer, config, readers, bare)
        links.reached(link)
        if not (page.rules.nofollow and config.nofollow):
            new_links, left_out = _links(link, page, response.ended_at, config, links)
        dropped = f"links left after {config.links_per_page}, {left_out} more were there" if left_out else ""
        complaint = "; ".join(filter(None, (page.complaint, links.complaint)))
        detail = "; ".join(filter(None, (detail, page.trouble, dropped, complaint)))
    indexed = reason is None and not (page.rules.noindex and config.nofollow)
    return Contents(body, mime, page, new_links, indexed, page.charset, reason, detail, left_out, complaint)


def _read(link: Link, answer: Answer, config: IndexerConfig, readers: Readers, bare: bool) -> Document:
    """Parse the document with the reader of its type, and add the robots rules and refresh of its headers."""
    reader = _reader_for(link, answer, config, readers)
    if reader is None:
        page = Document(base=link.url)
    elif bare and isinstance(reader, OwnReader):
        page = reader.without(link.url)
    else:
        page = reader(answer, config)
        if page.trouble and reader is readers[LISTING]:
            what = "sitemap" if link.kind is Kind.SITEMAP else "feed"
            page = msgspec.structs.replace(page, trouble=f"{what} {page.trouble}")
    if link.kind is not Kind.SITEMAP:
        for tag in answer.all("x-robots-tag"):
            read_robots_tag(tag, page.rules, config.robot)
        if target := _refresh_url(answer):
            page = msgspec.structs.replace(page, hrefs=[*page.hrefs, target])
    return page


def _refresh_url(answer: Answer) -> Url | None:
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


def _reader_for(link: Link, answer: Answer, config: IndexerConfig, readers: Readers) -> Reader | None:
    """The reader for this document; None if there is none."""
    mime, body = answer.mime, answer.body
    if link.kind is Kind.SITEMAP:
        return readers[LISTING] if config.sitemaps else None
    if (mime in FEEDS and mime not in readers) or _is_feed(link, mime, body):
        return readers[LISTING] if config.feeds else None
    return readers.get(mime) if mime or not is_markup(mime, body) else readers["text/html"]


def _links(
    link: Link, page: Document, now: float, config: IndexerConfig, links: Links
) -> tuple[list[Link], int]:
    """The links of a document, and the number dropped because there were too many."""
    new_links = links.listed(link, page.pages, Kind.PAGE, now) if page.pages else []
    if page.sitemaps and link.kind is Kind.SITEMAP:
        new_links += links.listed(link, page.sitemaps, Kind.SITEMAP, now)
    # Feeds first: a feed requested as a page would be fetched and not read.
    if page.feeds and config.feeds:
        new_links += links.feeds(link, Url(page.base), page.feeds, now)
    if not page.hrefs:
        return new_links, 0
    new_links += links.find(link, Url(page.base), page.hrefs, now)
    return new_links, links.left_out


def _is_feed(link: Link, mime: str, body: bytes) -> bool:
    """Whether the link was declared as a feed and the document looks like one."""
    return link.kind is Kind.FEED and (mime not in HTML or any(mark in body[:1024] for mark in _FEED_MARKS))


def mime_of(response: Response) -> str:
    return essence(media_type(response.all("content-type")))
