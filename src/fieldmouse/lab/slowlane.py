"""Artificially slow indexer: one page at a time, with service times from a known distribution.

It serves crawls in virtual time that are compared with the queueing model. Pages are really parsed,
archived and indexed; only the duration is drawn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fieldmouse.indexer.inline import InlineLane
from fieldmouse.records import Failed, Moved, Page, Unchanged


class SlowLane(InlineLane):
    """Shard that holds one page until its service time has passed."""

    service: Callable[[], float]  # seconds for the next page, set by `slow_lane`
    _busy = False

    @property
    def room(self) -> bool:
        return super().room and not self._busy

    @property
    def outstanding(self) -> int:
        return self._busy + super().outstanding

    def send(self, number: int, outcome: Page | Unchanged | Moved | Failed) -> None:
        assert not self._busy, "one page at a time"
        self._busy = True
        asyncio.get_running_loop().call_later(self.service(), self._serve, number, outcome)

    def _serve(self, number: int, outcome: Page | Unchanged | Moved | Failed) -> None:
        if self._shard is None:
            return  # closed in the meantime; the answer is not needed
        self._answers.append(self._shard.take(number, outcome))
        self._busy = False
        self._tell()


def slow_lane(draw: Callable[[], float]) -> type[SlowLane]:
    """Return a lane class whose service times in seconds come from `draw`."""

    class Drawn(SlowLane):
        service = staticmethod(draw)

    return Drawn
