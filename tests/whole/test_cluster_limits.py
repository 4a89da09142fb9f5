"""Page and time limits that hold for all agents of a crawl together, despite kills."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from fieldmouse.clock import Clock
from fieldmouse.cluster.client.identity import read_original_identity
from fieldmouse.cluster.coordinator import AgentId, HeartbeatReply
from fieldmouse.errors import CoordinatorUnreachable
from fieldmouse.testing import virtual_time
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.testing.memory_coordinator import MemoryCoordinator
from fieldmouse.types.reason import StoppedBy
from fieldmouse.types.stats import Summary

from .test_cluster_virtual_time import Band, charter, is_well, pages_alone, pages_of

NAMES = "abc"


def a_meadow(seed: int, **changes: object) -> Meadow:
    options: dict[str, object] = {"hosts": 12, "pages": 200, "page_kb": 1.0, "links": 10, "robots": 0.5}
    return Meadow(MeadowOptions(seed=seed, **(options | changes)))  # type: ignore[arg-type]


def stored(folder: Path) -> list[str]:
    return [url for name in NAMES if (folder / name).exists() for url in pages_of(folder / name)]


async def crawled(band: Band, *, seeded: bool = True) -> dict[str, Summary]:
    for number, name in enumerate(NAMES):
        band.start(name, seeded=seeded and number == 0)
    return await band.ended()


@pytest.mark.parametrize("servers", [1, 2])
@pytest.mark.parametrize("limit", [1, 2, 60])
def test_agents_together_fetch_exactly_the_page_limit(limit: int, servers: int, tmp_path: Path) -> None:
    meadow = a_meadow(3)

    async def life(clock: Clock) -> Band:
        band = Band(tmp_path, meadow, clock, servers=servers, crawl__pages=limit)
        await band.board().create_crawl(charter(band.settings, meadow.seeds))
        for summary in (await crawled(band)).values():
            assert (summary.exit, summary.stopped_by) == (3, StoppedBy.PAGE_LIMIT)
        assert (await band.board().totals()).kinds["page"] == limit
        return band

    band = virtual_time.run_in_virtual_time(life)
    assert len(stored(tmp_path)) == limit
    is_well(band, tmp_path)


def test_a_crawl_stopped_by_a_limit_continues_with_a_higher_one(tmp_path: Path) -> None:
    meadow = a_meadow(5)
    alone = pages_alone(tmp_path / "alone", meadow)

    async def life(clock: Clock) -> Band:
        band = Band(tmp_path, meadow, clock)
        await band.board().create_crawl(charter(band.settings, meadow.seeds))
        for number, limit in enumerate((30, 75, 0)):
            band.settings = band.settings.override({"crawl.pages": limit})
            await crawled(band, seeded=not number)
            assert len(stored(tmp_path)) == (limit or len(alone))
        return band

    band = virtual_time.run_in_virtual_time(life)
    assert set(stored(tmp_path)) == alone
    is_well(band, tmp_path)


@pytest.mark.parametrize("seed", range(3))
def test_the_limit_holds_when_agents_die_and_pages_fail(seed: int, tmp_path: Path) -> None:
    """Others fetch exactly the pages that a dead agent had reserved."""
    meadow = a_meadow(20 + seed, not_found=0.1, server_error=0.1)
    limit, dice = 70, random.Random(seed)

    async def life(clock: Clock) -> Band:
        band = Band(tmp_path, meadow, clock, servers=1 + seed % 2, crawl__pages=limit)
        await band.board().create_crawl(charter(band.settings, meadow.seeds))
        for number, name in enumerate(NAMES):
            band.start(name, seeded=not number)
        async with asyncio.timeout(600.0):
            for _ in range(4):
                await clock.sleep(dice.uniform(0.5, 6.0))
                name = dice.choice(NAMES)
                if name in band.living and not band.living[name][1].done():
                    await band.kill(name)
                    await clock.sleep(dice.choice([0.0, 1.0, 20.0]))
                    band.start(name)
            await band.kill("c")
            await band.ended()
        books = await band.board().totals()
        assert books.kinds["page"] == limit
        assert sum(books.kinds.values()) == books.settled
        return band

    band = virtual_time.run_in_virtual_time(life)
    is_well(band, tmp_path)


@pytest.mark.parametrize("ahead", [0.0, 4.0, 12.0])
def test_copies_of_a_forgotten_agent_count_within_the_limit(ahead: float, tmp_path: Path) -> None:
    """It returns when a new agent is `ahead` by this many seconds, and both keep the limit together."""
    meadow, limit = a_meadow(31), 60

    async def life(clock: Clock) -> Band:
        band = Band(tmp_path, meadow, clock, crawl__pages=limit)
        board = band.board()
        await board.create_crawl(charter(band.settings, meadow.seeds))
        for number, name in enumerate("ab"):
            band.start(name, seeded=not number)
        await band.ended()
        who = read_original_identity(tmp_path / "a")
        assert who is not None
        assert await board.forget_agent(who.agent, again=True) > 5
        band.start("c")
        await clock.sleep(ahead)
        band.start("a")
        async with asyncio.timeout(600.0):
            await band.ended()
        books = await board.totals()
        assert books.kinds["page"] == limit
        assert sum(books.kinds.values()) == books.settled
        return band

    band = virtual_time.run_in_virtual_time(life)
    is_well(band, tmp_path)


@pytest.mark.parametrize("silent", [False, True])
def test_no_request_is_made_after_the_time_limit(silent: bool, tmp_path: Path) -> None:
    """Also if no heartbeat was answered since; they come every five seconds."""
    meadow = a_meadow(7, pages=2000)

    class MuteBoard(MemoryCoordinator):
        mute = False

        async def beat(self, name: AgentId, *words: Any, **more: Any) -> HeartbeatReply:
            if self.mute:
                raise CoordinatorUnreachable("it does not answer", "wait")
            return await super().heartbeat(name, *words, **more)

    async def life(clock: Clock) -> tuple[Band, float]:
        band = Band(tmp_path, meadow, clock, kind=MuteBoard, crawl__time="33s")
        began = clock.now()
        await band.board().create_crawl(charter(band.settings, meadow.seeds))
        for number, name in enumerate(NAMES):
            band.start(name, seeded=not number)
        await clock.sleep(25.0)
        MuteBoard.mute = silent
        for summary in (await band.ended()).values():
            assert (summary.exit, summary.stopped_by) == (3, StoppedBy.TIME_LIMIT)
        assert MemoryCoordinator(band.servers[0]).crawl_state().stop_reason == "time"
        return band, began

    band, began = virtual_time.run_in_virtual_time(life)
    last = max(arrival.t for arrival in band.arrivals) - began
    assert 31.0 < last < 33.2, "a robot may be on its way when the time is over"
    is_well(band, tmp_path)


@pytest.mark.parametrize("limit", [{"crawl.pages": 40}, {"crawl.time": "20s"}])
def test_a_late_agent_with_an_older_limit_stops_alone(limit: dict[str, object], tmp_path: Path) -> None:
    """The others continued behind it; each agent that leaves reports its own limit."""
    meadow = a_meadow(41)
    alone = pages_alone(tmp_path / "alone", meadow)

    async def life(clock: Clock) -> Band:
        band = Band(tmp_path, meadow, clock)
        without = band.settings
        await band.board().create_crawl(charter(without, meadow.seeds))
        band.settings = without.override(limit)
        band.start("a", seeded=True)
        (first,) = (await band.ended()).values()
        assert first.exit == 3
        band.settings = without
        band.start("a")
        await clock.sleep(5.0)
        band.settings = without.override(limit)
        band.start("b")
        await clock.sleep(15.0)
        late, on = band.living["b"][1], band.living["a"][1]
        assert late.done()
        assert late.result().exit == 3
        assert late.result().stopped_by is first.stopped_by
        assert not on.done(), "this one has no limit"
        band.settings = without
        band.start("c")
        summaries = await band.ended()
        assert (summaries["a"].exit, summaries["c"].exit) == (0, 0)
        whole = summaries["a"].whole
        assert whole is not None
        assert (whole.pages, whole.waiting) == (len(alone), 0), "what it says of all is what is there"
        return band

    band = virtual_time.run_in_virtual_time(life)
    assert set(stored(tmp_path)) == alone
    is_well(band, tmp_path)
