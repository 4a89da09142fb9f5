"""Stored page: fields of its outcome row, and the archived response on demand.

A row of the outcome log holds the small fields (status, title, MIME type, language), which cost nothing.
Headers and body are in a WARC file, text and links in the body; each is read on first use and kept as long
as the page object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cached_property
from html import escape
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from fieldmouse.config.rules_from_settings import PageProcessingConfig
from fieldmouse.errors import DamagedFile
from fieldmouse.policy.noise_rules import NoiseRules
from fieldmouse.policy.scope import NO_TRAP_RULES, Scope
from fieldmouse.types.outcome import OutcomeRow, Response
from fieldmouse.types.request import Request, RequestKind

if TYPE_CHECKING:
    from fieldmouse.archive.warc_reader import ArchiveReader
    from fieldmouse.parse.content import PageContent


_MOST = PageProcessingConfig().decoded_limit
_ANY_RATIO = 1 << 40  # it passed the ratio limit when it was stored
#: Configuration for parsing a stored page: no link is out of scope, and none is a trap.
_AS_IT_IS = PageProcessingConfig(scope=Scope(), traps=NO_TRAP_RULES, ratio_limit=_ANY_RATIO)


class ResponseHeaders(Mapping[str, str]):
    """Response headers with case-insensitive names; indexing returns the first value.

    >>> headers = ResponseHeaders([("content-type", "text/html"), ("set-cookie", "a=1"),
    ...                            ("set-cookie", "b=2")])
    >>> headers["Content-Type"], headers.all("Set-Cookie"), headers.get("etag")
    ('text/html', ['a=1', 'b=2'], None)
    """

    def __init__(self, pairs: Iterable[tuple[str, str]]):
        self._pairs = tuple((name.lower(), value) for name, value in pairs)

    def __getitem__(self, name: str) -> str:
        for known, value in self._pairs:
            if known == name.lower():
                return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for name, _ in self._pairs))

    def __len__(self) -> int:
        return len({name for name, _ in self._pairs})

    def all(self, name: str) -> list[str]:
        """Every header of that name, in the order received."""
        return [value for known, value in self._pairs if known == name.lower()]

    def __repr__(self) -> str:
        return f"AnswerHeaders({list(self._pairs)!r})"


def _row_field(name: str, doc: str) -> Any:
    """Read-only attribute that returns a field of the outcome row."""
    return property(attrgetter(f"row.{name}"), doc=doc)


class StoredPage:
    """A stored response with a 2xx status, as `export` lists it.

    `headers` and `body` read one record of the archive, 0.1 to 0.3 ms; `text` and `links` parse the body
    again, 2 ms for a page of 30 KB. Results are kept as long as the page object, so a second access is
    free; a list of many pages whose bodies were read holds all bodies in memory.
    """

    def __init__(self, row: OutcomeRow, library: ArchiveReader):
        #: The row of the outcome log, with all fields that `export` writes.
        self.row = row
        self._library = library

    # -- from the outcome row

    url: str = _row_field("url", "The normalised URL.")
    status: int = _row_field("status", "The HTTP status.")
    title: str = _row_field("title", 'The title; "" if there is none.')
    mime: str = _row_field("mime", 'The MIME type sent by the server, in lower case, without parameters; "" if none.')
    language: str = _row_field("language", 'Declared or guessed, such as "en" or "de-ch"; "" if unknown.')
    depth: int = _row_field("depth", "Links away from a seed.")
    via: str = _row_field("via", 'The page that linked to it; "" for a seed.')
    found_as: str = _row_field(
        "found_as", "How it was found, which decides how it is parsed: page, seed, redirect, sitemap or feed."
    )
    size: int = _row_field("size", "Bytes of the body.")
    duplicate_of: str = _row_field("duplicate_of", 'The page fetched earlier with the same bytes; "" if there is none.')

    @property
    def fetched_at(self) -> datetime:
        """Time at which the response was complete, in UTC."""
        return datetime.fromtimestamp(self.row.at, UTC)

    @property
    def directory(self) -> Path:
        """Directory of the crawl that stored it."""
        return self._library.directory.parent

    # -- from the archive

    @cached_property
    def headers(self) -> ResponseHeaders:
        """The archived response headers; `X-Crawler-` marks those that do not fit the stored body."""
        return ResponseHeaders(self._archived_response.headers)

    @cached_property
    def body(self) -> bytes:
        """The decoded body. A duplicate has the body of its original, a truncated page the stored part."""
        from fieldmouse.http.decoding import decode_response

        return decode_response(self._archived_response, limit=max(_MOST, self.row.size), ratio=_ANY_RATIO).body

    @cached_property
    def text(self) -> str:
        """The visible text; "" if there is none. Parses the body again."""
        return self._parsed_content.document.text

    @cached_property
    def links(self) -> list[str]:
        """URLs that the page links to and lets robots follow, each once, in scope or not, without its own.

        For a sitemap or feed, the URLs it lists. Parses the body again.
        """
        return list(dict.fromkeys(link.url for link in self._parsed_content.links))

    def blocks(self, rules: NoiseRules | None = None) -> list[str] | None:
        """The visible text in blocks, the unit of comparison between versions; None if the page has no text.

        `rules` select the parts to compare; None compares everything. Parses the body again.
        """
        from fieldmouse.diff.text_blocks import NO_RULES, text_blocks

        return text_blocks(self._archived_response, self.body, rules.for_page(self.url) if rules else NO_RULES)

    @cached_property
    def _archived_response(self) -> Response:
        from fieldmouse.archive.warc_reader import UnreadableMember

        try:
            return self._library.read_response(self.row.warc, self.row.offset)
        except KeyError:
            what = f"the record at byte {self.row.offset} names an earlier one that cannot be found"
        except (UnreadableMember, ValueError) as trouble:
            what = f"the record at byte {self.row.offset}: {trouble}"
        except FileNotFoundError:
            what = "it is missing"
        raise DamagedFile(self._library.directory / self.row.warc, what)

    @cached_property
    def _parsed_content(self) -> PageContent:
        from fieldmouse.parse.content import read_page_content
        from fieldmouse.parse.links import LinkExtractor

        row = self.row
        config = msgspec.structs.replace(_AS_IT_IS, decoded_limit=max(_MOST, row.size))
        link = Request(row.url, row.depth, row.via, RequestKind(row.found_as), row.seen_at)
        # `LinkExtractor` skips links of earlier pages, so each page gets a new instance.
        return read_page_content(link, self._archived_response, config, LinkExtractor(config))

    # -- display

    def __repr__(self) -> str:
        title = f" {self.title!r}" if self.title else ""
        return f"<StoredPage {self.url}{title} {self.status} {self.mime}, {self.size:,} bytes>"

    def _repr_html_(self) -> str:
        """For notebooks. Page content is escaped, because it is not trusted."""
        title = escape(self.title or self.url)
        return (
            f"<b>{title}</b><br><code>{escape(self.url)}</code><br>"
            f"{self.status} {escape(self.mime)}, {self.size:,} bytes, {self.fetched_at:%Y-%m-%d %H:%M:%S} UTC"
        )
