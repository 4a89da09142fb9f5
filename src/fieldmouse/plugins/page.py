"""What plug-ins are given: a page as it was read, and an answer that is yet to be read.

Both belong to the plug-in: lists and tables are made for it when it asks for them,
so whatever it does to them stays with it.
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


class Answer:
    """What a server sent, unpacked: all that a `reader` has to go by."""

    def __init__(
        self, *, url: str, status: int, mime: str, body: bytes, fields: tuple[tuple[str, str], ...],
        cut: bool = False,
    ):  # fmt: skip
        self.url = url
        self.status = status
        self.mime = mime  # the Content-Type without its parameters, lower case; "" if there is none
        self.body = body  # without its Content-Encoding
        self.cut = cut  # only the beginning of the body is there
        self._fields = fields

    def header(self, name: str) -> str:
        """The first header of that name, in lower case; "" if there is none."""
        return next((value for known, value in self._fields if known == name), "")

    def all(self, name: str) -> list[str]:
        """Every header of that name, in lower case."""
        return [value for known, value in self._fields if known == name]

    @cached_property
    def headers(self) -> dict[str, str]:
        """The headers by their names in lower case; one sent several times is joined by commas."""
        found: dict[str, str] = {}
        for name, value in self._fields:
            found[name] = f"{found[name]}, {value}" if name in found else value
        return found

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.url}>"


class PageText(msgspec.Struct, frozen=True):
    """What a `reader` makes of an answer."""

    text: str = ""
    title: str = ""
    links: Sequence[str] = ()  # as written: they may be relative to the page
    language: str = ""  # such as "en" or "de-ch"; guessed if it is not said


class FoundLink(msgspec.Struct, frozen=True):
    """A link on its way to the frontier: what `admit` is asked about."""

    url: str
    via: str  # the page it was found on
    depth: int  # links away from a seed
    found_as: str  # page, redirect, sitemap or feed


class Request(msgspec.Struct, frozen=True):
    """A request that is about to be made: what `sign` gives headers for."""

    url: str
    host: str  # scheme, name and port: the only one that will see them


class ParsedPage(Answer):
    """A page that was read: what `extract` makes rows of."""

    def __init__(
        self, *, url: str, status: int, mime: str, body: bytes, fields: tuple[tuple[str, str], ...],
        title: str, text: str, language: str, depth: int, found_as: str, at: float, base: str,
        hrefs: list[str], tree: Callable[[], LexborHTMLParser | None],
    ):  # fmt: skip
        super().__init__(url=url, status=status, mime=mime, body=body, fields=fields)
        self.title = title
        self.text = text  # what a reader sees, "" where that is nothing
        self.language = language
        self.depth = depth  # links away from a seed
        self.found_as = found_as  # page, seed, redirect, sitemap or feed
        self._at, self._base, self._hrefs, self._make_tree = at, base, hrefs, tree

    @property
    def fetched_at(self) -> datetime:
        """When the answer was complete, in UTC."""
        return datetime.fromtimestamp(self._at, UTC)

    @cached_property
    def links(self) -> list[str]:
        """The URLs that its links lead to, each once, in their order; also those that are out of scope."""
        found = (resolve(href, Url(self._base)) for href in self._hrefs)
        return list(dict.fromkeys(url for url in found if url is not None))

    @cached_property
    def tree(self) -> LexborHTMLParser | None:
        """The page as selectolax parses it; None if it is no HTML.

        Made when it is first asked for, a second parse of the page (some 0.3 ms for 30 KB): the one that was
        read for its text is no longer whole.
        """
        return self._make_tree()

    def select(self, css: str, within: LexborNode | None = None) -> list[LexborNode]:
        """All elements that a CSS selector finds, on the page or `within` one of its elements."""
        root = self.tree if within is None else within
        return [] if root is None else root.css(css)

    def get(self, css: str, attribute: str = "", *, within: LexborNode | None = None) -> str:
        """The text of the first element found, or one of its attributes; "" if there is none."""
        root = self.tree if within is None else within
        node = None if root is None else root.css_first(css)
        return "" if node is None else _said(node, attribute)

    def get_all(self, css: str, attribute: str = "", *, within: LexborNode | None = None) -> list[str]:
        """The same for all elements found; those without the attribute are left out."""
        nodes = self.select(css, within)
        if attribute:
            nodes = [node for node in nodes if attribute in node.attributes]
        return [_said(node, attribute) for node in nodes]

    def absolute(self, href: str) -> str:
        """The URL that an `href` of this page leads to; "" if it leads nowhere, and for ""."""
        return (resolve(href, Url(self._base)) or "") if href else ""


def _said(node: LexborNode, attribute: str) -> str:
    if attribute:
        return node.attributes.get(attribute) or ""
    return " ".join(node.text().split())
