"""Why a worker died: of a page, of our own disk or memory, or nobody knows of what.

A page that brings its worker down twice is given up. What is our own trouble costs
no page: it ends the crawl with a sentence, and so do deaths that go on and on with
nothing stored in between, since each of them costs servers the same pages again.

A plug-in that brings its worker down costs the page what it was asked for, and no
more: the page is sent again and stored without. After a few of them all pages are.
"""

from __future__ import annotations

import logging
import signal
from collections import Counter
from pathlib import Path

from fieldmouse.errors import CrawlDirError, typed

log = logging.getLogger(__name__)

DEATHS = 2  # of workers with the same page in hand, before the page is blamed
KILLS = 4  # the same for SIGKILL, which is more often somebody's doing than the page's
STILLBORN = 3  # workers in a row that die before they are ready
PLUGINS = 3  # workers brought down by plug-ins, before a shard does without them
IN_VAIN = 6  # deaths in a row that no page explains, with nothing stored in between


class Deaths:
    """The workers that one shard lost."""

    def __init__(self, directory: Path, shard: int):
        self._directory, self._shard = directory, shard
        self._blame: Counter[str] = Counter()
        self._in_plugins: Counter[str] = Counter()
        self._by_plugins = 0
        self._stillborn = self._in_vain = 0

    def condemned(self, url: str) -> bool:
        """Whether this page has brought its readers down often enough."""
        return bool(self._blame) and self._blame[url] >= KILLS

    def bare(self, url: str) -> bool:
        """Whether this page is to be read without plug-ins."""
        if self._by_plugins >= PLUGINS:
            return True
        return bool(self._in_plugins) and self._in_plugins[url] >= KILLS // DEATHS

    def was_born(self) -> None:
        self._stillborn = 0

    def stored(self) -> None:
        """Pages count that did not count before."""
        self._in_vain = 0

    def before_birth(self) -> CrawlDirError | None:
        """A worker died while it opened its shard; the error if that is enough."""
        self._stillborn += 1
        if self._stillborn < STILLBORN:
            return None
        return CrawlDirError(
            f"the indexer of `{self._directory}` (shard {self._shard}) cannot start",
            f"`fieldmouse doctor {typed(self._directory)}` may know why; its last words are above",
        )

    def at_work(self, url: str, code: int, in_plugin: bool = False) -> CrawlDirError | None:
        """A worker died with the page `url` in hand, or none; the error if it was our own trouble."""
        if code == -signal.SIGBUS:
            # Only a file that is mapped into memory can do this, and no page is one.
            return CrawlDirError(
                f"a file in `{self._directory}` cannot be read or written where it is mapped into memory",
                "the disk is full or failing, or a file was cut short: nothing is lost; mend that, then"
                f" `fieldmouse resume {typed(self._directory)}`",
            )
        if url and in_plugin:
            self._in_plugins[url] += 1 if code == -signal.SIGKILL else KILLS // DEATHS
            self._by_plugins += code != -signal.SIGKILL
            log.warning("a plug-in brought its worker down, on %s", url)
            if self._by_plugins == PLUGINS:
                log.warning("from now on shard %d reads pages without plug-ins", self._shard)
        elif url:
            self._blame[url] += 1 if code == -signal.SIGKILL else KILLS // DEATHS
        if not url or code == -signal.SIGKILL:
            self._in_vain += 1
        if self._in_vain < IN_VAIN:
            return None
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return CrawlDirError(
            f"the indexer of `{self._directory}` (shard {self._shard}) died {IN_VAIN} times and stored"
            f" nothing in between (the last time: {how})",
            "is there memory enough? nothing is lost: when that is mended,"
            f" `fieldmouse resume {typed(self._directory)}`",
        )
