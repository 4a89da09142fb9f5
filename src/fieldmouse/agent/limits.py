"""Limits that stop a crawl although work is left."""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from fieldmouse.outcome import StoppedBy

log = logging.getLogger(__name__)


class CrawlLimits(msgspec.Struct, frozen=True):
    """0 means no limit; `checkpoint` is the seconds between two checkpoints."""

    pages: int = 0
    seconds: float = 0.0
    min_free: int = 0
    checkpoint: float = 5.0

    def reached(self, *, pages: bool, seconds: float, free_bytes: Callable[[], int]) -> StoppedBy:
        """The limit that is reached, or `NOTHING`; `pages` says whether there are enough pages."""
        if pages:
            return StoppedBy.PAGES
        if self.seconds and seconds >= self.seconds:
            return StoppedBy.TIME
        if self.min_free and free_bytes() < self.min_free:
            log.error("less than %d MiB are free on the disk; stopping", self.min_free >> 20)
            return StoppedBy.DISK
        return StoppedBy.NOTHING
