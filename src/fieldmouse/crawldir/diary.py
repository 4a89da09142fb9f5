"""A log that nothing depends on, so that it may fail without anything failing with it.

What a crawl writes about itself (decisions, pages at the buffer, rules) is worth
having and worth no page. If the disk refuses it, it is given up with a warning and
the crawl goes on. The reader finds a torn tail at worst, and cuts it.
"""

from __future__ import annotations

import logging
from pathlib import Path

from fieldmouse.crawldir.log import Log, whole_length

log = logging.getLogger(__name__)


class Diary(Log):
    """Continues the file at `path` behind its last whole record."""

    def __init__(self, path: Path) -> None:
        self._given_up = False
        try:
            super().__init__(path, whole_length(path))
        except OSError as trouble:
            super().__init__(path)
            self._give_up(trouble)

    def begin(self) -> None:
        try:
            super().begin()
        except OSError as trouble:
            self._give_up(trouble)

    def append(self, record: bytes) -> int:
        return self.length if self._given_up else super().append(record)

    def flush(self) -> int:
        try:
            return self._written if self._given_up else super().flush()
        except OSError as trouble:
            self._give_up(trouble)
            return self._written

    def sync(self) -> None:
        try:
            if not self._given_up:
                super().sync()
        except OSError as trouble:
            self._give_up(trouble)

    def _give_up(self, trouble: OSError) -> None:
        self._given_up = True
        self._parts.clear()
        self._buffered = 0
        log.warning("`%s` is not continued: %s; the crawl goes on without it", self.path, trouble.strerror)
