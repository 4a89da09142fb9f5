"""Agents that join late share the work, in virtual time: all stages are real except network and workers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fieldmouse.clock import Clock
from fieldmouse.testing import virtual_time
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.workers.inline_worker import InlineWorker

from .test_cluster_virtual_time import Band, charter, is_polite

WEB = {"seed": 3, "page_kb": 1.0, "links": 10, "gamma": 0.0, "places": 2, "near": 0.05, "far": 0.05}
"""Hosts of one size, equally far from every agent."""


class SlowLane(InlineWorker):
    """One worker that needs a twentieth of a second for each page."""

    seconds = 0.05

    def __init__(self, *words: Any, **more: Any):
        super().__init__(*words, **more)
        self._held: list[tuple[Any, ...]] = []

    @property
    def has_room(self) -> bool:
        return super().has_room and len(self._held) < 48

    @property
    def outstanding_pages(self) -> int:
        return len(self._held) + super().outstanding_pages

    def send(self, *job: Any) -> None:
        self._held.append(job)
        if len(self._held) == 1:
            asyncio.get_running_loop().call_later(self.seconds, self._index)

    def _index(self) -> None:
        if self._shard is None:
            return  # it was closed
        super().send(*self._held.pop(0))
        if self._held:
            asyncio.get_running_loop().call_later(self.seconds, self._index)


class QuickLane(SlowLane):
    """A worker that is four times as fast."""

    seconds = 0.0125


async def stored_meanwhile(
    band: Band, names: str, seconds: float, lanes: dict[str, type[InlineWorker]] | None = None
) -> dict[str, int]:
    """Pages that each agent stored, from 20 s until `seconds` after the last joined; all join 8 s apart."""
    await band.board().create_crawl(charter(band.settings, band.meadow.seeds))
    for number, name in enumerate(names):
        if number:
            await band.clock.sleep(8.0)
        band.lane = (lanes or {}).get(name, band.lane)
        band.start(name, seeded=not number)
    desks = {name: crew.stages.indexing.in_flight for name, (crew, _, _) in band.living.items()}
    await band.clock.sleep(20.0)
    before = {name: desk.stored_page_count for name, desk in desks.items()}
    await band.clock.sleep(seconds - 20.0)
    after = {name: desk.stored_page_count - before[name] for name, desk in desks.items()}
    behind = [crew.stages.backpressure.backlog_seconds for crew, _, _ in band.living.values()]
    assert max(behind) < 30.0, "as many seconds as the workers need for a full buffer"
    for name in names:
        await band.kill(name)
    is_polite(band.arrivals)
    return after


def test_agents_that_join_one_after_another_store_about_as_many_pages(tmp_path: Path) -> None:
    """By default settings; before each of them joined, others held every host there is."""
    meadow = Meadow(MeadowOptions(hosts=100, pages=10_000, **WEB))

    async def life(clock: Clock) -> dict[str, int]:
        return await stored_meanwhile(Band(tmp_path, meadow, clock), "abcd", 40.0)

    stored = virtual_time.run_in_virtual_time(life)
    assert max(stored.values()) <= 2 * min(stored.values()), stored


@pytest.mark.parametrize("policy", ["priced", "kalman", "hash", "two-choices"])
def test_a_late_agent_gets_hosts_within_a_few_heartbeats(policy: str, tmp_path: Path) -> None:
    """Under every rule that does not ask it to stay idle, as `ipmicra` does while others are near."""
    meadow = Meadow(MeadowOptions(hosts=40, pages=4_000, **WEB))

    async def life(clock: Clock) -> None:
        band = Band(tmp_path, meadow, clock, board__policy=policy)
        await band.board().create_crawl(charter(band.settings, meadow.seeds))
        band.start("a", seeded=True)
        await clock.sleep(8.0)
        assert band.living["a"][0].stages.indexing.frontier.online_host_count == 40, "all hosts are held"
        band.start("b")
        await clock.sleep(3 * band.settings.cluster.heartbeat)
        held = band.living["b"][0].stages.indexing.frontier.online_host_count
        assert held >= 2, held  # of 40: the rules draw by lot
        for name in "ab":
            await band.kill(name)

    virtual_time.run_in_virtual_time(life)


def test_a_second_agent_doubles_the_throughput_of_slow_indexers(tmp_path: Path) -> None:
    """Fetchers are idle and no host waits for one: it is the worker that has no time left."""
    meadow = Meadow(MeadowOptions(hosts=100, pages=12_000, **WEB))

    async def life(clock: Clock, names: str) -> dict[str, int]:
        band = Band(tmp_path / names, meadow, clock, lane=SlowLane)
        return await stored_meanwhile(band, names, 50.0)

    (alone,) = virtual_time.run_in_virtual_time(lambda clock: life(clock, "a")).values()
    together = virtual_time.run_in_virtual_time(lambda clock: life(clock, "ab"))
    assert alone <= 30 / SlowLane.seconds + 1
    assert sum(together.values()) >= 1.7 * alone, (together, alone)
    assert max(together.values()) <= 2 * min(together.values()), together


def test_agents_share_hosts_by_worker_capacity(tmp_path: Path) -> None:
    """One indexes four times as fast, and hosts allow 100 pages a second: what both can do together."""
    meadow = Meadow(MeadowOptions(hosts=105, pages=12_000, **WEB))

    async def life(clock: Clock) -> dict[str, int]:
        band = Band(tmp_path, meadow, clock)
        return await stored_meanwhile(band, "ab", 70.0, {"a": SlowLane, "b": QuickLane})

    stored = virtual_time.run_in_virtual_time(life)
    assert stored["b"] > 2 * stored["a"], stored
    assert sum(stored.values()) >= 0.75 * 50 * (20 + 80), stored
