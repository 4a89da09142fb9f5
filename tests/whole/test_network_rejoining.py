"""An agent that was fenced joins again, while what it said under its old name is still on its way."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fieldmouse.balancer.board.contract import Board, Name, Pulse
from fieldmouse.balancer.board.memory.board import MemoryBoard
from fieldmouse.clock import Clock
from fieldmouse.errors import Superseded
from fieldmouse.lab import bottle
from fieldmouse.lab.meadow.meadow import Meadow
from fieldmouse.lab.meadow.options import MeadowOptions

from .test_network_in_a_bottle import Band, charter, is_polite, pages_alone, pages_of

CALLS = ("beat", "lease", "give_back", "book", "ask_addresses", "free_addresses")


class LaggingBoard(MemoryBoard):
    """Once, when it is armed, a message arrives after all that its agent does to come back from a fence."""

    armed = False
    late: Name | None = None
    refused = 0

    async def beat(self, name: Name, advert: bytes, lease: float, after: str = "") -> Pulse:
        pulse = await super().beat(name, advert, lease, after)
        if self.late is not None and name != self.late:
            self.came_back.set()
        return pulse

    async def lag(self, call: str, name: Name, *words: Any) -> Any:
        act = getattr(MemoryBoard if call != "beat" else LaggingBoard, call)
        if not self.armed or self.late is not None:
            return await act(self, name, *words)
        self.late, self.came_back = name, asyncio.Event()
        await super().leave(name)  # as the board does when a lease is over
        await self.came_back.wait()
        try:
            return await act(self, name, *words)
        except Superseded:
            self.refused += 1
            raise


def lagging(call: str) -> type[LaggingBoard]:
    """One whose calls of that name may lag."""

    async def late(self: LaggingBoard, name: Name, *words: Any) -> Any:
        return await self.lag(call, name, *words)

    return type("LaggingBoard", (LaggingBoard,), {call: late})


@pytest.mark.parametrize("call", CALLS)
def test_an_answer_meant_for_its_old_name_does_not_end_an_agent_that_joined_again(
    call: str, tmp_path: Path
) -> None:
    meadow = Meadow(MeadowOptions(hosts=4, pages=60, seed=21, page_kb=1.0, links=10, robots=0.5))
    alone = pages_alone(tmp_path / "alone", meadow)
    kind = lagging(call)
    boards: list[LaggingBoard] = []

    class LaggingBand(Band):
        def board(self) -> Board:
            boards.append(kind(self.servers[0]))
            return boards[-1]

    async def life(clock: Clock) -> Band:
        band = LaggingBand(tmp_path, meadow, clock)
        await MemoryBoard(band.servers[0]).found(charter(band.settings, meadow.seeds))
        band.start("a", seeded=True)
        await clock.sleep(8.0)
        boards[0].armed = True
        (summary,) = (await band.ended()).values()
        assert (summary.exit, summary.lost) == (0, 0)
        return band

    band = bottle.run(life)
    assert [board.refused for board in boards] == [1], "it was late, and a newer start was there"
    assert set(pages_of(tmp_path / "a")) == alone
    is_polite(band.arrivals)
