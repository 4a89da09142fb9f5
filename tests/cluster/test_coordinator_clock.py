"""Setting the server's clock costs no agent its leases and keeps no agent waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from cluster.coordinators import META, RedisWorld, ServerProcess
from fieldmouse.cluster.coordinator import (
    AddressRequest,
    AgentId,
    CrawlSpec,
    HeartbeatRequest,
    LeaseId,
    LinkOffer,
    SiteBounds,
)
from fieldmouse.cluster.redis.coordinator import RedisCoordinator
from fieldmouse.errors import AgentFenced
from fieldmouse.url import Host

ADA, BOB = AgentId("ada", 5), AgentId("bob", 5)
A, HERE, THERE = Host("http://a.test"), "10.0.0.1", "10.0.0.2"
LEASE, HOURS = 20.0, 5 * 3600.0


class SetClock(RedisWorld):
    """A server whose clock can also be set."""

    def set_clock(self, seconds: float) -> None:
        self.server.client().hincrby(META, "jump", round(seconds * 1000))


@pytest.fixture
def world(server: ServerProcess) -> SetClock:
    return SetClock(server)


def play(world: SetClock, story: Callable[[RedisCoordinator, LeaseId], Awaitable[None]]) -> None:
    """Ada and Bob have joined; Ada holds a host and its address, and another address rests."""

    async def whole() -> None:
        board = world.board()
        await board.create_crawl(CrawlSpec(1, "", ()))
        await board.join(ADA, LEASE)
        await board.join(BOB, LEASE)
        await board.offer_links([LinkOffer(A, "test", [(1, b"row"), (2, b"row")])], SiteBounds())
        (grant,) = await board.lease_hosts(ADA, 1, 1)
        held = LeaseId(A, grant.epoch)
        asks = [AddressRequest(HERE, held, 1.0), AddressRequest(THERE, held, 1.0)]
        assert all(answer.granted for answer in await board.lease_addresses(ADA, asks))
        await board.release_addresses(ADA, {THERE: 60.0})
        await story(board, held)
        world.audit().check()
        await board.close()

    asyncio.run(whole())


@pytest.mark.parametrize("seconds", [HOURS, 30 * 24 * 3600.0, -HOURS])
def test_a_clock_that_is_set_costs_no_leases_and_shortens_no_rests(world: SetClock, seconds: float) -> None:
    async def story(board: RedisCoordinator, held: LeaseId) -> None:
        world.set_clock(seconds)
        assert not await board.lease_hosts(BOB, 9, 9), "she holds it"
        stranger = LeaseId(Host("http://b.test"), 0)
        here, there = await board.lease_addresses(
            BOB, [AddressRequest(HERE, stranger, 1.0), AddressRequest(THERE, stranger, 1.0)]
        )
        assert here.holder == "ada"
        assert not there.granted
        assert 50.0 < there.retry_seconds < 61.0
        await board.heartbeat(ADA, HeartbeatRequest(b"", LEASE))
        assert [note.alive for note in await board.list_agents()] == [True, True]

    play(world, story)


@pytest.mark.parametrize("seconds", [HOURS, -HOURS])
def test_hosts_of_a_dead_agent_go_to_others_after_its_lease(world: SetClock, seconds: float) -> None:
    async def story(board: RedisCoordinator, held: LeaseId) -> None:
        world.set_clock(seconds)
        await board.heartbeat(BOB, HeartbeatRequest(b"", 10 * LEASE))
        world.advance(LEASE + 1.0)
        (grant,) = await board.lease_hosts(BOB, 9, 9)
        assert (grant.host, len(grant.rows)) == (A, 2)
        with pytest.raises(AgentFenced):
            await board.heartbeat(ADA, HeartbeatRequest(b"", LEASE))

    play(world, story)


def test_time_advances_even_if_calls_are_rare(world: SetClock) -> None:
    async def story(board: RedisCoordinator, held: LeaseId) -> None:
        for _ in range(12):
            world.set_clock(LEASE)  # no calls for that long, several times
            await board.totals()
        await board.join(AgentId("cyd", 5), LEASE)
        with pytest.raises(AgentFenced):
            await board.heartbeat(ADA, HeartbeatRequest(b"", LEASE))

    play(world, story)


def test_records_of_addresses_are_deleted_after_their_rest(world: SetClock) -> None:
    async def story(board: RedisCoordinator, held: LeaseId) -> None:
        assert world.server.client().exists(f"{META.removesuffix('meta')}a:{THERE}")
        await board.heartbeat(ADA, HeartbeatRequest(b"", 1000.0))
        world.advance(61.0)
        await board.release_addresses(ADA, {HERE: 1.0})
        assert not world.server.client().exists(f"{META.removesuffix('meta')}a:{THERE}")

    play(world, story)
