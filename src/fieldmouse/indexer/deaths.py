"""Causes of worker deaths: a page, a plug-in, the local disk or memory, or unknown.

A page that kills its worker twice is given up. An error of the local disk or memory is not
blamed on a page: it ends the crawl with an error. Repeated deaths with nothing stored in
between also end it, because each of them makes the crawler fetch the same pages again.

If a plug-in kills its worker, the page is sent again and stored without plug-ins. After a
few such deaths, all pages of the shard are.
"""

from __future__ import annotations

import logging
import signal
from collections import Counter
from pathlib import Path

from fieldmouse.errors import CrawlDirError, typed

log = logging.getLogger(__name__)

MAX_DEATHS = 2  # of workers that had the same page in hand, before the page is blamed
KILLS = 4  # the same for SIGKILL, which is more often sent by a user or the system
MAX_FAILED_STARTS = 3  # consecutive workers that die before they are ready
PLUGINS = 3  # workers killed by plug-ins before the shard disables plug-ins
IN_VAIN = 6  # consecutive deaths that no page explains, with nothing stored in between


class Deaths:
    """Record of the workers that one shard lost."""

    def __init__(self, directory: Path, shard: int):
        self._directory, self._shard = directory, shard
        self._page_deaths: Counter[str] = Counter()
        self._plugin_deaths: Counter[str] = Counter()
        self._plugin_total = 0
        self._failed_starts = self._fruitless = 0

    def condemned(self, url: str) -> bool:
        """Whether this page has killed enough workers to be given up."""
        return bool(self._page_deaths) and self._page_deaths[url] >= KILLS

    def bare(self, url: str) -> bool:
        """Whether this page is to be read without plug-ins."""
        if self._plugin_total >= PLUGINS:
            return True
        return bool(self._plugin_deaths) and self._plugin_deaths[url] >= KILLS // MAX_DEATHS

    def was_born(self) -> None:
        self._failed_starts = 0

    def stored(self) -> None:
        """Reset the count of consecutive deaths: new pages were committed."""
        self._fruitless = 0

    def before_birth(self) -> CrawlDirError | None:
        """Record a death while opening the shard; return the error if there were too many."""
        self._failed_starts += 1
        if self._failed_starts < MAX_FAILED_STARTS:
            return None
        return CrawlDirError(
            f"the indexer of `{self._directory}` (shard {self._shard}) cannot start",
            f"`fieldmouse doctor {typed(self._directory)}` may find the cause; the last output is above",
        )

    def at_work(self, url: str, code: int, in_plugin: bool = False) -> CrawlDirError | None:
        """Record a death with the page `url` in hand ("" for none); return the error if a page is not the
        cause."""
        if code == -signal.SIGBUS:
            # Only a memory-mapped file raises SIGBUS, and pages are not mapped.
            return CrawlDirError(
                f"a file in `{self._directory}` cannot be read or written where it is mapped into memory",
                "the disk is full or failing, or a file was truncated; nothing is lost: repair that, then"
                f" `fieldmouse resume {typed(self._directory)}`",
            )
        if url and in_plugin:
            self._plugin_deaths[url] += 1 if code == -signal.SIGKILL else KILLS // MAX_DEATHS
            self._plugin_total += code != -signal.SIGKILL
            log.warning("a plug-in brought its worker down, on %s", url)
            if self._plugin_total == PLUGINS:
                log.warning("from now on shard %d reads pages without plug-ins", self._shard)
        elif url:
            self._page_deaths[url] += 1 if code == -signal.SIGKILL else KILLS // MAX_DEATHS
        if not url or code == -signal.SIGKILL:
            self._fruitless += 1
        if self._fruitless < IN_VAIN:
            return None
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return CrawlDirError(
            f"the indexer of `{self._directory}` (shard {self._shard}) died {IN_VAIN} times and stored"
            f" nothing in between (the last time: {how})",
            "nothing is lost; make sure that there is enough memory, then"
            f" `fieldmouse resume {typed(self._directory)}`",
        )
