"""Conditions that end a crawl: stop requests, limits, and failures in callbacks.

Limits count for one crawl, or for all agents of a cluster. Fetch workers, worker processes and timers
call back from the event loop, which logs their exceptions and continues. But if the frontier cannot be
read or written, continuing means a crawl that never ends or that loses URLs. So code that touches the
crawl's files runs inside the failure latch, which lets no exception out and keeps the first one for the
main loop. After that no checkpoint may be written: memory and disk may differ.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fieldmouse.aio import WakeUpCallbacks
from fieldmouse.clock import Clock
from fieldmouse.errors import StorageError
from fieldmouse.types.reason import OutcomeKind, StoppedBy

if TYPE_CHECKING:
    from fieldmouse.cluster.coordinator import CrawlTotals


class StopRequest:
    """The first reason given counts; no reason means that the work is done."""

    def __init__(self, bell: WakeUpCallbacks) -> None:
        self._bell = bell
        self.reason = StoppedBy.NOTHING
        self.is_requested = False

    def request_stop(self, reason: StoppedBy = StoppedBy.NOTHING) -> None:
        self.reason = self.reason or reason
        self.is_requested = True
        self._bell.fire()


log = logging.getLogger(__name__)


class CrawlLimits(msgspec.Struct, frozen=True):
    """0 means no limit; `checkpoint_every` is the seconds between two checkpoints."""

    seconds: float = 0.0
    min_free: int = 0
    checkpoint_every: float = 5.0

    def limit_reached(self, *, pages: bool, seconds: float, free_bytes: Callable[[], int]) -> StoppedBy:
        """The limit that is reached, or `NOTHING`; `pages` says whether there are enough pages."""
        if pages:
            return StoppedBy.PAGE_LIMIT
        if self.seconds and seconds >= self.seconds:
            return StoppedBy.TIME_LIMIT
        if self.min_free and free_bytes() < self.min_free:
            log.error("less than %d MiB are free on the disk; stopping", self.min_free >> 20)
            return StoppedBy.DISK_FULL
        return StoppedBy.NOTHING


class ClusterLimits:
    """0 means no limit. An `endless` crawl also continues when no URL waits."""

    def __init__(self, pages: int, seconds: float, clock: Clock, *, endless: bool):
        self._pages, self._seconds, self._clock, self._endless = pages, seconds, clock, endless
        self._over_at = math.inf

    def limit_reached(self, books: CrawlTotals) -> StoppedBy:
        """The limit that the coordinator's totals reach; `NOTHING` if no work is left."""
        self._over_at = math.inf
        if not books.waiting and not self._endless:
            return StoppedBy.NOTHING
        if self._seconds:
            self._over_at = self._clock.now() + self._seconds - books.age
        if self._pages and books.kinds.get(OutcomeKind.PAGE, 0) >= self._pages:
            return StoppedBy.PAGE_LIMIT
        return StoppedBy.TIME_LIMIT if self.is_time_over else StoppedBy.NOTHING

    @property
    def is_time_over(self) -> bool:
        """Whether the crawl's time is over, judged by its age at the last heartbeat."""
        return self._clock.now() >= self._over_at


class FailureLatch:
    def __init__(self, home: Path):
        self._home = home
        self._error: Exception | None = None

    def record(self, error: Exception) -> None:
        if self._error is None:
            self._error = StorageError(self._home, error) if isinstance(error, OSError) else error

    def raise_if_failed(self) -> None:
        """Raise the exception that was caught, if any."""
        if self._error is not None:
            raise self._error

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, Exception):
            self.record(error)
            return True
        return False
