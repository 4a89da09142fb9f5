"""Plug-ins of one worker, and the extraction of rows.

The user's `extract` is called for each stored page. Its rows are encoded at once and archived beside the
response, so they are exactly as durable as their page.
"""

from __future__ import annotations

from functools import partial

from selectolax.lexbor import LexborHTMLParser

from fieldmouse.import_string import import_callable
from fieldmouse.parse.content import PageContent
from fieldmouse.parse.parse_cost import limit_parse_cost
from fieldmouse.parse.readers import READERS, html_for_parser, is_html, load_readers
from fieldmouse.plugins.link_filter import LinkFilter
from fieldmouse.plugins.page import FoundLink, PageText, ParsedPage, RawPage
from fieldmouse.plugins.registry import PluginNames
from fieldmouse.plugins.rows import EncodedRows, encode_rows
from fieldmouse.plugins.runner import PluginError, Watchdog, call_plugin
from fieldmouse.types.outcome import Response
from fieldmouse.types.request import Request


class Extractor:
    def __init__(self, names: PluginNames, onlooker: Watchdog):
        """Load `extract`; raises `FieldmouseError` if it cannot be loaded."""
        self._extract = import_callable(names.extract, "extract", names.path)
        self._names, self._onlooker = names, onlooker

    def extract_rows(
        self, link: Request, response: Response, read: PageContent, bare: bool = False
    ) -> EncodedRows | PluginError:
        """The rows of the page, or the plug-in's error; `extract` is not called if `bare`."""
        if bare:
            return PluginError(self._names.extract, "was left out: plug-ins brought workers down")
        document, status, limit = read.document, response.status, self._names.most_bytes
        answer = RawPage(url=link.url, status=status, mime=read.mime, body=read.body, fields=response.headers)
        text = PageText(document.text, document.title, document.hrefs, document.language)
        found = FoundLink(link.url, link.via, link.depth, link.kind.value)
        tree = partial(_tree, read)
        page = ParsedPage(answer, text, found, at=response.ended_at, base=document.base, tree=tree)
        name, patience = self._names.extract, self._names.patience
        return call_plugin(name, patience, self._onlooker, lambda: encode_rows(self._extract(page), limit))


def _tree(read: PageContent) -> LexborHTMLParser | None:
    if not is_html(read.mime, read.body):
        return None
    html = html_for_parser(read.body, read.charset)
    raw, _ = limit_parse_cost(html.encode("utf-8", "replace") if isinstance(html, str) else html)
    return LexborHTMLParser(raw)


class WorkerPlugins:
    """The configured plug-ins; without any, nothing is loaded or called."""

    def __init__(self, names: PluginNames, onlooker: Watchdog | None = None):
        """`onlooker` is notified of each call. Raises `FieldmouseError` if a plug-in cannot be loaded."""
        onlooker = onlooker or Watchdog()
        self.extractor = Extractor(names, onlooker) if names.extract else None
        self.link_filter = LinkFilter(names, onlooker) if names.admit else None
        self.readers = load_readers(names, onlooker) if names.readers else READERS
