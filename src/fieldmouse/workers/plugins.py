"""Plug-ins of one worker, and the extraction of rows.

The user's `extract` is called for each stored page. Its rows are encoded at once and archived beside the response,
so they are exactly as durable as their page.
"""

from __future__ import annotations

from functools import partial

from selectolax.lexbor import LexborHTMLParser

from fieldmouse.import_string import load_function
from fieldmouse.parse.content import Contents
from fieldmouse.parse.parse_cost import bounded
from fieldmouse.parse.readers import READERS, is_markup, markup_of, own_readers
from fieldmouse.plugins.link_filter import Admission
from fieldmouse.plugins.page import Answer, FoundLink, PageText, ParsedPage
from fieldmouse.plugins.registry import PluginNames
from fieldmouse.plugins.rows import Rows, encode_rows
from fieldmouse.plugins.runner import Complaint, Onlooker, call
from fieldmouse.types.outcome import Response
from fieldmouse.types.request import Link


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


class Guests:
    """The configured plug-ins; without any, nothing is loaded or called."""

    def __init__(self, names: PluginNames, onlooker: Onlooker | None = None):
        """`onlooker` is notified of each call. Raises `FieldmouseError` if a plug-in cannot be loaded."""
        onlooker = onlooker or Onlooker()
        self.harvest = Harvest(names, onlooker) if names.extract else None
        self.admission = Admission(names, onlooker) if names.admit else None
        self.readers = own_readers(names, onlooker) if names.readers else READERS
