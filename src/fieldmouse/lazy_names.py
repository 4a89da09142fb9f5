"""Version and public names of the package `fieldmouse`; each name is imported on first use.

Kept apart from `fieldmouse/__init__.py`, which holds imports only.
"""

from __future__ import annotations

from importlib import import_module

__version__ = "0.1.0"

#: Module of each public name.
MODULE_OF = {
    "Crawl": "fieldmouse.api.crawling",
    "CrawlLocked": "fieldmouse.errors",
    "CrawlReader": "fieldmouse.reader.crawl_reader",
    "FieldmouseError": "fieldmouse.errors",
    "MultiCrawlReader": "fieldmouse.reader.crawl_reader",
    "StoredPage": "fieldmouse.reader.page",
    "Summary": "fieldmouse.types.stats",
    "crawl": "fieldmouse.api.crawling",
    "open": "fieldmouse.api.crawling",
}
__all__ = sorted([*MODULE_OF, "__version__"])
FORMER_NAMES = {"ReadingRoom": "CrawlReader", "ReadingRooms": "MultiCrawlReader"}


def __getattr__(name: str) -> object:
    present = FORMER_NAMES.get(name, name)
    if present not in MODULE_OF:
        raise AttributeError(f"module 'fieldmouse' has no attribute {name!r}")
    value: object = getattr(import_module(MODULE_OF[present]), present)
    return value


def __dir__() -> list[str]:
    return __all__
