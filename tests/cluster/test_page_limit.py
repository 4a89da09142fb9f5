"""Page limit: pages are reserved before they are fetched, and all agents share one limit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.coordinators import World
from fieldmouse.cluster.coordinator import (
    AgentId,
    Coordinator,
    HeartbeatRequest,
    ReservationRequest,
    compute_reservation,
)
from fieldmouse.errors import AgentFenced

from .test_coordinator_contract import ADA, BOB, CYD, FREE, LEASE, A, B, done, offer, only, told_to

LIMIT = 20
small = st.integers(0, 40)


async def ask(board: Coordinator, name: AgentId, keep: int, want: int, limit: int = LIMIT) -> int:
    return await board.reserve_pages(name, ReservationRequest(limit, keep, want))


async def all_of(board: Coordinator, name: AgentId, want: int, limit: int = LIMIT) -> int:
    """Ask again and again, as an agent with too few pages does."""
    pages = 0
    for _ in range(2 * LIMIT):
        pages = await ask(board, name, pages, want, limit)
    return pages


@told_to
async def test_reserved_and_acknowledged_pages_never_exceed_the_limit(world: World, board: Coordinator) -> None:
    await board.offer_links([offer(A, range(30)), offer(B, range(30, 60))], FREE)
    assert await all_of(board, ADA, 12) == 12
    assert await all_of(board, BOB, 12) == LIMIT - 12
    grants = {grant.host: grant for grant in await board.lease_hosts(ADA, 5, 30)}
    await board.ack(ADA, done(grants[A], range(5)))
    await board.ack(ADA, done(grants[B], range(30, 34)))
    await board.ack(ADA, done(grants[B], range(30, 34)))
    assert await ask(board, ADA, 3, 12) == 3, "nothing is left but what bob has"
    assert await all_of(board, BOB, 12) == LIMIT - 12, "ada's are booked, and count on"
    assert await ask(board, ADA, 3, 12, LIMIT + 40) > 3, "with a higher limit it goes on"
    assert (await board.acked_page_count()).acked == 9


@told_to
async def test_no_agent_gets_all_of_the_last_pages(world: World, board: Coordinator) -> None:
    await board.join(CYD, LEASE)
    first, second, third = [await ask(board, name, 0, LIMIT) for name in (ADA, BOB, CYD)]
    assert LIMIT / 2 > first >= second >= third > 0


@told_to
async def test_failed_requests_and_leaving_agents_use_no_pages_of_the_limit(world: World, board: Coordinator) -> None:
    assert await all_of(board, ADA, LIMIT) == LIMIT
    assert await ask(board, BOB, 0, 5) == 0
    assert await ask(board, ADA, LIMIT - 4, LIMIT - 4) == LIMIT - 4
    assert await all_of(board, BOB, 5) == 4
    await board.leave(ADA)
    assert await all_of(board, BOB, LIMIT) == LIMIT
    with pytest.raises(AgentFenced):
        await ask(board, ADA, 0, 1)


@told_to
async def test_a_reservation_ends_with_the_lease(world: World, board: Coordinator) -> None:
    assert await all_of(board, ADA, LIMIT) == LIMIT
    await board.heartbeat(BOB, HeartbeatRequest(b"", 3 * LEASE))
    world.advance(LEASE + 1)
    await board.heartbeat(BOB, HeartbeatRequest(b"", LEASE))
    assert await all_of(board, BOB, LIMIT) == LIMIT
    newer = AgentId("ada", 2)
    await board.join(newer, LEASE)
    assert await ask(board, newer, 0, 5) == 0


@told_to
async def test_a_new_start_of_an_agent_has_nothing_reserved(world: World, board: Coordinator) -> None:
    assert await all_of(board, ADA, LIMIT) == LIMIT
    await board.join(AgentId("ada", 2), LEASE)
    assert await all_of(board, BOB, LIMIT) == LIMIT


@told_to
async def test_a_restarted_server_reserves_nothing_new_until_agents_renew_their_reservations(
    world: World, board: Coordinator
) -> None:
    if hasattr(world, "worlds"):
        return  # the test cannot choose which server loses data
    world.remember()
    assert await all_of(board, ADA, LIMIT) == LIMIT
    await board.close()
    world.restart_forgetful()
    again = world.board()
    assert await ask(again, BOB, 0, 5) == 0
    assert await ask(again, ADA, LIMIT, LIMIT) == LIMIT
    for name in (ADA, BOB):
        await again.heartbeat(name, HeartbeatRequest(b"", 3 * LEASE))
    world.advance(2 * LEASE)
    assert await ask(again, BOB, 0, 5) == 0
    assert await ask(again, ADA, LIMIT - 3, LIMIT - 3) == LIMIT - 3
    assert await all_of(again, BOB, 5) == 3
    await again.close()


@told_to
async def test_outcomes_other_than_pages_do_not_reduce_the_reservation(world: World, board: Coordinator) -> None:
    await board.offer_links([offer(A, range(30))], FREE)
    grant = await only(board, ADA, 30)
    assert await all_of(board, ADA, 8) == 8
    await board.ack(ADA, done(grant, range(3), "failed"))
    assert await all_of(board, BOB, LIMIT) == LIMIT - 8


@given(small, small, small, small, small, st.integers(1, 9), st.booleans())
def test_a_reservation_never_takes_pages_from_another_agent(
    limit: int, keep: int, want: int, booked: int, others: int, agents: int, calm: bool
) -> None:
    pages = compute_reservation(
        ReservationRequest(limit, keep, want), booked=booked, others=others, agents=agents, calm=calm
    )
    assert keep <= pages <= max(keep, want)
    assert pages == keep or booked + others + pages <= limit
    if not calm and want > keep and booked + others + keep < limit:
        assert pages > keep, "whoever asks again and again gets all that is left"
