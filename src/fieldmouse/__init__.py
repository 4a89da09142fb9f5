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

from fieldmouse.lazy_names import __all__ as __all__
from fieldmouse.lazy_names import __dir__ as __dir__
from fieldmouse.lazy_names import __getattr__ as __getattr__
from fieldmouse.lazy_names import __version__ as __version__

if TYPE_CHECKING:
    from fieldmouse.api.crawling import Crawl as Crawl
    from fieldmouse.api.crawling import crawl as crawl
    from fieldmouse.api.crawling import open as open
    from fieldmouse.errors import CrawlLocked as CrawlLocked
    from fieldmouse.errors import FieldmouseError as FieldmouseError
    from fieldmouse.reader.crawl_reader import CrawlReader as CrawlReader
    from fieldmouse.reader.crawl_reader import MultiCrawlReader as MultiCrawlReader
    from fieldmouse.reader.page import StoredPage as StoredPage
    from fieldmouse.types.stats import Summary as Summary
