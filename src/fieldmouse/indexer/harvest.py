"""Extraction of rows from pages: calls the user's `extract` for each stored page.

The rows are encoded at once and archived beside the response (`archive.py`), so they are
exactly as durable as their page.
"""

from __future__ import annotations

from functools import partial

from selectolax.lexbor import LexborHTMLParser

from fieldmouse.indexer.contents import Contents
from fieldmouse.indexer.markup import bounded
from fieldmouse.indexer.readers import is_markup, markup_of
from fieldmouse.named import load_function
from fieldmouse.plugins.call import Complaint, Onlooker, call
from fieldmouse.plugins.names import PluginNames
from fieldmouse.plugins.page import ParsedPage
from fieldmouse.plugins.rows import Rows, encode_rows
from fieldmouse.records import Link, Response


class Harvest:
    def __init__(self, names: PluginNames, onlooker: Onlooker):
        """Load `extract`; raises `FieldmouseError` if it cannot be loaded."""
        self._extract = load_function(names.extract, "extract", names.path)
        self._names, self._onlooker = names, onlooker

    def of(self, link: Link, response: Response, read: Contents, bare: bool = False) -> Rows | Complaint:
        """The rows of the page, or the plug-in's error; `extract` is not called if `bare`."""
        if bare:
            return Complaint(self._names.extract, "was left out: plug-ins brought workers down")
        page = ParsedPage(
            url=link.url, status=response.status, mime=read.mime, body=read.body, fields=response.headers,
            title=read.page.title, text=read.page.text, language=read.page.language, depth=link.depth,
            found_as=link.kind.value, at=response.ended_at, base=read.page.base,
            hrefs=read.page.hrefs, tree=partial(_tree, read),
        )  # fmt: skip
        names = self._names
        return call(
            names.extract, names.patience, self._onlooker,
            lambda: encode_rows(self._extract(page), names.most_bytes),
        )  # fmt: skip


def _tree(read: Contents) -> LexborHTMLParser | None:
    if not is_markup(read.mime, read.body):
        return None
    html = markup_of(read.body, read.charset)
    raw, _ = bounded(html.encode("utf-8", "replace") if isinstance(html, str) else html)
    return LexborHTMLParser(raw)
