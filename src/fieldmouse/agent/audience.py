"""Whoever takes the pages of a crawl while it runs, as the crawl sees it.

The crawl asks two things: should I wait, and may I go? Both are answered at once, from
another thread if need be; nobody is called back.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Protocol

from fieldmouse.clock import Clock

TICK = 0.1
EAGERLY = 0.5
"""Seconds between two checkpoints that somebody waits for when all else is done."""


class Audience(Protocol):
    def is_behind(self) -> bool:
        """Whether it has so many pages before it that no more should be fetched now."""

    def is_content(self) -> bool:
        """Whether it has taken all that is durable, or wants no more."""

    def is_eager(self) -> bool:
        """Whether it can go on as soon as there is another checkpoint."""


class Together:
    """Several audiences as one: none may be behind, and all must be content."""

    def __init__(self, *audiences: Audience):
        self._audiences = audiences

    def is_behind(self) -> bool:
        return any(audience.is_behind() for audience in self._audiences)

    def is_content(self) -> bool:
        # All are asked: one may begin to hurry when it is asked for the first time.
        content = [audience.is_content() for audience in self._audiences]
        return all(content)

    def is_eager(self) -> bool:
        return any(audience.is_eager() for audience in self._audiences)


async def see_off(
    audience: Audience, checkpoint: Callable[[], Awaitable[None]], clock: Clock, *, every: float
) -> None:
    """Stay until it has all pages, the last ones included: only a checkpoint remembers how far it got."""
    sealed_at = -math.inf
    while sealed_at < 0 or not audience.is_content():
        if clock.now() - sealed_at >= (min(EAGERLY, every) if audience.is_eager() else every):
            await checkpoint()
            sealed_at = clock.now()
        await clock.sleep(TICK)
