"""Setting the server's clock costs no agent its leases and keeps no agent waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from balancer.boards import META, RedisWorld, ServerProcess
from fieldmouse.cluster.coordinator import (
    AddressAsk,
    Charter,
    Heartbeat,
    Held,
    Name,
    Offer,
    SiteBounds,
)
from fieldmouse.cluster.redis.coordinator import RedisBoard
from fieldmouse.errors import Fenced
from fieldmouse.url import Host

ADA, BOB = Name("ada", 5), Name("bob", 5)
A, HERE, THERE = Host("http://a.test"), "10.0.0.1", "10.0.0.2"
LEASE, HOURS = 20.0, 5 * 3600.0


class SetClock(RedisWorld):
    """A server whose clock can also be set."""

    def set_clock(self, seconds: float) -> None:
        self.server.client().hincrby(META, "jump", round(seconds * 1000))


@pytest.fixture
def world(server: ServerProcess) -> SetClock:
    return SetClock(server)


def play(world: SetClock, story: Callable[[RedisBoard, Held], Awaitable[None]]) -> None:
    """Ada and Bob have joined; Ada holds a host and its address, and another address rests."""

    async def whole() -> None:
        board = world.board()
        await board.found(Charter(1, "", ()))
        await board.join(ADA, LEASE)
        await board.join(BOB, LEASE)
        await board.offer([Offer(A, "test", [(1, b"row"), (2, b"row")])], SiteBounds())
        (grant,) = await board.lease(ADA, 1, 1)
        held = Held(A, grant.epoch)
        asks = [AddressAsk(HERE, held, 1.0), AddressAsk(THERE, held, 1.0)]
        assert all(answer.granted for answer in await board.ask_addresses(ADA, asks))
        await board.free_addresses(ADA, {THERE: 60.0})
        await story(board, held)
        world.audit().check()
        await board.close()

    asyncio.run(whole())


@pytest.mark.parametrize("seconds", [HOURS, 30 * 24 * 3600.0, -HOURS])
def test_a_clock_that_is_set_costs_no_leases_and_shortens_no_rests(world: SetClock, seconds: float) -> None:
    async def story(board: RedisBoard, held: Held) -> None:
        world.set_clock(seconds)
        assert not await board.lease(BOB, 9, 9), "she holds it"
        stranger = Held(Host("http://b.test"), 0)
        here, there = await board.ask_addresses(
            BOB, [AddressAsk(HERE, stranger, 1.0), AddressAsk(THERE, stranger, 1.0)]
        )
        assert here.holder == "ada"
        assert not there.granted
        assert 50.0 < there.rest < 61.0
        await board.beat(ADA, Heartbeat(b"", LEASE))
        assert [note.alive for note in await board.agents()] == [True, True]

    play(world, story)


@pytest.mark.parametrize("seconds", [HOURS, -HOURS])
def test_hosts_of_a_dead_agent_go_to_others_after_its_lease(world: SetClock, seconds: float) -> None:
    async def story(board: RedisBoard, held: Held) -> None:
        world.set_clock(seconds)
        await board.beat(BOB, Heartbeat(b"", 10 * LEASE))
        world.advance(LEASE + 1.0)
        (grant,) = await board.lease(BOB, 9, 9)
        assert (grant.host, len(grant.rows)) == (A, 2)
        with pytest.raises(Fenced):
            await board.beat(ADA, Heartbeat(b"", LEASE))

    play(world, story)


def test_time_advances_even_if_calls_are_rare(world: SetClock) -> None:
    async def story(board: RedisBoard, held: Held) -> None:
        for _ in range(12):
            world.set_clock(LEASE)  # no calls for that long, several times
            await board.books()
        await board.join(Name("cyd", 5), LEASE)
        with pytest.raises(Fenced):
            await board.beat(ADA, Heartbeat(b"", LEASE))

    play(world, story)


def test_records_of_addresses_are_deleted_after_their_rest(world: SetClock) -> None:
    async def story(board: RedisBoard, held: Held) -> None:
        assert world.server.client().exists(f"{META.removesuffix('meta')}a:{THERE}")
        await board.beat(ADA, Heartbeat(b"", 1000.0))
        world.advance(61.0)
        await board.free_addresses(ADA, {HERE: 1.0})
        assert not world.server.client().exists(f"{META.removesuffix('meta')}a:{THERE}")

    play(world, story)
