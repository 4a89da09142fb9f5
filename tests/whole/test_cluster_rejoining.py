"""Fenced agent that joins again while its messages under the old name are still in transit."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fieldmouse.clock import Clock
from fieldmouse.cluster.coordinator import AgentId, Coordinator, HeartbeatReply, HostGrant, LeaseId
from fieldmouse.errors import AgentFenced, AgentSuperseded, CoordinatorError, CoordinatorUnreachable
from fieldmouse.search.snapshot import remove_index_directory
from fieldmouse.testing import virtual_time
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.testing.memory_coordinator import MemoryCoordinator

from .test_cluster_virtual_time import Band, charter, is_polite, is_well, pages_alone, pages_of

CALLS = ("heartbeat", "lease_hosts", "release_hosts", "ack", "lease_addresses", "release_addresses")


class LaggingBoard(MemoryCoordinator):
    """Once, when armed, delays a message until its agent has come back from a fence."""

    armed = False
    late: AgentId | None = None
    refused = 0

    async def heartbeat(self, name: AgentId, *words: Any, **more: Any) -> HeartbeatReply:
        pulse = await super().heartbeat(name, *words, **more)
        if self.late is not None and name != self.late:
            self.came_back.set()
        return pulse

    async def lag(self, call: str, name: AgentId, *words: Any) -> Any:
        act = getattr(MemoryCoordinator if call != "heartbeat" else LaggingBoard, call)
        if not self.armed or self.late is not None:
            return await act(self, name, *words)
        self.late, self.came_back = name, asyncio.Event()
        await super().leave(name)  # as the board does when a lease is over
        await self.came_back.wait()
        try:
            return await act(self, name, *words)
        except AgentSuperseded:
            self.refused += 1
            raise


def lagging(call: str) -> type[LaggingBoard]:
    """A coordinator whose calls of that name may lag."""

    async def late(self: LaggingBoard, name: AgentId, *words: Any) -> Any:
        return await self.lag(call, name, *words)

    return type("LaggingBoard", (LaggingBoard,), {call: late})


def photograph(home: Path, copy: Path) -> None:
    """A snapshot of a directory in use, once the merge threads of the index have finished."""

    def listing() -> list[tuple[str, int, int]]:
        files = [path for path in sorted(home.rglob("*")) if path.is_file()]
        return [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]

    for _ in range(1000):
        with suppress(shutil.Error, FileNotFoundError):  # of a file that was gone when it was to be read
            before = listing()
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(home, copy)
            if listing() == before:
                return
    raise AssertionError("the directory never came to rest")


@pytest.mark.parametrize("stopped", [False, True])
def test_a_directory_restored_from_a_snapshot_is_refused(stopped: bool, tmp_path: Path) -> None:
    """Pages it lacks count as stored; with the newest state back it continues, and all is there."""
    meadow = Meadow(MeadowOptions(hosts=8, pages=120, seed=7, page_kb=1.0, links=10))
    alone = pages_alone(tmp_path / "alone", meadow)
    home, snapshot, newest = tmp_path / "a", tmp_path / "snapshot", tmp_path / "newest"

    def bring_back(copy: Path) -> None:
        """Into the same directory, as a filesystem does."""
        for place in home.iterdir():
            remove_index_directory(place) if place.is_dir() else place.unlink()
        shutil.copytree(copy, home, dirs_exist_ok=True)

    async def life(clock: Clock) -> None:
        band = Band(tmp_path, meadow, clock)
        await band.board().create_crawl(charter(band.settings, meadow.seeds))
        band.start("a", seeded=True)
        await clock.sleep(8.0)
        if stopped:
            await band.kill("a")
        photograph(home, snapshot)
        if stopped:
            band.start("a")
        await clock.sleep(22.0)
        await band.kill("a")
        shutil.copytree(home, newest)
        bring_back(snapshot)
        with pytest.raises(CoordinatorError, match="is an old copy") as told:
            await band.start("a")
        assert "--again" in told.value.hint
        crew, _, _ = band.living.pop("a")
        await crew.close()
        bring_back(newest)
        band.start("a")
        (summary,) = (await band.ended()).values()
        assert summary.exit == 0

    virtual_time.run_in_virtual_time(life)
    assert set(pages_of(home)) == alone


class SpottyBoard(MemoryCoordinator):
    """Executes every call, and loses every third reply of some kind; perhaps the call is repeated."""

    asked = 0
    stutters = False

    async def lose(self, grants: list[HostGrant], again: Callable[[], Awaitable[list[HostGrant]]]) -> list[HostGrant]:
        if grants:
            self.asked += 1
            if self.asked % 3 == 0:
                if self.stutters:
                    self.echo = asyncio.ensure_future(self.heard_again(again))
                raise CoordinatorUnreachable("the answer was lost")
        return grants

    async def heard_again(self, again: Callable[[], Awaitable[list[HostGrant]]]) -> None:
        await self._server.clock.sleep(2.0)
        with suppress(AgentFenced):
            await again()

    async def lease_hosts(self, name: AgentId, hosts: int, urls: int, soon: float = 0.0) -> list[HostGrant]:
        return await self.lose(
            await super().lease_hosts(name, min(hosts, 2), urls, soon),
            lambda: MemoryCoordinator.lease_hosts(self, name, 2, urls),
        )

    async def lease_more_urls(self, name: AgentId, held: Sequence[LeaseId], urls: int) -> list[HostGrant]:
        return await self.lose(
            await super().lease_more_urls(name, held, urls),
            lambda: MemoryCoordinator.lease_more_urls(self, name, held, urls),
        )


class StutteringBoard(SpottyBoard):
    stutters = True


@pytest.mark.parametrize("kind", [SpottyBoard, StutteringBoard])
def test_hosts_granted_in_lost_replies_are_still_visited(kind: type[SpottyBoard], tmp_path: Path) -> None:
    """Other agents may reach the coordinator before its lost grants are discovered."""
    meadow = Meadow(MeadowOptions(hosts=12, pages=300, seed=6, page_kb=1.0, links=10, robots=0.5))
    alone = pages_alone(tmp_path / "alone", meadow)

    async def life(clock: Clock) -> Band:
        band = Band(tmp_path, meadow, clock, kind=kind)
        await band.board().create_crawl(charter(band.settings, meadow.seeds))
        for number, name in enumerate("abc"):
            band.start(name, seeded=number == 0)
        async with asyncio.timeout(3600.0):
            for summary in (await band.ended()).values():
                assert summary.exit == 0
        return band

    band = virtual_time.run_in_virtual_time(life)
    assert {url for name in "abc" for url in pages_of(tmp_path / name)} == alone
    is_well(band, tmp_path)


@pytest.mark.parametrize("call", CALLS)
def test_a_reply_to_the_old_incarnation_does_not_end_a_rejoined_agent(call: str, tmp_path: Path) -> None:
    meadow = Meadow(MeadowOptions(hosts=4, pages=60, seed=21, page_kb=1.0, links=10, robots=0.5))
    alone = pages_alone(tmp_path / "alone", meadow)
    kind = lagging(call)
    boards: list[LaggingBoard] = []

    class LaggingBand(Band):
        def board(self) -> Coordinator:
            boards.append(kind(self.servers[0]))
            return boards[-1]

    async def life(clock: Clock) -> Band:
        band = LaggingBand(tmp_path, meadow, clock)
        await MemoryCoordinator(band.servers[0]).create_crawl(charter(band.settings, meadow.seeds))
        band.start("a", seeded=True)
        await clock.sleep(8.0)
        boards[0].armed = True
        (summary,) = (await band.ended()).values()
        assert (summary.exit, summary.lost) == (0, 0)
        return band

    band = virtual_time.run_in_virtual_time(life)
    assert [board.refused for board in boards] == [1], "it was late, and a newer start was there"
    assert set(pages_of(tmp_path / "a")) == alone
    is_polite(band.arrivals)
