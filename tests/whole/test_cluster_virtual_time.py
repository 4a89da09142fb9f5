"""Whole agents of one crawl in virtual time, with a coordinator in memory: all real except network and
workers.

Agents are killed (they stop dead and lose all that is not durable), restart from their directories, join
late and drain. Together they must have every page of a crawl on one machine, and the servers must never
see two requests at once, nor one too soon, from any agents.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fieldmouse.clock import Clock
from fieldmouse.cluster.coordinator import AckBatch, AgentId, Coordinator, CrawlSpec, HeartbeatReply, HostPayload
from fieldmouse.cluster.sharded.coordinator import ShardedCoordinator
from fieldmouse.config.settings_file import Settings, render, render_published
from fieldmouse.crawler.builder import BuiltCrawl, build_crawl
from fieldmouse.crawler.cluster_agent import CrawlToJoin
from fieldmouse.doctor.check.examine import check_crawl
from fieldmouse.reader.explain import explain
from fieldmouse.storage import outcome_log_reader
from fieldmouse.storage.checkpoint import Checkpoint, read_checkpoint, sealed_outcome_bytes
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.testing import virtual_time
from fieldmouse.testing.meadow.fetcher import MeadowFetcher
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.testing.meadow.server import Arrival
from fieldmouse.testing.memory_coordinator import MemoryCoordinator, MemoryServer
from fieldmouse.types.stats import Summary
from fieldmouse.url import Url
from fieldmouse.workers.inline_worker import InlineWorker

from .virtual_time import CALM, bottled_crawl

DELAY = 1.0


class DiscreetBoard(MemoryCoordinator):
    """Hides other agents, as one of a thousand agents hears nothing about most of them for a while."""

    async def heartbeat(self, name: AgentId, *words: Any, **more: Any) -> HeartbeatReply:
        pulse = await super().heartbeat(name, *words, **more)
        own = [note for note in pulse.agents if note.agent == name.agent]
        return replace(pulse, agents=own, members=1000)


class Band:
    """Agents of one crawl, in one virtual time."""

    def __init__(
        self,
        path: Path,
        meadow: Meadow,
        clock: Clock,
        servers: int = 1,
        kind: type[MemoryCoordinator] = MemoryCoordinator,
        lane: type[InlineWorker] = InlineWorker,
        **changes: object,
    ) -> None:
        self.path, self.meadow, self.clock, self.kind, self.lane = path, meadow, clock, kind, lane
        self.settings = Settings().override(
            {
                "crawl.seeds": list(meadow.seeds),
                "politeness.delay": f"{DELAY:g}s",
                "network.allow_private": True,
                "scope.mode": "web",
                **CALM,
                "storage.checkpoint": "3s",
                **{name.replace("__", "."): value for name, value in changes.items()},
            }
        )
        self.servers = [MemoryServer(clock) for _ in range(servers)]
        self.arrivals: list[Arrival] = []
        self.living: dict[str, tuple[BuiltCrawl, asyncio.Future[Summary], MeadowFetcher]] = {}

    def board(self) -> Coordinator:
        boards = {f"server {number}": self.kind(server) for number, server in enumerate(self.servers)}
        return ShardedCoordinator(boards) if len(boards) > 1 else boards["server 0"]

    def start(self, name: str, *, seeded: bool = False) -> asyncio.Future[Summary]:
        path = self.path / name
        if (path / "crawl.json").exists():
            home = CrawlDir.open(path)
        else:
            home = CrawlDir.create(path, shards=1, settings=render(self.settings).encode(), key_seed=4711)
        web = MeadowFetcher(self.meadow, self.clock)
        crew = build_crawl(
            home,
            self.settings,
            clock=self.clock,
            fetcher=web,
            lane=self.lane,
            joining=CrawlToJoin(self.board(), "fieldmouse", self.clock.now),
        )
        seeds = [Url(seed) for seed in self.meadow.seeds] if seeded else []
        task = asyncio.ensure_future(crew.crawler.crawl(seeds))
        self.living[name] = (crew, task, web)
        return task

    async def kill(self, name: str) -> None:
        """Stop dead: nothing is written or sent after it."""
        crew, task, web = self.living.pop(name)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await crew.close()
        self.arrivals += web.arrivals

    async def ended(self) -> dict[str, Summary]:
        summaries = {}
        for name, (crew, task, web) in list(self.living.items()):
            summaries[name] = await task
            await crew.close()
            self.arrivals += web.arrivals
        self.living.clear()
        return summaries


def charter(settings: Settings, seeds: Sequence[str]) -> CrawlSpec:
    return CrawlSpec(4711, render_published(settings), tuple(seeds))


def pages_of(path: Path) -> list[str]:
    home = CrawlDir.open(path)
    last = read_checkpoint(home)
    assert last is not None
    return [str(row.url) for row in outcome_log_reader.newest_page_rows(home, length=sealed_outcome_bytes(last))]


def is_well(band: Band, folder: Path) -> None:
    """No server was annoyed, and doctor finds nothing in any of the three."""
    is_polite(band.arrivals)
    for name in "abc":
        assert not [finding for finding in check_crawl(CrawlDir.open(folder / name)) if not finding.healthy]


def is_polite(arrivals: Sequence[Arrival]) -> None:
    by_address: dict[str, list[Arrival]] = defaultdict(list)
    for arrival in arrivals:
        by_address[arrival.address].append(arrival)
    for visits in by_address.values():
        visits.sort(key=lambda arrival: arrival.t)
        for before, after in itertools.pairwise(visits):
            assert after.t - before.t >= DELAY - 1e-6, (before, after)


@pytest.mark.parametrize("kind", [MemoryCoordinator, DiscreetBoard])
def test_several_agents_fetch_the_same_pages_as_one(kind: type[MemoryCoordinator], tmp_path: Path) -> None:
    meadow = Meadow(MeadowOptions(hosts=12, pages=200, seed=3, page_kb=1.0, links=10, robots=0.5))
    alone = pages_alone(tmp_path / "alone", meadow)

    async def life(clock: Clock) -> Band:
        band = Band(tmp_path, meadow, clock, kind=kind)
        await band.board().create_crawl(charter(band.settings, meadow.seeds))
        for number, name in enumerate("abc"):
            band.start(name, seeded=number == 0)
        for summary in (await band.ended()).values():
            assert summary.exit == 0
            assert summary.lost == 0
            assert summary.whole is not None
            assert summary.whole.waiting == 0
        assert await band.board().list_agents() == [], "who left is not there any more"
        return band

    band = virtual_time.run_in_virtual_time(life)
    stored = Counter(url for name in "abc" for url in pages_of(tmp_path / name))
    assert set(stored) == alone
    assert set(stored.values()) == {1}
    assert all(pages_of(tmp_path / name) for name in "abc"), "everybody had some work"
    for url in (pages_of(tmp_path / "a")[0], pages_of(tmp_path / "b")[0]):
        told = str(explain(CrawlDir.open(tmp_path / "a"), Url(url)))
        assert "never" not in told, "who has it knows it, and others know that they do not know"
        assert ("the coordinator knows" in told) == (url not in pages_of(tmp_path / "a"))
    is_well(band, tmp_path)


def test_an_agent_joins_only_after_its_first_checkpoint(tmp_path: Path) -> None:
    """An agent killed with pages and without a checkpoint could never resume."""
    meadow = Meadow(MeadowOptions(hosts=2, pages=6, seed=3, page_kb=1.0, links=4))
    joined: list[Checkpoint | None] = []

    class WatchfulBoard(MemoryCoordinator):
        async def join(self, name: AgentId, lease: float) -> None:
            joined.append(read_checkpoint(CrawlDir.open(tmp_path / "a")))
            await super().join(name, lease)

    class WatchedBand(Band):
        def board(self) -> Coordinator:
            return WatchfulBoard(self.servers[0])

    async def life(clock: Clock) -> None:
        band = WatchedBand(tmp_path, meadow, clock)
        await band.board().create_crawl(charter(band.settings, meadow.seeds))
        band.start("a", seeded=True)
        await band.ended()

    virtual_time.run_in_virtual_time(life)
    assert joined
    assert None not in joined


def pages_alone(path: Path, meadow: Meadow) -> set[str]:
    bottled_crawl(
        path,
        lambda clock: MeadowFetcher(meadow, clock),
        meadow.seeds,
        scope__mode="web",
        politeness__delay=f"{DELAY:g}s",
        network__allow_private=True,
    )
    return set(pages_of(path))


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_lost_when_agents_die_and_return(seed: int, tmp_path: Path) -> None:
    meadow = Meadow(MeadowOptions(hosts=12, pages=200, seed=5 + seed, page_kb=1.0, links=10, robots=0.5))
    alone = pages_alone(tmp_path / "alone", meadow)
    dice = random.Random(seed)

    async def life(clock: Clock) -> Band:
        band = Band(tmp_path, meadow, clock)
        await band.board().create_crawl(charter(band.settings, meadow.seeds))
        for number, name in enumerate("abc"):
            band.start(name, seeded=number == 0)
        for _ in range(10):
            await clock.sleep(dice.uniform(0.5, 12.0))
            name = dice.choice("abc")
            if name not in band.living or band.living[name][1].done():
                continue
            await band.kill(name)
            await clock.sleep(dice.choice([0.0, 1.0, 20.0]))
            band.start(name)
        for name in "abc":
            if name not in band.living:
                band.start(name)
        await band.ended()
        return band

    band = virtual_time.run_in_virtual_time(life)
    assert {url for name in "abc" for url in pages_of(tmp_path / name)} == alone
    is_well(band, tmp_path)


def test_nothing_is_lost_when_one_of_two_servers_loses_its_data(tmp_path: Path) -> None:
    meadow = Meadow(MeadowOptions(hosts=12, pages=200, seed=11, page_kb=1.0, links=10, robots=0.5))
    alone = pages_alone(tmp_path / "alone", meadow)

    async def life(clock: Clock) -> Band:
        band = Band(tmp_path, meadow, clock, servers=2)
        await band.board().create_crawl(charter(band.settings, meadow.seeds))
        for number, name in enumerate("abc"):
            band.start(name, seeded=number == 0)
        await clock.sleep(10.0)
        disk = band.servers[1].snapshot()
        await clock.sleep(1.0)
        band.servers[1].restart(disk)
        await clock.sleep(3.0)
        await band.kill("b")
        await clock.sleep(2.0)
        band.servers[0].restart()
        band.start("b")
        for summary in (await band.ended()).values():
            assert summary.exit == 0
            assert summary.whole is not None
            assert summary.whole.waiting == 0
        for server in band.servers:
            assert len(server.crawls["fieldmouse"].hosts) > 2, "both have a part"
        return band

    band = virtual_time.run_in_virtual_time(life)
    assert {url for name in "abc" for url in pages_of(tmp_path / name)} == alone
    is_well(band, tmp_path)


def test_a_new_server_gets_the_state_of_held_hosts(tmp_path: Path) -> None:
    meadow = Meadow(MeadowOptions(hosts=5, pages=200, seed=8, page_kb=1.0, links=10, robots=0.5))

    async def life(clock: Clock) -> None:
        band = Band(tmp_path, meadow, clock)
        board = MemoryCoordinator(band.servers[0])
        await board.create_crawl(charter(band.settings, meadow.seeds))
        band.start("a", seeded=True)
        await clock.sleep(12.0)
        held = [host for host, record in board.crawl_state().hosts.items() if record.holder]
        assert held
        memory = band.servers[0].snapshot()
        for record in memory["fieldmouse"].hosts.values():
            record.payload = HostPayload()  # that is what it was told last, and forgot
        band.servers[0].restart(memory)
        await clock.sleep(6.0)
        told = [board.crawl_state().hosts[host] for host in held]
        assert all(record.payload.state for record in told if record.holder)
        assert any(record.holder for record in told)
        await band.kill("a")

    virtual_time.run_in_virtual_time(life)


def test_an_agent_leaving_while_sending_reports_everything_once(tmp_path: Path) -> None:
    """The last of it is sent by the leaving agent while the first of it is still in transit."""

    class SlowBoard(MemoryCoordinator):
        async def book(self, name: AgentId, told: AckBatch) -> list[Sequence[int]]:
            await self._server.clock.sleep(0.8)
            return await super().ack(name, told)

    class SlowBand(Band):
        def board(self) -> Coordinator:
            return SlowBoard(self.servers[0])

    meadow = Meadow(MeadowOptions(hosts=12, pages=200, seed=9, page_kb=1.0, links=10))

    async def life(clock: Clock) -> None:
        band = SlowBand(tmp_path, meadow, clock, storage__checkpoint="1s")
        board = MemoryCoordinator(band.servers[0])
        await board.create_crawl(charter(band.settings, meadow.seeds))
        band.start("a", seeded=True)
        await clock.sleep(9.3)
        (note,) = await board.list_agents()
        await board.request_drain(note.agent)
        (summary,) = (await band.ended()).values()
        assert summary.exit == 130
        assert summary.whole is not None
        assert summary.whole.again == 0
        books = await board.totals()
        home = CrawlDir.open(tmp_path / "a")
        settled = [*outcome_log_reader.outcome_rows(home, length=sealed_outcome_bytes(read_checkpoint(home)))]
        assert books.settled == len(settled) > 0
        assert await board.list_agents() == []

    virtual_time.run_in_virtual_time(life)
