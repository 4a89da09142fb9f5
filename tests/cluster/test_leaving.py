"""Hosts placed at an agent are visited by others after it leaves in any way.

A host without URLs keeps the name of the agent that should visit it next. That agent may be gone when a
URL of the host is found. Every way of leaving is tested with every way in which a URL comes to wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from cluster.coordinators import World
from cluster.test_coordinator_contract import ADA, BOB, CHARTER, CYD, FREE, LEASE, A, B, done, links, of, offer
from fieldmouse.cluster.coordinator import (
    AgentId,
    Coordinator,
    HeartbeatRequest,
    HostGrant,
    HostPayload,
    ReleasedHost,
    RetryBatch,
    StrandedHosts,
)
from fieldmouse.cluster.decoding import pack_urls
from fieldmouse.url import Host, key_of

URL = f"{A}/booked"
KEY = key_of(URL, CHARTER.key_seed)  # settled by ada before cyd leaves
OWED = 2  # owed by ada when cyd leaves


# -- ways of leaving: cyd is gone after each


async def leaves(world: World, board: Coordinator) -> None:
    await board.leave(CYD)


async def drains_and_leaves(world: World, board: Coordinator) -> None:
    await board.request_drain("cyd")
    await board.leave(CYD)


async def is_asked_to_drain(world: World, board: Coordinator) -> None:
    await board.request_drain("cyd")


async def is_forgotten(world: World, board: Coordinator) -> None:
    await board.forget_agent("cyd", again=False)


async def is_forgotten_with_its_pages(world: World, board: Coordinator) -> None:
    await board.forget_agent("cyd", again=True)


async def is_killed(world: World, board: Coordinator) -> None:
    for _ in range(3):
        world.advance(LEASE / 2)
        await board.heartbeat(ADA, HeartbeatRequest(b"", LEASE))
        await board.heartbeat(BOB, HeartbeatRequest(b"", LEASE))


async def is_killed_and_forgotten(world: World, board: Coordinator) -> None:
    await is_killed(world, board)
    await board.forget_agent("cyd", again=False)


async def starts_again_and_leaves(world: World, board: Coordinator) -> None:
    newer = replace(CYD, incarnation=2)
    await board.join(newer, LEASE)
    await board.leave(newer)


async def comes_back_after_a_kill_and_leaves(world: World, board: Coordinator) -> None:
    await is_killed(world, board)
    await starts_again_and_leaves(world, board)


# -- ways in which a URL comes to wait for the host


async def a_link_is_found(world: World, board: Coordinator) -> None:
    await board.offer_links([offer(A, [9])], FREE)


async def a_url_is_put_back(world: World, board: Coordinator, held: HostGrant) -> None:
    await board.return_urls(ADA, {of(held): links([OWED])})


async def the_agent_that_owes_a_url_leaves(world: World, board: Coordinator) -> None:
    await board.leave(ADA)


async def a_failure_is_taken_back(world: World, board: Coordinator) -> None:
    await board.requeue_failed(ADA, RetryBatch(A, [(KEY, b"again")], ["failed"], 7))


async def a_url_of_a_lost_agent_is_fetched_again(world: World, board: Coordinator) -> None:
    await board.forget_agent("ada", again=True)


Way = Callable[[World, Coordinator], Awaitable[None]]
WAYS: list[Way] = [
    leaves,
    drains_and_leaves,
    is_asked_to_drain,
    is_forgotten,
    is_forgotten_with_its_pages,
    is_killed,
    is_killed_and_forgotten,
    starts_again_and_leaves,
    comes_back_after_a_kill_and_leaves,
]
LINKS: list[Callable[..., Awaitable[None]]] = [
    a_link_is_found,
    a_url_is_put_back,
    the_agent_that_owes_a_url_leaves,
    a_failure_is_taken_back,
    a_url_of_a_lost_agent_is_fetched_again,
]


async def a_dry_host_for_cyd(board: Coordinator) -> HostGrant:
    """The host has no URL left and should be visited by cyd next; ada still owes one of its URLs."""
    await board.create_crawl(CHARTER)
    for name in (ADA, BOB, CYD):
        await board.join(name, LEASE)
    await board.offer_links([offer(A, [KEY, OWED])], FREE)
    (grant,) = await board.lease_hosts(ADA, 1, 5)
    await board.ack(ADA, replace(done(grant, [KEY], "failed"), urls=pack_urls([URL])))
    await board.release_hosts(ADA, [ReleasedHost(of(grant), HostPayload(), next_agent="cyd")])
    return grant


@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.__name__)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_host_of_an_agent_that_left_is_visited_by_another_agent(
    world: World, way: Way, link: Callable[..., Awaitable[None]]
) -> None:
    async def run() -> None:
        board = world.board()
        grant = await a_dry_host_for_cyd(board)
        await way(world, board)
        if link is a_url_is_put_back:
            await link(world, board, grant)
        else:
            await link(world, board)
        assert await board.stranded_hosts() == StrandedHosts()
        granted = await board.lease_hosts(BOB, 5, 5)
        assert [(each.host, len(each.rows)) for each in granted] == [
            (A, 2 if link is a_url_of_a_lost_agent_is_fetched_again else 1)
        ]
        await board.close()
        world.audit().check()

    asyncio.run(run())


def test_a_host_goes_to_its_agent_while_the_agent_is_present(world: World) -> None:
    async def run() -> None:
        board = world.board()
        await a_dry_host_for_cyd(board)
        await board.offer_links([offer(A, [9])], FREE)
        assert await board.lease_hosts(BOB, 5, 5) == []
        assert [grant.host for grant in await board.lease_hosts(CYD, 5, 5)] == [A]
        await board.close()

    asyncio.run(run())


# -- hosts that could not be granted to any agent: left by older versions, or by a damaged server


async def a_crawl_with_a_waiting_host(board: Coordinator, host: Host = A) -> None:
    await board.create_crawl(CHARTER)
    await board.join(ADA, LEASE)
    await board.offer_links([offer(host, [1])], FREE)


@pytest.mark.parametrize("host", [A, B])
def test_the_next_lease_repairs_a_host_that_waits_for_an_agent_that_left(world: World, host: Host) -> None:
    async def run() -> None:
        board = world.board()
        await a_crawl_with_a_waiting_host(board, host)
        await board.join(CYD, LEASE)
        await board.leave(CYD)
        assert await board.stranded_hosts() == StrandedHosts()
        world.misplace(host, "cyd")
        assert await board.stranded_hosts() == StrandedHosts(1, (host,))
        assert [grant.host for grant in await leased_in_the_end(world, board)] == [host]
        assert await board.stranded_hosts() == StrandedHosts(repaired=1)
        await board.close()
        world.audit().check()

    asyncio.run(run())


@pytest.mark.parametrize("host", [A, B])
def test_the_next_lease_repairs_a_host_held_by_an_agent_that_left(world: World, host: Host) -> None:
    async def run() -> None:
        board = world.board()
        await a_crawl_with_a_waiting_host(board, host)
        await board.join(CYD, LEASE)
        (grant,) = await board.lease_hosts(CYD, 1, 1)
        world.fence_unswept(CYD)
        assert await board.stranded_hosts() == StrandedHosts(1, (host,))
        (again,) = await leased_in_the_end(world, board)
        assert (again.host, len(again.rows)) == (host, 1)
        assert again.epoch > grant.epoch
        assert (await board.stranded_hosts()).count == 0
        await board.close()
        world.audit().check()

    asyncio.run(run())


@pytest.mark.parametrize("host", [A, B])
def test_the_next_lease_repairs_a_waiting_host_that_is_in_no_queue(world: World, host: Host) -> None:
    async def run() -> None:
        board = world.board()
        await a_crawl_with_a_waiting_host(board, host)
        if world.take_out_of_queue(host):
            assert await board.stranded_hosts() == StrandedHosts(1, (host,))
        assert [grant.host for grant in await leased_in_the_end(world, board)] == [host]
        assert (await board.stranded_hosts()).count == 0
        await board.close()
        world.audit().check()

    asyncio.run(run())


async def leased_in_the_end(world: World, board: Coordinator, name: AgentId = ADA) -> list[HostGrant]:
    """Ask again and again, as agents do, for less than half a lease."""
    for _ in range(8):
        if grants := await board.lease_hosts(name, 5, 5):
            return grants
        world.advance(5)
    return []
