"""What an answer holds: its text, its title, its links, and whether it may be indexed.

A page is read in one way, whether it comes from the web and is stored for the
first time or from the archive because its index has to be built again. Nothing
here writes or remembers anything but the links' own books.
"""

from __future__ import annotations

from codecs import BOM_UTF8

import msgspec

from fieldmouse.indexer.charset import find_charset
from fieldmouse.indexer.language import guess
from fieldmouse.indexer.links import Links
from fieldmouse.indexer.parse import FEEDS, TEXT, Document, parse, read_robots_tag
from fieldmouse.indexer.wire import IndexerConfig
from fieldmouse.records import Kind, Link, Reason, Response
from fieldmouse.url import Url
from fieldmouse.web.encoding import EARLY, decode
from fieldmouse.web.labels import decoded
from fieldmouse.web.sitemap import read as read_sitemap

MARKUP = 4 << 20  # bytes of HTML parsed: a tree is some ten times as large as its page
_FEED_MARKS = (b"<rss", b"<feed", b"<rdf:RDF")
_HTML = frozenset(("text/html", "application/xhtml+xml"))


class Contents(msgspec.Struct, frozen=True):
    """A page as it was read. With a `reason` there is no page after all."""

    body: bytes  # unpacked
    mime: str
    page: Document
    links: list[Link]
    indexed: bool  # whether it belongs into the full-text index
    charset: str = ""
    reason: Reason | None = None
    detail: str = ""
    left_out: int = 0  # links beyond `links_per_page`


def read_contents(link: Link, response: Response, config: IndexerConfig, links: Links) -> Contents:
    """Read a document that was answered with 2xx."""
    unpacked = decode(
        response.body,
        response.header("content-encoding"),
        limit=config.decoded_limit,
        ratio=config.ratio_limit,
    )
    body, detail = unpacked.body, ""
    reason: Reason | None = None
    if response.truncated and unpacked.reason is not Reason.BOMB and unpacked.detail in ("", EARLY):
        # That a packed body ends early is our own doing, then.
        detail = f"cut by the limit on {response.truncated}"
        reason = None if body else unpacked.reason
    elif unpacked.reason is not None:
        detail = f"{unpacked.reason.value}: {unpacked.detail}" if unpacked.detail else unpacked.reason.value
        # A broken or cut body is worth what came before the break; a bomb is worth nothing.
        if unpacked.reason is Reason.BOMB or not body:
            reason, detail, body = unpacked.reason, unpacked.detail, b""
    now, mime = response.ended_at, mime_of(response)
    charset, page, left_out = "", Document(base=link.url), 0
    found: list[Link] = []
    links.note(link.url)
    if reason is not None:
        pass
    elif link.kind is Kind.SITEMAP:
        if config.sitemaps:
            found, trouble = _listed(link, body, now, config, links)
            detail = "; ".join(filter(None, (detail, trouble)))
    elif _is_feed(link, mime, body):
        for tag in _robots_tags(response):
            read_robots_tag(tag, page.rules, config.robot)
        if config.feeds and not (page.rules.nofollow and config.nofollow):
            found, trouble = _listed(link, body, now, config, links)
            detail = "; ".join(filter(None, (detail, trouble)))
    elif is_markup(mime, body):
        charset, page = _markup(link.url, response, body, config.robot)
        detail = "; ".join(filter(None, (detail, page.trouble)))
        if not (page.rules.nofollow and config.nofollow):
            # Feeds first: as a page, a feed would be fetched and not be read.
            if page.feeds and config.feeds:
                found = links.feeds(link, Url(page.base), page.feeds, now)
            found += links.find(link, Url(page.base), page.hrefs, now)
            left_out = links.left_out
            if left_out:
                trouble = f"links left after {config.links_per_page}, {left_out} more were there"
                detail = "; ".join(filter(None, (detail, trouble)))
    elif mime == "text/plain":
        charset = find_charset(body, response.header("content-type"), markup=False)
        page.text = decoded(body[: 4 * TEXT], charset)[:TEXT]
    else:
        for tag in _robots_tags(response):
            read_robots_tag(tag, page.rules, config.robot)
    indexed = reason is None and not (page.rules.noindex and config.nofollow)
    return Contents(body, mime, page, found, indexed, charset, reason, detail, left_out)


def _markup(url: Url, response: Response, body: bytes, robot: str) -> tuple[str, Document]:
    charset = find_charset(body[:MARKUP], response.header("content-type"))
    html = markup_of(body, charset)
    language = response.header("content-language")
    page = parse(html, url, tags=_robots_tags(response), language=language, robot=robot)
    if not page.language:
        page.language = guess(page.text)
    return charset, page


def is_markup(mime: str, body: bytes) -> bool:
    """Whether a document is HTML, or does not say what it is and looks like it."""
    return mime in _HTML or (not mime and body.lstrip()[:1] == b"<")


def markup_of(body: bytes, charset: str) -> bytes | str:
    """HTML as lexbor takes it: UTF-8 it reads itself, everything else is decoded for it."""
    body = body[:MARKUP]
    return body.removeprefix(BOM_UTF8) if charset == "utf-8" else decoded(body, charset)


def _is_feed(link: Link, mime: str, body: bytes) -> bool:
    """Whether a document says that it is a feed, or a page says so and it looks like one."""
    if mime in FEEDS:
        return True
    return link.kind is Kind.FEED and (mime not in _HTML or any(mark in body[:1024] for mark in _FEED_MARKS))


def _listed(
    link: Link, body: bytes, now: float, config: IndexerConfig, links: Links
) -> tuple[list[Link], str]:
    """The links a sitemap or feed has to give, and why there are no more of them."""
    listed = read_sitemap(body, link.url, limit_bytes=config.decoded_limit)
    found = links.listed(link, (entry.url for entry in listed.urls), Kind.PAGE, now)
    if link.kind is Kind.SITEMAP:
        found += links.listed(link, (entry.url for entry in listed.sitemaps), Kind.SITEMAP, now)
    read = len(listed.urls) + len(listed.sitemaps)
    what = "sitemap" if link.kind is Kind.SITEMAP else "feed"
    return found, f"{what} left after {read} URLs: {listed.trouble}" if listed.trouble else ""


def mime_of(response: Response) -> str:
    return response.header("content-type").partition(";")[0].strip().lower()


def _robots_tags(response: Response) -> list[str]:
    return [value for name, value in response.headers if name == "x-robots-tag"]
