"""Arguments of plug-ins: a response that is still to be read, and a parsed page.

Lists and tables are created for the plug-in on first access, so a plug-in may modify them
without side effects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from fieldmouse.url import Url, resolve

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

    TreeFactory = Callable[[], LexborHTMLParser | None]

Fields = tuple[tuple[str, str], ...]


class RawPage:
    """Decompressed response of a server: the argument of a `reader`."""

    def __init__(self, *, url: str, status: int, mime: str, body: bytes, fields: Fields, cut: bool = False):
        self.url = url
        self.status = status
        self.mime = mime  # the Content-Type without its parameters, lower case; "" if there is none
        self.body = body  # without its Content-Encoding
        self.truncated = cut  # only the beginning of the body was received
        self._fields = fields

    def header(self, name: str) -> str:
        """The first header of that name, in lower case; "" if there is none."""
        return next((value for field, value in self._fields if field == name), "")

    def header_values(self, name: str) -> list[str]:
        """Every header of that name, in lower case."""
        return [value for field, value in self._fields if field == name]

    all = header_values  # former name

    @property
    def cut(self) -> bool:
        """Former name of `truncated`."""
        return self.truncated

    @cached_property
    def headers(self) -> dict[str, str]:
        """The headers by lower-case name; repeated ones are joined by commas."""
        joined: dict[str, str] = {}
        for name, value in self._fields:
            joined[name] = f"{joined[name]}, {value}" if name in joined else value
        return joined

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.url}>"


class PageText(msgspec.Struct, frozen=True):
    """Result of a `reader`."""

    text: str = ""
    title: str = ""
    links: Sequence[str] = ()  # as written: they may be relative to the page
    language: str = ""  # such as "en" or "de-ch"; guessed if empty


class FoundLink(msgspec.Struct, frozen=True):
    """A link on its way to the frontier: the argument of `admit`."""

    url: str
    via: str  # the page it was found on
    depth: int  # links away from a seed
    found_as: str  # page, redirect, sitemap or feed


class OutgoingRequest(msgspec.Struct, frozen=True):
    """A request about to be made: the argument of `sign`, which returns headers for it."""

    url: str
    host: str  # scheme, name and port: the only host that receives the headers


class ParsedPage(RawPage):
    """A parsed page: the argument of `extract`, which returns rows."""

    def __init__(self, answer: RawPage, read: PageText, link: FoundLink, *, at: float, base: str, tree: TreeFactory):
        self.__dict__.update(vars(answer))
        self.title = read.title
        self.text = read.text  # the visible text; "" if there is none
        self.language = read.language
        self.depth = link.depth  # links away from a seed
        self.found_as = link.found_as  # page, seed, redirect, sitemap or feed
        self._at, self._base, self._hrefs, self._make_tree = at, base, read.links, tree

    @property
    def fetched_at(self) -> datetime:
        """Time at which the response was complete, in UTC."""
        return datetime.fromtimestamp(self._at, UTC)

    @cached_property
    def links(self) -> list[str]:
        """The URLs of its links, each once, in page order, including those out of scope."""
        urls = (resolve(href, Url(self._base)) for href in self._hrefs)
        return list(dict.fromkeys(url for url in urls if url is not None))

    @cached_property
    def tree(self) -> LexborHTMLParser | None:
        """The page as parsed by selectolax; None if it is not HTML.

        Created on first access by a second parse (about 0.3 ms for 30 KB): extracting the text modified
        the
        first tree.
        """
        return self._make_tree()

    def select(self, css: str, within: LexborNode | None = None) -> list[LexborNode]:
        """All elements that match a CSS selector, on the page or `within` one of its elements."""
        root = self.tree if within is None else within
        return [] if root is None else root.css(css)

    def get(self, css: str, attribute: str = "", *, within: LexborNode | None = None) -> str:
        """The text of the first match, or one of its attributes; "" if there is none."""
        root = self.tree if within is None else within
        node = None if root is None else root.css_first(css)
        return "" if node is None else _text_or_attribute(node, attribute)

    def get_all(self, css: str, attribute: str = "", *, within: LexborNode | None = None) -> list[str]:
        """The same for all matches; elements without the attribute are skipped."""
        nodes = self.select(css, within)
        if attribute:
            nodes = [node for node in nodes if attribute in node.attributes]
        return [_text_or_attribute(node, attribute) for node in nodes]

    def absolute(self, href: str) -> str:
        """The absolute URL of an `href` of this page; "" if it is empty or invalid."""
        return (resolve(href, Url(self._base)) or "") if href else ""


def _text_or_attribute(node: LexborNode, attribute: str) -> str:
    if attribute:
        return node.attributes.get(attribute) or ""
    return " ".join(node.text().split())


#: Former names, which plug-ins may import.
Answer, Request = RawPage, OutgoingRequest
