"""New links of a page, by lxml and with a set: the best that plain Python does, shared by two rivals.

`urljoin` and `urldefrag` of the standard library cost more than the parse. Most links
are a path or a whole URL with nothing to resolve, and those skip them.
"""

from collections.abc import Iterator
from urllib.parse import urljoin

from lxml import etree, html

_PARSER = html.HTMLParser(encoding="utf-8", remove_comments=True)
_HREFS = etree.XPath("//a/@href", smart_strings=False)


class Links:
    """Remembers every URL it has given out."""

    def __init__(self, seed: str):
        self._seen = {seed}

    def new(self, body: bytes, base: str) -> Iterator[str]:
        """The http(s) URLs on a page that no page before had."""
        seen = self._seen
        origin = base[: base.index("/", 8)]
        for href in _HREFS(html.document_fromstring(body, parser=_PARSER)):
            path = href.partition("#")[0]
            if path[:1] == "/" and path[1:2] != "/" and "/." not in path:
                url = origin + path
            elif path[:7] == "http://" and "/." not in path:
                url = path
            else:
                url = urljoin(base, path)
            if url not in seen:
                seen.add(url)
                if url.startswith("http"):
                    yield url
