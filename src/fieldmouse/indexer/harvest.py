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
from fieldmouse.plugins.page import Answer, FoundLink, PageText, ParsedPage
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
        document, status, limit = read.page, response.status, self._names.most_bytes
        answer = Answer(url=link.url, status=status, mime=read.mime, body=read.body, fields=response.headers)
        text = PageText(document.text, document.title, document.hrefs, document.language)
        found = FoundLink(link.url, link.via, link.depth, link.kind.value)
        tree = partial(_tree, read)
        page = ParsedPage(answer, text, found, at=response.ended_at, base=document.base, tree=tree)
        name, patience = self._names.extract, self._names.patience
        return call(name, patience, self._onlooker, lambda: encode_rows(self._extract(page), limit))


def _tree(read: Contents) -> LexborHTMLParser | None:
    if not is_markup(read.mime, read.body):
        return None
    html = markup_of(read.body, read.charset)
    raw, _ = bounded(html.encode("utf-8", "replace") if isinstance(html, str) else html)
    return LexborHTMLParser(raw)
