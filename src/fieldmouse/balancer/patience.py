"""Retry of calls while the coordinator does not answer; warns once."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from fieldmouse.clock import Clock
from fieldmouse.errors import BoardUnreachable

log = logging.getLogger(__name__)

PAUSE = 0.3
"""Seconds between two tries to reach the coordinator."""


class BoardPatience:
    """State of the connection; `on_return` is called when the coordinator answers again."""

    def __init__(self, clock: Clock, on_return: Callable[[], None]):
        self._clock, self._on_return = clock, on_return
        self.answered = True  # the last call was answered
        self._needs_reconcile = False  # it may have made grants whose answer was lost

    async def until_done(self, act: Callable[[], Awaitable[Any]]) -> Any:
        """Repeat `act` until the coordinator answers."""
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
        """Whether to find out what the coordinator has granted; True once for each silence or doubt."""
        doubtful, self._needs_reconcile = self._needs_reconcile, False
        return doubtful

    def doubt(self) -> None:
        self._needs_reconcile = True

    def note_silence(self, trouble: BoardUnreachable) -> None:
        self.doubt()  # an answer to another call does not clear it
        if self.answered:
            self.answered = False
            log.warning("%s; waiting for it", trouble)

    def note_answer(self) -> None:
        if not self.answered:
            self.answered = True
            log.warning("the coordinator answers again; continuing")
            self._on_return()
