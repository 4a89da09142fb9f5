"""Concurrency limit by file descriptors: halved when they run out, then slowly raised."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable

from fieldmouse.backpressure import Meter
from fieldmouse.clock import Clock

log = logging.getLogger(__name__)

_EASE = 30.0  # seconds after which the limit is doubled
_PLENTY = 4096  # fetch workers; above this the limit is removed


class Headroom:
    """`on_change` is called when `robots`, the limit on fetch workers, has changed."""

    def __init__(self, clock: Clock, meter: Meter, on_change: Callable[[], None]):
        self._clock, self._meter, self._on_change = clock, meter, on_change
        self.robots = sys.maxsize
        self._squeezed_at = -_EASE
        self._easing: asyncio.TimerHandle | None = None

    def squeeze(self, moment: float) -> None:
        """Halve the limit because descriptors ran out; at most once in `moment` seconds."""
        now = self._clock.now()
        if now - self._squeezed_at >= moment:
            self._squeezed_at = now
            self.robots = max(1, min(self.robots, self._meter.out) // 2)
            log.warning("out of file descriptors: continuing with %d fetch workers", self.robots)
            self._on_change()
            if self._easing is None:
                self._easing = asyncio.get_running_loop().call_later(_EASE, self._ease)

    def _ease(self) -> None:
        self._easing = None
        if self._clock.now() - self._squeezed_at >= _EASE / 2:
            self.robots = 2 * self.robots if self.robots < _PLENTY else sys.maxsize
            self._on_change()
        if self.robots < sys.maxsize:
            self._easing = asyncio.get_running_loop().call_later(_EASE, self._ease)

    def close(self) -> None:
        if self._easing is not None:
            self._easing.cancel()
