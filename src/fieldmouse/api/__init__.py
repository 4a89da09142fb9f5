"""Python interface of fieldmouse, also used by the command line: plan a crawl, run it, and read its pages.

A crawl is described by keywords in Python or options in a terminal. `planning` turns them into settings and
reports every error in them before anything is created. `run` executes a plan in the calling thread: the
command does so in its main thread, with its own signal handling, event loop and garbage collection
settings; the library uses a separate thread (`BackgroundRun`), so that nothing changes for the program
around it.

Pages are delivered from the log: a checkpoint makes a page durable, `PageStream` notifies the loop, and the
loop (`page_iterator`) reads the page back from the outcome log. When the loop asks for the next page, the
page counts as delivered, which the next checkpoint records.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, overload

from fieldmouse.api.crawling import Crawl, crawl
from fieldmouse.api.planning import Plan, plan, plan_new, plan_to_resume, run
from fieldmouse.api.refreshing import plan_to_refresh, refresh

if TYPE_CHECKING:
    from fieldmouse.reader.crawl_reader import CrawlReader, MultiCrawlReader


__all__ = ["Crawl", "Plan", "crawl", "open", "plan", "plan_new", "plan_to_refresh", "plan_to_resume"]
__all__ += ["refresh", "run"]


@overload
def open(directory: str | os.PathLike[str]) -> CrawlReader: ...  # type: ignore[overload-overlap]


@overload
def open(directory: Iterable[str | os.PathLike[str]]) -> MultiCrawlReader: ...


def open(directory: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> CrawlReader | MultiCrawlReader:
    """Open the crawl in `directory` for reading, also while it runs. Takes no lock and writes nothing.

    A list of directories is read as one crawl: of a page stored in several of them, the newest copy
    counts.
    """
    from fieldmouse.reader.crawl_reader import CrawlReader, MultiCrawlReader

    # As in `Crawl`: the path must stay valid if the program calls `os.chdir`.
    if isinstance(directory, str | os.PathLike):
        return CrawlReader(Path(directory).absolute())
    return MultiCrawlReader(Path(path).absolute() for path in directory)
