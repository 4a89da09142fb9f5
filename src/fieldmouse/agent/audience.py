"""Interface of a consumer that takes pages while the crawl runs.

The crawl asks it whether to pause, and whether it may end. The consumer answers at once, from another
thread if need be, and is never called back.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Protocol

from fieldmouse.clock import Clock

TICK = 0.1
EAGERLY = 0.5
"""Seconds between two checkpoints that a consumer waits for after the crawl's end."""


class Audience(Protocol):
    def is_behind(self) -> bool:
        """Whether it has so large a backlog that fetching should pause."""

    def is_content(self) -> bool:
        """Whether it has taken all durable pages, or has stopped reading."""

    def is_eager(self) -> bool:
        """Whether it can continue as soon as there is another checkpoint."""


class Together:
    """Several consumers as one: none may be behind, and all must be content."""

    def __init__(self, *audiences: Audience):
        self._audiences = audiences

    def is_behind(self) -> bool:
        return any(audience.is_behind() for audience in self._audiences)

    def is_content(self) -> bool:
        # Ask all: a consumer may begin to hurry when it is asked for the first time.
        content = [audience.is_content() for audience in self._audiences]
        return all(content)

    def is_eager(self) -> bool:
        return any(audience.is_eager() for audience in self._audiences)


async def see_off(
    audience: Audience, checkpoint: Callable[[], Awaitable[None]], clock: Clock, *, every: float
) -> None:
    """Wait until the consumer has all pages, writing checkpoints: only these store its position."""
    sealed_at = -math.inf
    while sealed_at < 0 or not audience.is_content():
        if clock.now() - sealed_at >= (min(EAGERLY, every) if audience.is_eager() else every):
            await checkpoint()
            sealed_at = clock.now()
        await clock.sleep(TICK)
