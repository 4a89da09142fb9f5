"""Concurrency limit by file descriptors: halved when they run out, then slowly raised."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable

from fieldmouse.backpressure import Backpressure
from fieldmouse.clock import Clock

log = logging.getLogger(__name__)

_EASE = 30.0  # seconds after which the limit is doubled
_PLENTY = 4096  # fetch workers; above this the limit is removed


class DescriptorLimit:
    """`on_change` is called when `max_workers`, the limit on fetch workers, has changed."""

    def __init__(self, clock: Clock, meter: Backpressure, on_change: Callable[[], None]):
        self._clock, self._meter, self._on_change = clock, meter, on_change
        self.max_workers = sys.maxsize
        self._squeezed_at = -_EASE
        self._easing: asyncio.TimerHandle | None = None

    def halve(self, moment: float) -> None:
        """Halve the limit because descriptors ran out; at most once in `moment` seconds."""
        now = self._clock.now()
        if now - self._squeezed_at >= moment:
            self._squeezed_at = now
            self.max_workers = max(1, min(self.max_workers, self._meter.active_visits) // 2)
            log.warning("out of file descriptors: continuing with %d fetch workers", self.max_workers)
            self._on_change()
            if self._easing is None:
                self._easing = asyncio.get_running_loop().call_later(_EASE, self._ease)

    def _ease(self) -> None:
        self._easing = None
        if self._clock.now() - self._squeezed_at >= _EASE / 2:
            self.max_workers = 2 * self.max_workers if self.max_workers < _PLENTY else sys.maxsize
            self._on_change()
        if self.max_workers < sys.maxsize:
            self._easing = asyncio.get_running_loop().call_later(_EASE, self._ease)

    def close(self) -> None:
        if self._easing is not None:
            self._easing.cancel()
