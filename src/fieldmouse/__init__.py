"""fieldmouse: a polite web crawler whose every decision is a policy you can solve, simulate and live with.

    for page in fieldmouse.Crawl("atlas", seeds=["https://example.org/"], delay=1.0, pages=1000):
        print(page.title, page.url)

    atlas = fieldmouse.open("atlas")
    atlas.search("field mouse")

`Crawl` and `crawl` crawl, `open` reads. Everything is loaded when it is first used: `import
fieldmouse` by itself loads no crawler. docs/guides/python.md has the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fieldmouse.api import Crawl as Crawl
    from fieldmouse.api import crawl as crawl
    from fieldmouse.api import open as open
    from fieldmouse.errors import CrawlLocked as CrawlLocked
    from fieldmouse.errors import FieldmouseError as FieldmouseError
    from fieldmouse.reading import ReadingRoom as ReadingRoom
    from fieldmouse.reading import ReadingRooms as ReadingRooms
    from fieldmouse.reading import StoredPage as StoredPage
    from fieldmouse.records import Summary as Summary

__version__ = "0.1.0"

__all__ = [
    "Crawl",
    "CrawlLocked",
    "FieldmouseError",
    "ReadingRoom",
    "ReadingRooms",
    "StoredPage",
    "Summary",
    "__version__",
    "crawl",
    "open",
]

_ROOM_OF = {
    "Crawl": "api",
    "CrawlLocked": "errors",
    "FieldmouseError": "errors",
    "ReadingRoom": "reading",
    "ReadingRooms": "reading",
    "StoredPage": "reading",
    "Summary": "records",
    "crawl": "api",
    "open": "api",
}
"""Where each name lives; its room is loaded when it is asked for."""


def __getattr__(name: str) -> object:
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'fieldmouse' has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(f"fieldmouse.{_ROOM_OF[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
