"""fieldmouse: a polite web crawler whose every decision is a policy you can solve, simulate and run live.

    for page in fieldmouse.Crawl("atlas", seeds=["https://example.org/"], delay=1.0, pages=1000):
        print(page.title, page.url)

    atlas = fieldmouse.open("atlas")
    atlas.search("field mouse")

`Crawl` and `crawl` crawl, `open` reads. Names are imported on first use: `import fieldmouse` by itself
loads no crawler. docs/guides/python.md has the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fieldmouse.api import open as open
    from fieldmouse.api.crawling import Crawl as Crawl
    from fieldmouse.api.crawling import crawl as crawl
    from fieldmouse.errors import CrawlLocked as CrawlLocked
    from fieldmouse.errors import FieldmouseError as FieldmouseError
    from fieldmouse.reader.crawl_reader import CrawlReader as CrawlReader
    from fieldmouse.reader.crawl_reader import MultiCrawlReader as MultiCrawlReader
    from fieldmouse.reader.page import StoredPage as StoredPage
    from fieldmouse.types.stats import Summary as Summary


__version__ = "0.1.0"

__all__ = [
    "Crawl",
    "CrawlLocked",
    "CrawlReader",
    "FieldmouseError",
    "MultiCrawlReader",
    "StoredPage",
    "Summary",
    "__version__",
    "crawl",
    "open",
]

#: Submodule of each public name, imported on first use.
_MODULE_OF = {
    "CrawlReader": "reader",
    "Crawl": "api",
    "CrawlLocked": "errors",
    "FieldmouseError": "errors",
    "MultiCrawlReader": "reader",
    "StoredPage": "reader",
    "Summary": "types.stats",
    "crawl": "api",
    "open": "api",
}


_RENAMED = {"ReadingRoom": "CrawlReader", "ReadingRooms": "MultiCrawlReader"}


def __getattr__(name: str) -> object:
    name = _RENAMED.get(name, name)
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'fieldmouse' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"fieldmouse.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
