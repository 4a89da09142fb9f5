"""An indexer slowed on purpose: one page at a time, each for as long as a known law says.

For crawls in the bottle that are compared with the queueing model. Pages are parsed,
archived and indexed for real; only the time it takes is drawn instead of spent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fieldmouse.indexer.inline import InlineLane
from fieldmouse.records import Failed, Moved, Page, Unchanged


class SlowLane(InlineLane):
    """A shard that holds one page until its service is over."""

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
            return  # closed meanwhile; nobody waits for the answer
        self._answers.append(self._shard.take(number, outcome))
        self._busy = False
        self._tell()


def slow_lane(draw: Callable[[], float]) -> type[SlowLane]:
    """A kind of lane whose services last as long as `draw` says, in seconds."""

    class Drawn(SlowLane):
        service = staticmethod(draw)

    return Drawn
