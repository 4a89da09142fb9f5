"""Hosts that agents wish for, because they have known pages of them: the contract of both coordinators."""

from __future__ import annotations

from balancer.boards import World
from balancer.test_board_contract import (
    ADA,
    BOB,
    CYD,
    FREE,
    LEASE,
    A,
    B,
    done,
    links,
    of,
    offer,
    sums,
    told_to,
)
from fieldmouse.cluster.coordinator import Board, GivenBack, Grant, Heartbeat, Luggage, Name, Row


async def leased(board: Board, name: Name, urls: int = 100) -> dict[str, list[Row]]:
    return {grant.host: list(grant.rows) for grant in await board.lease(name, 5, urls)}


async def visited(board: Board, name: Name, keys: range = range(1, 2)) -> None:
    """Host A is known and has no waiting URLs."""
    await board.offer([offer(A, keys)], FREE)
    (grant,) = await board.lease(name, 5, 100)
    await board.book(name, done(grant, keys))
    await give_back(board, name, grant)


async def give_back(board: Board, name: Name, grant: Grant, rest: float = 0.0, place: str = "") -> None:
    unused = [row for row in grant.rows if row[0] > 100]
    await board.give_back(name, [GivenBack(of(grant), Luggage(b"known", rest, 0.0), unused, place)])


@told_to
async def test_a_wished_host_is_granted_without_a_url(world: World, board: Board) -> None:
    await visited(board, ADA)
    assert await leased(board, BOB) == {}
    await board.wish(BOB, [A])
    await board.wish(BOB, [A])
    assert await leased(board, ADA) == {}
    (grant,) = await board.lease(BOB, 5, 100)
    assert (grant.host, list(grant.rows), grant.luggage.state) == (A, [], b"known")
    assert await leased(board, BOB) == {}, "a wish is granted once"
    await give_back(board, BOB, grant)
    assert await leased(board, BOB) == {}
    assert await sums(board) == (1, 1, 0)


@told_to
async def test_a_wished_host_is_granted_with_its_waiting_urls(world: World, board: Board) -> None:
    await board.offer([offer(A, [1, 2], "bob")], FREE)
    await board.wish(ADA, [A])
    assert await leased(board, ADA) == {A: links([1, 2])}
    assert await leased(board, BOB) == {}


@told_to
async def test_an_unknown_host_can_be_wished_for(world: World, board: Board) -> None:
    await board.wish(ADA, [A, B])
    assert (await board.books()).hosts == 2
    assert await leased(board, ADA) == {A: [], B: []}
    await board.offer([offer(A, [1])], FREE)
    assert (await board.books()).hosts == 2


@told_to
async def test_a_held_host_goes_to_the_first_agent_that_wished_for_it(world: World, board: Board) -> None:
    await board.join(CYD, LEASE)
    await board.offer([offer(A, [101, 102])], FREE)
    (grant,) = await board.lease(ADA, 5, 100)
    for name in (BOB, CYD):
        await board.wish(name, [A])
        assert await leased(board, name) == {}, "it is ada's"
    await give_back(board, ADA, grant, place="ada")
    await board.wish(ADA, [A])
    assert await leased(board, ADA) == {}, "it is kept for bob"
    world.advance(2)
    assert await leased(board, CYD) == {}
    (grant,) = await board.lease(BOB, 5, 100)
    assert list(grant.rows) == links([101, 102])
    world.advance(2)
    assert await leased(board, CYD) == {}
    await give_back(board, BOB, grant)
    world.advance(2)
    assert await leased(board, ADA) == {}, "it is kept for cyd"
    assert await leased(board, CYD) == {A: links([101, 102])}


@told_to
async def test_a_wished_host_is_kept_for_the_length_of_a_lease(world: World, board: Board) -> None:
    await board.offer([offer(A, [1])], FREE)
    (grant,) = await board.lease(ADA, 5, 100)
    await board.book(ADA, done(grant, [1]))
    await board.wish(BOB, [A])
    assert await leased(board, BOB) == {}
    await give_back(board, ADA, grant)
    await board.wish(ADA, [A])
    assert await leased(board, ADA) == {}
    world.advance(LEASE / 2)
    for name in (ADA, BOB):
        await board.beat(name, Heartbeat(b"", LEASE))
    assert await leased(board, ADA) == {}
    world.advance(LEASE / 2 + 1)
    assert await leased(board, ADA) == {A: []}, "bob has robots for others, it seems"


@told_to
async def test_a_wished_host_is_granted_only_after_its_rest(world: World, board: Board) -> None:
    await board.offer([offer(A, [1])], FREE)
    (grant,) = await board.lease(ADA, 5, 100)
    await board.book(ADA, done(grant, [1]))
    await give_back(board, ADA, grant, rest=40.0)
    await board.wish(BOB, [A])
    assert await leased(board, BOB) == {}
    world.advance(30)
    assert await leased(board, BOB) == {}
    world.advance(11)
    assert await leased(board, BOB) == {A: []}


@told_to
async def test_wishes_end_with_their_agent(world: World, board: Board) -> None:
    await visited(board, ADA)
    await board.wish(BOB, [A])
    await board.leave(BOB)
    again = Name("bob", 2)
    await board.join(again, LEASE)
    assert await leased(board, again) == {}
    await board.wish(ADA, [A])
    assert await leased(board, ADA) == {A: []}


@told_to
async def test_a_host_of_a_dead_agent_goes_to_the_agent_that_wished_for_it(
    world: World, board: Board
) -> None:
    await board.offer([offer(A, [101])], FREE)
    await board.lease(ADA, 5, 100)
    await board.wish(BOB, [A])
    assert await leased(board, BOB) == {}
    world.advance(LEASE - 5)
    await board.beat(BOB, Heartbeat(b"", 2 * LEASE))
    await board.join(CYD, LEASE)
    world.advance(10)
    assert await leased(board, CYD) == {}
    assert await leased(board, BOB) == {A: links([101])}
