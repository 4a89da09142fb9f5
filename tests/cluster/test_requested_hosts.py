"""Hosts that agents wish for, because they have known pages of them: the contract of both coordinators."""

from __future__ import annotations

from cluster.coordinators import World
from cluster.test_coordinator_contract import ADA, BOB, CYD, FREE, LEASE, A, B, done, links, of, offer, sums, told_to
from fieldmouse.cluster.coordinator import (
    AgentId,
    Coordinator,
    HeartbeatRequest,
    HostGrant,
    HostPayload,
    ReleasedHost,
    Row,
)


async def leased(board: Coordinator, name: AgentId, urls: int = 100) -> dict[str, list[Row]]:
    return {grant.host: list(grant.rows) for grant in await board.lease_hosts(name, 5, urls)}


async def visited(board: Coordinator, name: AgentId, keys: range = range(1, 2)) -> None:
    """Host A is known and has no waiting URLs."""
    await board.offer_links([offer(A, keys)], FREE)
    (grant,) = await board.lease_hosts(name, 5, 100)
    await board.ack(name, done(grant, keys))
    await give_back(board, name, grant)


async def give_back(board: Coordinator, name: AgentId, grant: HostGrant, rest: float = 0.0, place: str = "") -> None:
    unused = [row for row in grant.rows if row[0] > 100]
    await board.release_hosts(name, [ReleasedHost(of(grant), HostPayload(b"known", rest, 0.0), unused, place)])


@told_to
async def test_a_wished_host_is_granted_without_a_url(world: World, board: Coordinator) -> None:
    await visited(board, ADA)
    assert await leased(board, BOB) == {}
    await board.request_hosts_for_polls(BOB, [A])
    await board.request_hosts_for_polls(BOB, [A])
    assert await leased(board, ADA) == {}
    (grant,) = await board.lease_hosts(BOB, 5, 100)
    assert (grant.host, list(grant.rows), grant.payload.state) == (A, [], b"known")
    assert await leased(board, BOB) == {}, "a wish is granted once"
    await give_back(board, BOB, grant)
    assert await leased(board, BOB) == {}
    assert await sums(board) == (1, 1, 0)


@told_to
async def test_a_wished_host_is_granted_with_its_waiting_urls(world: World, board: Coordinator) -> None:
    await board.offer_links([offer(A, [1, 2], "bob")], FREE)
    await board.request_hosts_for_polls(ADA, [A])
    assert await leased(board, ADA) == {A: links([1, 2])}
    assert await leased(board, BOB) == {}


@told_to
async def test_an_unknown_host_can_be_wished_for(world: World, board: Coordinator) -> None:
    await board.request_hosts_for_polls(ADA, [A, B])
    assert (await board.totals()).hosts == 2
    assert await leased(board, ADA) == {A: [], B: []}
    await board.offer_links([offer(A, [1])], FREE)
    assert (await board.totals()).hosts == 2


@told_to
async def test_a_held_host_goes_to_the_first_agent_that_wished_for_it(world: World, board: Coordinator) -> None:
    await board.join(CYD, LEASE)
    await board.offer_links([offer(A, [101, 102])], FREE)
    (grant,) = await board.lease_hosts(ADA, 5, 100)
    for name in (BOB, CYD):
        await board.request_hosts_for_polls(name, [A])
        assert await leased(board, name) == {}, "it is ada's"
    await give_back(board, ADA, grant, place="ada")
    await board.request_hosts_for_polls(ADA, [A])
    assert await leased(board, ADA) == {}, "it is kept for bob"
    world.advance(2)
    assert await leased(board, CYD) == {}
    (grant,) = await board.lease_hosts(BOB, 5, 100)
    assert list(grant.rows) == links([101, 102])
    world.advance(2)
    assert await leased(board, CYD) == {}
    await give_back(board, BOB, grant)
    world.advance(2)
    assert await leased(board, ADA) == {}, "it is kept for cyd"
    assert await leased(board, CYD) == {A: links([101, 102])}


@told_to
async def test_a_wished_host_is_kept_for_the_length_of_a_lease(world: World, board: Coordinator) -> None:
    await board.offer_links([offer(A, [1])], FREE)
    (grant,) = await board.lease_hosts(ADA, 5, 100)
    await board.ack(ADA, done(grant, [1]))
    await board.request_hosts_for_polls(BOB, [A])
    assert await leased(board, BOB) == {}
    await give_back(board, ADA, grant)
    await board.request_hosts_for_polls(ADA, [A])
    assert await leased(board, ADA) == {}
    world.advance(LEASE / 2)
    for name in (ADA, BOB):
        await board.heartbeat(name, HeartbeatRequest(b"", LEASE))
    assert await leased(board, ADA) == {}
    world.advance(LEASE / 2 + 1)
    assert await leased(board, ADA) == {A: []}, "bob has robots for others, it seems"


@told_to
async def test_a_wished_host_is_granted_only_after_its_rest(world: World, board: Coordinator) -> None:
    await board.offer_links([offer(A, [1])], FREE)
    (grant,) = await board.lease_hosts(ADA, 5, 100)
    await board.ack(ADA, done(grant, [1]))
    await give_back(board, ADA, grant, rest=40.0)
    await board.request_hosts_for_polls(BOB, [A])
    assert await leased(board, BOB) == {}
    world.advance(30)
    assert await leased(board, BOB) == {}
    world.advance(11)
    assert await leased(board, BOB) == {A: []}


@told_to
async def test_wishes_end_with_their_agent(world: World, board: Coordinator) -> None:
    await visited(board, ADA)
    await board.request_hosts_for_polls(BOB, [A])
    await board.leave(BOB)
    again = AgentId("bob", 2)
    await board.join(again, LEASE)
    assert await leased(board, again) == {}
    await board.request_hosts_for_polls(ADA, [A])
    assert await leased(board, ADA) == {A: []}


@told_to
async def test_a_host_of_a_dead_agent_goes_to_the_agent_that_wished_for_it(world: World, board: Coordinator) -> None:
    await board.offer_links([offer(A, [101])], FREE)
    await board.lease_hosts(ADA, 5, 100)
    await board.request_hosts_for_polls(BOB, [A])
    assert await leased(board, BOB) == {}
    world.advance(LEASE - 5)
    await board.heartbeat(BOB, HeartbeatRequest(b"", 2 * LEASE))
    await board.join(CYD, LEASE)
    world.advance(10)
    assert await leased(board, CYD) == {}
    assert await leased(board, BOB) == {A: links([101])}
