"""Search for stored pages that link to a URL which was never fetched, and why the link was not followed.

A crawl does not record links with nofollow. So the archive is read again: pages that contain the last part
of the URL are parsed, and each link to the URL is examined. The search is bounded and reports when it
ended early.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from selectolax.lexbor import LexborHTMLParser

from fieldmouse.indexer.charset import find_charset
from fieldmouse.indexer.contents import mime_of
from fieldmouse.indexer.markup import bounded
from fieldmouse.indexer.parse import parse
from fieldmouse.indexer.readers import HTML, MARKUP
from fieldmouse.indexer.warcs import Torn, answer_of, members, read_record
from fieldmouse.indexer.wire import ShardState
from fieldmouse.records import Response
from fieldmouse.url import Url, resolve
from fieldmouse.web.encoding import unpack
from fieldmouse.web.labels import decoded, spelt
from fieldmouse.web.mediatype import media_type

BUDGET = 256 << 20  # bytes of archive read for one search


class Mention(msgspec.Struct, frozen=True):
    """A page with a link to the URL; `rule` forbids to follow it, "" if nothing does."""

    page: str
    rule: str


class Search(msgspec.Struct):
    """Pages found, and whether the whole archive was read."""

    mentions: list[Mention] = []
    complete: bool = True


def mentions_of(
    directory: Path, states: Sequence[ShardState], url: Url, *, most: int = 3, budget: int = BUDGET
) -> Search:
    """Return up to `most` pages of the archive in `directory` that link to `url`."""
    result = Search([])
    needle = _needle(url)
    ends = {state.warc: state.warc_length for state in states if state.warc}
    for path in sorted(directory.glob("*.warc.gz")):
        end = min(path.stat().st_size, ends.get(path.name, path.stat().st_size), budget)
        budget -= end
        for page, response in _pages(path, end):
            rule = _rule(page, response, url, needle)
            if rule is not None:
                result.mentions.append(Mention(page, rule))
                if len(result.mentions) == most:
                    return result
        if budget <= 0:
            result.complete = False
            break
    return result


def _pages(path: Path, end: int) -> Iterator[tuple[Url, Response]]:
    try:
        for member in members(path, 0, end):
            record = read_record(member.content)
            if record.kind == "response":
                response = answer_of(record)
                if 200 <= response.status < 300 and mime_of(response) in HTML:
                    yield Url(record.url), response
    except (Torn, ValueError):
        return  # damage, or the budget ended inside a record


def _needle(url: Url) -> bytes:
    """Return bytes that occur in every link to the URL, or b"" if its spellings vary too much."""
    path = url.partition("?")[0].rstrip("/")
    last = path.rpartition("/")[2]
    return last.encode() if last.isascii() and "%" not in last and path.count("/") > 2 else b""


def _rule(page: Url, response: Response, url: Url, needle: bytes) -> str | None:
    """Return the rule that forbids to follow a page's link to `url`, "" if none does, None without such a
    link."""
    body = unpack(response, limit=MARKUP).body
    if needle not in body:
        return None
    charset = find_charset(body, media_type(response.all("content-type")))
    html = body if charset == "utf-8" else decoded(body, charset).encode("utf-8", "replace")
    tags = [value for name, value in response.headers if name == "x-robots-tag"]
    read = parse(html, page, tags=tags, charset=charset)
    tree = LexborHTMLParser(bounded(html)[0])
    marked = None
    for node in tree.css("a[href], area[href]"):
        attributes = node.attributes
        if resolve(spelt(attributes.get("href") or "", charset), Url(read.base)) != url:
            continue
        if "nofollow" not in (attributes.get("rel") or "").lower().split():
            return "the page asks robots not to follow its links (nofollow)" if read.rules.nofollow else ""
        marked = "the link is marked rel=nofollow"
    return marked
