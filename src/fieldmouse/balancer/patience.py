"""What an agent does while its board does not answer: it says so once, and tries again."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from fieldmouse.clock import Clock
from fieldmouse.errors import BoardUnreachable

log = logging.getLogger(__name__)

PAUSE = 0.3
"""Seconds between two tries to reach the board."""


class BoardPatience:
    """`on_return` hears that it answers again."""

    def __init__(self, clock: Clock, on_return: Callable[[], None]):
        self._clock, self._on_return = clock, on_return
        self.answered = True  # it did when it was asked last
        self._doubtful = False  # it may have granted what we never heard of

    async def until_done(self, act: Callable[[], Awaitable[Any]]) -> Any:
        """Try until the board answers."""
        while True:
            try:
                done = await act()
            except BoardUnreachable as trouble:
                self.note_silence(trouble)
                await self._clock.sleep(PAUSE)
                continue
            self.note_answer()
            return done

    def take_doubt(self) -> bool:
        """Whether it should be found out what the board has granted; asked once for each silence or doubt."""
        doubtful, self._doubtful = self._doubtful, False
        return doubtful

    def doubt(self) -> None:
        self._doubtful = True

    def note_silence(self, trouble: BoardUnreachable) -> None:
        self.doubt()  # and that it answers others since does not end it
        if self.answered:
            self.answered = False
            log.warning("%s; waiting for it", trouble)

    def note_answer(self) -> None:
        if not self.answered:
            self.answered = True
            log.warning("the board answers again; going on")
            self._on_return()
