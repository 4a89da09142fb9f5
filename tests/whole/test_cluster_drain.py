"""Drained agents end, whatever does not answer: their leases return the rest."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fieldmouse.aio import cancel_and_wait
from fieldmouse.clock import Clock
from fieldmouse.cluster.coordinator import AgentId, Coordinator, HeartbeatReply
from fieldmouse.errors import CoordinatorUnreachable, DrainTimeout
from fieldmouse.testing import virtual_time
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.testing.memory_coordinator import MemoryCoordinator
from fieldmouse.types.stats import Summary
from fieldmouse.workers.inline_worker import InlineWorker

from .test_cluster_virtual_time import Band, charter

BOUND = 110.0
"""Seconds: a process waits two minutes at most."""


class OddBoard(MemoryCoordinator):
    odd = False


class DeafBoard(OddBoard):
    """A call cancelled at the moment of its result continues, as with `asyncio.wait_for` of Python 3.11."""

    async def heartbeat(self, name: AgentId, *words: Any, **more: Any) -> HeartbeatReply:
        if self.odd:
            try:
                await asyncio.sleep(1e9)
            except asyncio.CancelledError:
                type(self).odd = False
        return await super().heartbeat(name, *words, **more)


class StubbornBoard(OddBoard):
    """It never gets the goodbye of an agent, and takes a cancellation for a broken connection three times."""

    times = 0

    async def leave(self, name: AgentId) -> None:
        try:
            await asyncio.sleep(1e9)
        except asyncio.CancelledError as called_off:
            type(self).times += 1
            if self.times > 3:
                raise
            raise CoordinatorUnreachable("it does not answer", "wait") from called_off


class SilentBoard(OddBoard):
    async def join(self, name: AgentId, lease: float) -> None:
        raise CoordinatorUnreachable("it does not answer", "wait")


def drained(path: Path, kind: type[OddBoard], after: float, lane: type[InlineWorker] = InlineWorker) -> Summary:
    """The end of an agent that is told to stop at that time."""
    meadow = Meadow(MeadowOptions(hosts=6, pages=200, seed=4, page_kb=1.0, links=10))
    kind.odd = False

    class OddBand(Band):
        def board(self) -> Coordinator:
            return kind(self.servers[0])

    async def life(clock: Clock) -> Summary:
        band = OddBand(path, meadow, clock, lane=lane)
        await band.board().create_crawl(charter(band.settings, meadow.seeds))
        task = band.start("a", seeded=True)
        await clock.sleep(after)
        kind.odd = True
        await clock.sleep(6.0)
        crew = band.living["a"][0]
        crew.crawler.stop_by_user()
        try:
            async with asyncio.timeout(BOUND):
                return await asyncio.shield(task)
        finally:
            task.cancel()
            async with asyncio.timeout(BOUND):
                await crew.close()

    return virtual_time.run_in_virtual_time(life)


@pytest.mark.parametrize("kind", [DeafBoard, StubbornBoard])
def test_an_agent_ends_although_the_coordinator_does_not_answer(kind: type[OddBoard], tmp_path: Path) -> None:
    assert drained(tmp_path, kind, 9.0).exit == 130


def test_an_agent_waiting_to_join_can_be_stopped(tmp_path: Path) -> None:
    told = drained(tmp_path, SilentBoard, 3.0)
    assert (told.exit, told.pages) == (130, 0)


def test_an_agent_with_a_hanging_worker_leaves_its_pages_to_others(tmp_path: Path) -> None:
    class StuckLane(InlineWorker):
        @property
        def outstanding_pages(self) -> int:
            return 1

    with pytest.raises(DrainTimeout):
        drained(tmp_path, OddBoard, 3.0, StuckLane)


def test_a_task_that_ignores_cancellation_is_cancelled_again() -> None:
    async def life(clock: Clock) -> None:
        async def deaf(times: int) -> None:
            for _ in range(times):
                try:
                    await clock.sleep(1e9)
                except asyncio.CancelledError:
                    continue
            await clock.sleep(1e9)

        for times, ends in ((0, True), (2, True), (7, False)):
            task = asyncio.create_task(deaf(times))
            await clock.sleep(1.0)
            assert await cancel_and_wait([task]) == task.done() == ends
        assert await cancel_and_wait([task])
        assert await cancel_and_wait([])

    virtual_time.run_in_virtual_time(life)
