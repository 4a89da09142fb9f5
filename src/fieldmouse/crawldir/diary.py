"""Best-effort log: a log whose write errors never stop the crawl.

Decisions, page traces and control records describe a crawl and are not worth losing a page for.
If the disk refuses a write, the log stops with a warning and the crawl continues. A
reader finds at worst a torn tail and cuts it.
"""

from __future__ import annotations

import logging
from pathlib import Path

from fieldmouse.crawldir.log import Log, whole_length

log = logging.getLogger(__name__)


class Diary(Log):
    """Log that continues the file at `path` after its last whole record."""

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
        log.warning(
            "`%s` is not written any further: %s; the crawl continues without it", self.path, trouble.strerror
        )
