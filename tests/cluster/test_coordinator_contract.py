"""Contract of the coordinator: in memory, on a real server, and two of each as one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import wraps

import pytest

from cluster.coordinators import World
from fieldmouse.cluster.coordinator import (
    MOST_LISTED_AGENTS,
    AckBatch,
    AddressRequest,
    AgentId,
    Coordinator,
    CrawlSpec,
    HeartbeatId,
    HeartbeatRequest,
    HostGrant,
    HostPayload,
    LeaseAck,
    LeaseId,
    LinkOffer,
    OfferResult,
    ReleasedHost,
    RetryBatch,
    Row,
    SiteBounds,
)
from fieldmouse.cluster.decoding import decode_row, encode_row, pack_urls
from fieldmouse.errors import AgentFenced, AgentSuperseded, CoordinatorDataLost
from fieldmouse.policy.scope import site_for_limits
from fieldmouse.types.request import Request
from fieldmouse.url import Host, Url, key_of

LEASE = 100.0  # seconds: long enough that the duration of a test does not matter
FREE = SiteBounds()
CHARTER = CrawlSpec(key_seed=7, settings="[crawl]", seeds=("http://a.test/",), made_by="ada")
ADA, BOB, CYD = AgentId("ada", 1), AgentId("bob", 1), AgentId("cyd", 1)
A, B = Host("http://a.test"), Host("http://be.test:81")  # of two sites, on two servers where there are two
M, N = Host("http://m.example.org"), Host("https://n.example.org")  # of one

Story = Callable[[World, Coordinator], Awaitable[None]]


def told_to(story: Story) -> Callable[[World], None]:
    """Run a story with a new crawl that ada and bob have joined."""

    @wraps(story)
    def test(world: World) -> None:
        async def tell() -> None:
            board = world.board()
            await board.create_crawl(CHARTER)
            await board.join(ADA, LEASE)
            await board.join(BOB, LEASE)
            await story(world, board)
            await board.close()
            world.audit().check()

        asyncio.run(tell())

    del test.__wrapped__  # pytest would ask for its arguments
    return test


def links(keys: Iterable[int]) -> list[Row]:
    return [(key, b"row %d" % key) for key in keys]


def offer(host: Host, keys: Iterable[int], place: str = "") -> LinkOffer:
    return LinkOffer(host, site_for_limits(host), links(keys), place)


def of(grant: HostGrant) -> LeaseId:
    return LeaseId(grant.host, grant.epoch)


def done(grant: HostGrant | LeaseId, keys: Iterable[int], kind: str = "page") -> AckBatch:
    keys = list(keys)
    held = of(grant) if isinstance(grant, HostGrant) else grant
    return AckBatch([LeaseAck(held, keys, [kind] * len(keys))])


async def only(board: Coordinator, name: AgentId, urls: int = 1000, soon: float = 0.0) -> HostGrant:
    (grant,) = await board.lease_hosts(name, 5, urls, soon)
    return grant


async def sums(board: Coordinator) -> tuple[int, int, int]:
    books = await board.totals()
    return books.seen, books.settled, books.waiting


# -- the crawl


def test_the_first_crawl_spec_wins(world: World) -> None:
    async def tell() -> None:
        board, other = world.board(), world.board()
        assert await board.crawl_spec() is None
        assert await board.create_crawl(CHARTER) == CHARTER
        assert await other.create_crawl(CrawlSpec(8, "", ())) == CHARTER
        assert await other.crawl_spec() == CHARTER
        assert await world.board("another").crawl_spec() is None

    asyncio.run(tell())


def test_calls_for_a_missing_crawl_raise_board_lost(world: World) -> None:
    async def tell() -> None:
        with pytest.raises(CoordinatorDataLost, match="fieldmouse"):
            await world.board().heartbeat(ADA, HeartbeatRequest(b"", LEASE))

    asyncio.run(tell())


@told_to
async def test_crawls_share_a_server_and_nothing_else(world: World, board: Coordinator) -> None:
    await board.offer_links([offer(A, [1, 2])], FREE)
    other = world.board("another")
    await other.create_crawl(CHARTER)
    await other.join(ADA, LEASE)
    assert await other.offer_links([offer(A, [1])], FREE) == OfferResult(1)
    assert [key for key, _ in (await only(other, ADA)).rows] == [1]


@told_to
async def test_seeds_start_a_crawl_and_a_limit_ends_it(world: World, board: Coordinator) -> None:
    assert not (await board.totals()).started
    await board.offer_links([offer(A, [1])], FREE, seeds=True)
    pulse = await board.heartbeat(ADA, HeartbeatRequest(b"", LEASE))
    assert pulse.totals.started
    assert pulse.stop_reason == ""
    await board.stop_crawl("10 pages")
    assert (await board.heartbeat(BOB, HeartbeatRequest(b"", LEASE))).stop_reason == "10 pages"


# -- links


@told_to
async def test_a_url_is_new_once(world: World, board: Coordinator) -> None:
    assert await board.offer_links([offer(A, [1, 2, 1]), offer(B, [3])], FREE) == OfferResult(3)
    assert await board.offer_links([offer(A, [2, 4])], FREE) == OfferResult(1)
    assert await sums(board) == (4, 0, 4)
    assert (await board.totals()).hosts == 2
    rows = [row for grant in await board.lease_hosts(ADA, 5, 100) for row in grant.rows]
    assert sorted(rows) == links([1, 2, 3, 4])


@told_to
async def test_keys_use_all_64_bits(world: World, board: Coordinator) -> None:
    keys = [0, 1, 999_999, 10**6, 2**32, 2**63 - 1, 2**63, 2**64 - 2**32, 2**64 - 1, 2**64 - 10**6]
    keys += [(n * 0x9E3779B97F4A7C15) % 2**64 for n in range(1, 3000)]
    assert (await board.offer_links([offer(A, keys)], FREE)).new == len(set(keys))
    assert await board.offer_links([offer(A, reversed(keys))], FREE) == OfferResult(0)
    grant = await only(board, ADA, len(keys))
    assert sorted(grant.rows) == sorted(links(set(keys)))
    assert await board.ack(ADA, done(grant, keys)) == [()]
    assert await sums(board) == (len(set(keys)), len(set(keys)), 0)


@told_to
async def test_urls_of_a_host_are_granted_in_the_order_they_were_offered(world: World, board: Coordinator) -> None:
    for start in range(0, 30, 3):
        await board.offer_links([offer(A, range(start, start + 3))], FREE)
    first = await only(board, ADA, 10)
    assert first.remaining_urls == 30 - len(first.rows)
    assert len(first.rows) >= 10
    (rest,) = await board.lease_more_urls(ADA, [of(first)], 100)
    assert rest.epoch == first.epoch
    assert [*first.rows, *rest.rows] == links(range(30))


@told_to
async def test_links_beyond_the_bounds_of_a_site_are_dropped_and_not_seen(world: World, board: Coordinator) -> None:
    assert await board.offer_links([offer(M, [1, 2, 3])], SiteBounds(urls=2)) == OfferResult(2, dropped_urls=1)
    assert await board.offer_links([offer(N, [1, 4])], SiteBounds(urls=2)) == OfferResult(0, dropped_urls=1)
    assert (await board.totals()).hosts == 1
    assert await board.offer_links([offer(N, [5])], SiteBounds(hosts=1, urls=9)) == OfferResult(0, dropped_hosts=1)
    assert await board.offer_links([offer(M, [6])], SiteBounds(hosts=1, urls=9)) == OfferResult(1)
    assert await board.offer_links([offer(N, [3, 4, 5])], SiteBounds(hosts=2)) == OfferResult(3)
    assert await sums(board) == (6, 0, 6)


# -- agents


@told_to
async def test_agents_see_each_other(world: World, board: Coordinator) -> None:
    await board.offer_links([offer(A, [1])], FREE)
    await only(board, ADA)
    await board.heartbeat(ADA, HeartbeatRequest(b"busy", LEASE))
    world.advance(5)
    notes = {note.agent: note for note in (await board.heartbeat(BOB, HeartbeatRequest(b"idle", LEASE))).agents}
    assert list(notes) == ["ada", "bob"]
    assert (notes["ada"].status, notes["bob"].status) == (b"busy", b"idle")
    assert (notes["ada"].host_count, notes["bob"].host_count) == (1, 0)
    assert notes["ada"].alive
    assert 5 <= notes["ada"].heartbeat_age < 50
    assert await board.list_agents() != []
    await board.leave(BOB)
    assert [note.agent for note in await board.list_agents()] == ["ada"]


async def crowd(board: Coordinator, many: int) -> list[str]:
    """Join more agents beside ada and bob, named by number; each reports its name."""
    names = [f"agent {number}" for number in range(many - 2)]
    for name in (*map(AgentId, names, [1] * len(names)), ADA, BOB):
        await board.join(name, LEASE)
        await board.heartbeat(name, HeartbeatRequest(name.agent.encode(), LEASE))
    return sorted([*names, "ada", "bob"])


@told_to
async def test_a_heartbeat_reply_lists_all_agents_when_there_are_few(world: World, board: Coordinator) -> None:
    names = await crowd(board, MOST_LISTED_AGENTS)
    for after in ("", "agent 7", "bob", "zoe"):
        pulse = await board.heartbeat(ADA, HeartbeatRequest(b"new", LEASE, after))
        assert [note.agent for note in pulse.agents] == names
        assert (pulse.alive, pulse.members, pulse.last_listed, pulse.lists_all_agents) == (
            MOST_LISTED_AGENTS,
            MOST_LISTED_AGENTS,
            "",
            True,
        )


@told_to
async def test_heartbeat_replies_list_many_agents_in_turns(world: World, board: Coordinator) -> None:
    names = await crowd(board, 150)
    first, upto = 0, ""
    for _ in range(5):  # twice round
        pulse = await board.heartbeat(BOB, HeartbeatRequest(b"new", LEASE, upto))
        turn = [names[(first + place) % 150] for place in range(MOST_LISTED_AGENTS)]
        assert [note.agent for note in pulse.agents] == sorted({"bob", *turn})
        assert {note.agent: note.status for note in pulse.agents}["bob"] == b"new"
        assert all(note.status == note.agent.encode() for note in pulse.agents if note.agent != "bob")
        assert all(note.alive for note in pulse.agents)
        assert (pulse.alive, pulse.members, pulse.last_listed, pulse.lists_all_agents) == (150, 150, turn[-1], False)
        first, upto = first + MOST_LISTED_AGENTS, pulse.last_listed
    assert len(await board.list_agents()) == 150


@told_to
async def test_a_turn_continues_after_the_name_of_an_agent_that_left(world: World, board: Coordinator) -> None:
    names = await crowd(board, 100)
    await board.leave(AgentId(names[60], 1))
    pulse = await board.heartbeat(ADA, HeartbeatRequest(b"", LEASE, names[60]))
    assert {note.agent for note in pulse.agents} == {"ada", *names[61:], *names[:25]}
    assert (pulse.alive, pulse.members) == (99, 99)


@told_to
async def test_an_overdue_agent_is_fenced_even_if_the_reply_does_not_list_it(world: World, board: Coordinator) -> None:
    names = await crowd(board, 100)
    lost = AgentId(names[50], 1)
    await board.offer_links([offer(A, [1])], FREE)
    await only(board, lost)
    for name in names:
        if name != lost.agent:
            await board.heartbeat(AgentId(name, 1), HeartbeatRequest(b"", 2 * LEASE))
    world.advance(LEASE + 10)
    pulse = await board.heartbeat(BOB, HeartbeatRequest(b"", LEASE, names[55]))
    assert {note.agent for note in pulse.agents} == {"bob", *names[56:], *names[:20]}
    assert (pulse.alive, pulse.members) == (99, 100)
    assert not await board.was_never_fenced(lost)
    assert (await only(board, BOB)).host == A


@told_to
async def test_a_silent_agent_is_fenced_and_its_hosts_and_urls_go_to_others(world: World, board: Coordinator) -> None:
    await board.offer_links([offer(A, [1, 2, 3])], FREE)
    lost = await only(board, ADA)
    await board.ack(ADA, done(lost, [2]))
    world.advance(LEASE - 10)
    await board.heartbeat(BOB, HeartbeatRequest(b"", LEASE))
    assert await board.was_never_fenced(ADA)
    assert await board.lease_hosts(BOB, 5, 5) == []
    world.advance(20)
    notes = {note.agent: note for note in (await board.heartbeat(BOB, HeartbeatRequest(b"", LEASE))).agents}
    assert not notes["ada"].alive
    assert not await board.was_never_fenced(ADA)
    taken = await only(board, BOB)
    assert taken.epoch > lost.epoch
    assert sorted(taken.rows) == links([1, 3])
    for stale in (
        board.heartbeat(ADA, HeartbeatRequest(b"", LEASE)),
        board.lease_hosts(ADA, 1, 1),
        board.lease_more_urls(ADA, [of(lost)], 5),
        board.lease_addresses(ADA, [AddressRequest("10.0.0.1", of(lost), 1.0)]),
        board.release_addresses(ADA, {"10.0.0.1": 9.0}),
        board.save_host_payloads(ADA, {of(lost): HostPayload()}),
        board.release_hosts(ADA, [ReleasedHost(of(lost), HostPayload())]),
        board.return_urls(ADA, {of(lost): links([1])}),
        board.ack(ADA, done(lost, [1])),
        board.reconcile_leases(ADA, {}),
        board.join(ADA, LEASE),
    ):
        with pytest.raises(AgentFenced, match="ada"):
            await stale
    assert await sums(board) == (3, 1, 2)
    await board.ack(BOB, done(taken, [1, 3]))
    assert await sums(board) == (3, 3, 0)
    await board.join(AgentId("ada", 2), LEASE)
    assert await board.was_never_fenced(AgentId("ada", 2))


@told_to
async def test_an_overdue_agent_that_is_not_fenced_may_still_acknowledge(world: World, board: Coordinator) -> None:
    await board.offer_links([offer(A, [1, 2])], FREE)
    grant = await only(board, ADA)
    world.advance(LEASE + 1)
    assert await board.lease_hosts(ADA, 1, 1) == []
    assert await board.was_never_fenced(ADA)
    assert await board.ack(ADA, done(grant, [1])) == [()]
    await board.heartbeat(ADA, HeartbeatRequest(b"", LEASE))
    assert await board.ack(ADA, done(grant, [2])) == [()]
    assert await sums(board) == (2, 2, 0)


@told_to
async def test_a_newer_start_supersedes_the_older(world: World, board: Coordinator) -> None:
    await board.offer_links([offer(A, [1]), offer(B, [2], place="ada")], FREE)
    other, mine = sorted(await board.lease_hosts(ADA, 2, 5), key=lambda grant: grant.host)
    await board.release_hosts(ADA, [ReleasedHost(of(mine), HostPayload(delay=7.0), links([2]), next_agent="ada")])
    newer = AgentId("ada", 2)
    await board.join(newer, LEASE)
    with pytest.raises(AgentSuperseded):
        await board.heartbeat(ADA, HeartbeatRequest(b"", LEASE))
    with pytest.raises(AgentSuperseded):
        await board.join(ADA, LEASE)
    assert [grant.host for grant in await board.lease_hosts(newer, 5, 5)] == [mine.host]
    assert await board.lease_hosts(BOB, 5, 5) == [], "the older one may still be asking there"
    world.advance(LEASE + 1)
    await board.heartbeat(BOB, HeartbeatRequest(b"", LEASE))
    assert other.host in [grant.host for grant in await board.lease_hosts(BOB, 5, 5)]


@told_to
async def test_an_agent_that_leaves_releases_everything_at_once(world: World, board: Coordinator) -> None:
    await board.offer_links([offer(A, [1, 2]), offer(B, [3], place="ada")], FREE)
    mine, theirs = sorted(await board.lease_hosts(ADA, 5, 5), key=lambda grant: grant.host)
    await board.release_hosts(ADA, [ReleasedHost(of(theirs), HostPayload(), links([3]), next_agent="ada")])
    await board.ack(ADA, done(mine, [1]))
    await board.leave(ADA)
    await board.leave(ADA)
    rows = [row for grant in await board.lease_hosts(BOB, 5, 5) for row in grant.rows]
    assert sorted(rows) == links([2, 3])
    with pytest.raises(AgentFenced):
        await board.heartbeat(ADA, HeartbeatRequest(b"", LEASE))


@told_to
async def test_a_draining_agent_is_told_and_gets_no_more_hosts(world: World, board: Coordinator) -> None:
    await board.offer_links([offer(A, [1])], FREE)
    assert not await board.request_drain("nobody")
    assert await board.request_drain("ada")
    assert (await board.heartbeat(ADA, HeartbeatRequest(b"", LEASE))).draining
    assert not (await board.heartbeat(BOB, HeartbeatRequest(b"", LEASE))).draining
    assert await board.lease_hosts(ADA, 5, 5) == []
    await board.offer_links([offer(B, [2], place="ada")], FREE)
    assert len(await board.lease_hosts(BOB, 5, 5)) == 2
    await board.join(AgentId("ada", 2), LEASE)
    assert not (await board.heartbeat(AgentId("ada", 2), HeartbeatRequest(b"", LEASE))).draining


@told_to
async def test_an_agent_that_joins_again_still_receives_the_request_to_drain(world: World, board: Coordinator) -> None:
    assert await board.request_drain("ada")
    newer, newest = AgentId("ada", 2), AgentId("ada", 3)
    await board.join(newer, LEASE)
    assert await board.lease_hosts(newer, 5, 5) == []
    assert (await board.heartbeat(newer, HeartbeatRequest(b"", LEASE))).draining
    await board.join(newest, LEASE)
    assert not (await board.heartbeat(newest, HeartbeatRequest(b"", LEASE))).draining, "it was told, and came back"

    assert await board.request_drain("bob")
    await board.leave(BOB)
    await board.join(AgentId("bob", 2), LEASE)
    assert not (await board.heartbeat(AgentId("bob", 2), HeartbeatRequest(b"", LEASE))).draining, (
        "it left before it heard of it"
    )


@told_to
async def test_all_agents_receive_pages_added_to_the_scope(world: World, board: Coordinator) -> None:
    urls = [Url(f"http://www{number}.e.test/") for number in range(3)]
    assert list((await board.heartbeat(ADA, HeartbeatRequest(b"", LEASE))).scope_pages) == []
    await board.widen_scope(urls[:2])
    await board.widen_scope(urls[1:])
    for name in (ADA, BOB):
        assert sorted((await board.heartbeat(name, HeartbeatRequest(b"", LEASE))).scope_pages) == urls
        assert list((await board.heartbeat(name, HeartbeatRequest(b"", LEASE, known_scope_pages=3))).scope_pages) == []
        assert (
            sorted((await board.heartbeat(name, HeartbeatRequest(b"", LEASE, known_scope_pages=2))).scope_pages) == urls
        )


# -- hosts


@told_to
async def test_a_host_has_one_holder(world: World, board: Coordinator) -> None:
    await board.offer_links([offer(A, [1, 2])], FREE)
    grant = await only(board, ADA, 1)
    assert await board.lease_hosts(BOB, 5, 5) == []
    await board.offer_links([offer(A, [3])], FREE)
    assert await board.lease_hosts(BOB, 5, 5) == []
    (nothing,) = await board.lease_more_urls(BOB, [of(grant)], 5)
    assert nothing.rows == ()
    await board.release_hosts(BOB, [ReleasedHost(of(grant), HostPayload())])
    assert await board.lease_hosts(BOB, 5, 5) == []


@told_to
async def test_the_state_of_a_host_travels_with_it(world: World, board: Coordinator) -> None:
    await board.offer_links([offer(A, [1, 2])], FREE)
    grant = await only(board, ADA)
    assert grant.payload == HostPayload()
    luggage = HostPayload(b"\x00state", 40.0, 3.5, b"learned\xff", b"User-agent: *\n" * 50, 600.0)
    await board.save_host_payloads(ADA, {of(grant): HostPayload(b"older", 10.0)})
    await board.release_hosts(ADA, [ReleasedHost(of(grant), luggage, links([2, 1]))])
    await board.release_hosts(ADA, [ReleasedHost(of(grant), HostPayload(b"told again"), links([2, 1]))])
    assert await board.lease_hosts(BOB, 5, 5) == []
    assert await board.lease_hosts(BOB, 5, 5, soon=20.0) == []
    soon = await only(board, BOB, soon=45.0)
    assert soon.rows == links([2, 1])
    assert 30 < soon.payload.rest <= 40.0
    assert (soon.payload.state, soon.payload.delay, soon.payload.policy_data) == (b"\x00state", 3.5, b"learned\xff")
    assert soon.payload.robots_txt == luggage.robots_txt
    assert 500 < soon.payload.robots_txt_seconds <= 600.0
    await board.release_hosts(BOB, [ReleasedHost(of(soon), soon.payload, soon.rows)])
    world.advance(601)
    await board.join(CYD, LEASE)
    late = await only(board, CYD)
    assert (late.payload.rest, late.payload.robots_txt, late.payload.robots_txt_seconds) == (0.0, b"", 0.0)


@told_to
async def test_a_dead_holders_host_rests_from_the_end_of_its_lease(world: World, board: Coordinator) -> None:
    await board.offer_links([offer(A, [1])], FREE)
    grant = await only(board, ADA)
    await board.save_host_payloads(ADA, {of(grant): HostPayload(b"noted", rest=1.0, delay=50.0)})
    world.advance(LEASE + 20)
    await board.heartbeat(BOB, HeartbeatRequest(b"", LEASE))
    assert await board.lease_hosts(BOB, 5, 5) == []
    (taken,) = await board.lease_hosts(BOB, 5, 5, soon=31.0)
    assert 20 < taken.payload.rest <= 30
    assert taken.payload.state == b"noted"


@told_to
async def test_hosts_wait_for_the_agent_they_are_placed_at_for_a_limited_time(world: World, board: Coordinator) -> None:
    await board.offer_links([offer(A, [1], place="ada"), offer(B, [2], place="nobody")], FREE)
    assert [grant.host for grant in await board.lease_hosts(BOB, 5, 5)] == [B]
    world.advance(LEASE / 2)
    await board.heartbeat(ADA, HeartbeatRequest(b"", LEASE))
    await board.heartbeat(BOB, HeartbeatRequest(b"", LEASE))
    assert await board.lease_hosts(BOB, 5, 5) == []
    world.advance(LEASE / 2 + 1)
    assert [grant.host for grant in await board.lease_hosts(BOB, 5, 5)] == [A]


@told_to
async def test_an_agent_that_could_not_reach_a_host_cannot_take_it_over_from_another(
    world: World, board: Coordinator
) -> None:
    await board.join(CYD, LEASE)
    await board.offer_links([offer(A, [1])], FREE)
    (grant,) = await board.lease_hosts(ADA, 5, 5)
    avoided = {"ada": 2 * LEASE, "dan": 9 * LEASE}
    back = ReleasedHost(of(grant), HostPayload(), [(1, b"row 1")], next_agent="bob", excluded_agents=avoided)
    await board.release_hosts(ADA, [back])
    for _ in range(3):
        world.advance(LEASE / 2 + 1)
        for name in (ADA, BOB, CYD):
            await board.heartbeat(name, HeartbeatRequest(b"", LEASE))
        assert await board.lease_hosts(ADA, 5, 5) == [], "it waits for bob, and not for ada"
    (grant,) = await board.lease_hosts(CYD, 5, 5)
    assert grant.host == A, "whoever else has time may have it"
    await board.release_hosts(CYD, [ReleasedHost(of(grant), HostPayload(), [(1, b"row 1")], next_agent="bob")])
    for _ in range(3):
        world.advance(LEASE / 2 + 1)
        for name in (ADA, BOB, CYD):
            await board.heartbeat(name, HeartbeatRequest(b"", LEASE))
    assert [grant.host for grant in await board.lease_hosts(ADA, 5, 5)] == [A], "not for ever"


@told_to
async def test_an_excluded_agent_gets_the_host_when_no_other_agent_is_there(world: World, board: Coordinator) -> None:
    await board.offer_links([offer(A, [1])], FREE)
    (grant,) = await board.lease_hosts(ADA, 5, 5)
    back = ReleasedHost(of(grant), HostPayload(), [(1, b"row 1")], next_agent="bob", excluded_agents={"ada": 9 * LEASE})
    await board.release_hosts(ADA, [back])
    await board.leave(BOB)
    assert [grant.host for grant in await board.lease_hosts(ADA, 5, 5)] == [A]


@told_to
async def test_hosts_placed_at_an_agent_are_granted_first_then_those_ready_first(
    world: World, board: Coordinator
) -> None:
    hosts = [Host(f"http://{n}.example.org") for n in range(3)]
    await board.offer_links([offer(hosts[0], [1])], FREE)
    world.advance(1)
    await board.offer_links([offer(hosts[1], [2])], FREE)
    world.advance(1)
    await board.offer_links([offer(hosts[2], [3], place="ada")], FREE)
    assert [grant.host for grant in await board.lease_hosts(ADA, 2, 5)] == [hosts[2], hosts[0]]
    assert [grant.host for grant in await board.lease_hosts(ADA, 2, 5)] == [hosts[1]]


@told_to
async def test_urls_in_flight_stay_owed_after_the_host_was_given_back(world: World, board: Coordinator) -> None:
    await board.offer_links([offer(A, range(10))], FREE)
    first = await only(board, ADA)
    await board.ack(ADA, done(first, [0]))
    await board.release_hosts(ADA, [ReleasedHost(of(first), HostPayload(), links([7, 8, 9]))])
    second = await only(board, BOB)
    assert second.rows == links([7, 8, 9])
    assert await board.ack(ADA, done(first, [0, 1, 2])) == [()]
    assert await sums(board) == (10, 3, 7)
    await board.return_urls(ADA, {of(first): [(3, b"tried once"), (1, b"booked before")]})
    await board.return_urls(ADA, {of(first): [(3, b"tried once")]})
    (more,) = await board.lease_more_urls(BOB, [of(second)], 5)
    assert more.rows == [(3, b"tried once")]
    await board.ack(ADA, done(first, [4, 5, 6]))
    await board.ack(BOB, done(second, [7, 8, 9, 3]))
    assert await sums(board) == (10, 10, 0)
    assert await board.lease_hosts(BOB, 5, 5) == []


@told_to
async def test_urls_owed_by_a_dead_agent_go_to_the_present_holder_of_their_host(
    world: World, board: Coordinator
) -> None:
    await board.offer_links([offer(A, range(6))], FREE)
    first = await only(board, ADA)
    await board.ack(ADA, done(first, [0]))
    await board.release_hosts(ADA, [ReleasedHost(of(first), HostPayload(), links([4, 5]))])
    await only(board, BOB)
    world.advance(LEASE - 1)
    await board.heartbeat(BOB, HeartbeatRequest(b"", LEASE))
    world.advance(2)
    await board.heartbeat(BOB, HeartbeatRequest(b"", LEASE))
    held = [LeaseId(A, first.epoch + 1)]
    (more,) = await board.lease_more_urls(BOB, held, 9)
    assert sorted(more.rows) == links([1, 2, 3])


@told_to
async def test_acknowledged_urls_stay_acknowledged_through_many_deaths(world: World, board: Coordinator) -> None:
    await board.offer_links([offer(A, range(8))], FREE)
    for start in range(1, 5):
        name = AgentId("ivy", start)
        await board.join(name, LEASE)
        grant = await only(board, name)
        assert sorted(grant.rows) == links(range(start - 1, 8))
        await board.ack(name, done(grant, [start - 1]))
        world.advance(LEASE + 1)
    await board.join(CYD, LEASE)
    assert sorted((await only(board, CYD)).rows) == links(range(4, 8))


@told_to
async def test_a_url_granted_again_under_the_same_lease_is_owed_once(world: World, board: Coordinator) -> None:
    await board.offer_links([offer(A, range(6))], FREE)
    grant = await only(board, ADA)
    await board.return_urls(ADA, {of(grant): [(2, b"later"), (3, b"later")]})
    (again,) = await board.lease_more_urls(ADA, [of(grant)], 9)
    assert again.rows == [(2, b"later"), (3, b"later")]
    await board.ack(ADA, done(grant, [2]))
    world.advance(LEASE + 1)
    await board.join(CYD, LEASE)
    assert sorted((await only(board, CYD)).rows) == sorted([*links([0, 1, 4, 5]), (3, b"later")])


@told_to
async def test_a_long_lease_stores_only_the_rows_that_are_owed(world: World, board: Coordinator) -> None:
    grant = HostGrant(A, 0, ())
    for start in range(0, 60, 3):
        await board.offer_links([offer(A, range(start, start + 3))], FREE)
        if not grant.epoch:
            grant = await only(board, ADA)
        else:
            (more,) = await board.lease_more_urls(ADA, [of(grant)], 3)
            assert more.rows == links(range(start, start + 3))
        await board.ack(ADA, done(grant, range(max(0, start - 4), start)))
        world.audit().check()
    assert await sums(board) == (60, 57, 3)


@told_to
async def test_all_hosts_of_a_dead_agent_go_to_others(world: World, board: Coordinator) -> None:
    hosts = [Host(f"http://{n}.test") for n in range(300)]
    await board.offer_links([offer(host, [n], place="ada") for n, host in enumerate(hosts)], FREE)
    held = await board.lease_hosts(ADA, 150, 5)
    await board.release_hosts(ADA, [ReleasedHost(of(grant), HostPayload()) for grant in held[:40]])
    world.advance(LEASE - 1)
    await board.heartbeat(BOB, HeartbeatRequest(b"", LEASE))
    world.advance(2)
    await board.heartbeat(BOB, HeartbeatRequest(b"", LEASE))
    world.audit().check()
    await board.join(AgentId("ada", 2), LEASE)
    rows = [row for grant in await board.lease_hosts(BOB, 400, 5) for row in grant.rows]
    assert sorted(rows) == links(range(300))
    await board.offer_links([offer(B, [999], place="ada")], FREE)
    await board.heartbeat(BOB, HeartbeatRequest(b"", LEASE))
    assert await board.lease_hosts(BOB, 400, 5) == [], "it waits for ada, who is here again"


# -- outcomes


@told_to
async def test_an_outcome_counts_once(world: World, board: Coordinator) -> None:
    await board.offer_links([offer(A, [1, 2, 3])], FREE)
    grant = await only(board, ADA)
    assert await board.ack(ADA, done(grant, [1, 2])) == [()]
    assert await board.ack(ADA, done(grant, [1, 2])) == [()]
    assert (await board.totals()).kinds == {"page": 2}
    assert await board.ack(ADA, done(grant, [3], "failed")) == [()]
    assert await board.ack(ADA, done(grant, [3], "failed")) == [()]
    assert (await board.totals()).kinds == {"page": 2, "failed": 1}
    assert await sums(board) == (3, 3, 0)


@told_to
async def test_the_number_of_the_last_batch_is_known_after_a_fence(world: World, board: Coordinator) -> None:
    await board.offer_links([offer(A, range(9))], FREE)
    grant = await only(board, ADA)
    assert await board.last_acked_batch(ADA) == 0
    for number, key in ((1, 0), (2, 1), (1, 0)):
        await board.ack(ADA, replace(done(grant, [key]), number=number))
    assert await board.last_acked_batch(ADA) == 2
    await board.join(AgentId("ada", 2), LEASE)
    with pytest.raises(AgentFenced):
        await board.ack(ADA, replace(done(grant, [2]), number=3))
    assert await board.last_acked_batch(ADA) == 2
    assert await board.last_acked_batch(AgentId("ada", 2)) == await board.last_acked_batch(BOB) == 0


@told_to
async def test_several_leases_are_acknowledged_in_one_batch(world: World, board: Coordinator) -> None:
    await board.offer_links([offer(A, [1, 2]), offer(B, [3])], FREE)
    mine, theirs = sorted(await board.lease_hosts(ADA, 5, 5), key=lambda grant: grant.host)
    told = AckBatch([LeaseAck(of(mine), [1], ["page"]), LeaseAck(of(theirs), [3], ["failed"])])
    assert await board.ack(ADA, told) == [(), ()]
    assert await sums(board) == (3, 2, 1)
    assert (await board.totals()).kinds == {"page": 1, "failed": 1}


@told_to
async def test_only_the_valid_part_of_a_batch_is_counted(world: World, board: Coordinator) -> None:
    urls = [f"{A}/{n}" for n in range(4)]
    keys = [key_of(url, CHARTER.key_seed) for url in urls]
    await board.offer_links([offer(A, keys)], FREE)
    grant = await only(board, ADA)
    await board.ack(ADA, done(grant, keys[1:3]))
    whole = LeaseAck(of(grant), keys, ["failed", "page", "page", ""])
    assert await board.ack(ADA, AckBatch([whole], pack_urls(urls))) == [()]
    assert await sums(board) == (4, 4, 0)
    assert (await board.totals()).kinds == {"page": 2, "failed": 1}, "of one it is not known what it was"
    assert await board.forget_agent("ada", again=True) == 2, "what was booked without its URL was not kept"
    assert (await board.totals()).kinds == {"page": 2}


@told_to
async def test_all_acknowledged_urls_of_a_lost_agent_are_fetched_again(world: World, board: Coordinator) -> None:
    urls = {key_of(url, CHARTER.key_seed): url for url in (f"{A}/{n}" for n in range(12))}
    theirs = {key_of(url, CHARTER.key_seed): url for url in (f"{B}/{n}" for n in range(3))}
    await board.offer_links([offer(A, urls), offer(B, theirs)], FREE)
    grants = {grant.host: grant for grant in await board.lease_hosts(ADA, 5, 20)}
    booked = list(urls)[:10]
    first = replace(done(grants[A], booked[:5]), urls=pack_urls([urls[k] for k in booked[:5]]))
    more = done(grants[A], booked[3:]).acks, done(grants[B], list(theirs)[:2], "failed").acks
    names = [urls[key] for key in booked[3:]] + list(theirs.values())[:2]
    second = AckBatch([*more[0], *more[1]], pack_urls(names))
    await board.ack(ADA, first)
    await board.ack(ADA, second)
    await board.ack(ADA, second)
    assert await sums(board) == (15, 12, 3)
    assert await board.forget_agent("nobody", again=True) == 0
    assert await board.forget_agent("ada", again=True) == 12
    assert await board.forget_agent("ada", again=True) == 0
    assert await sums(board) == (15, 0, 15)
    assert (await board.totals()).kinds == {}
    assert [note.agent for note in await board.list_agents()] == ["bob"]
    with pytest.raises(AgentFenced):
        await board.ack(ADA, first)
    world.advance(LEASE + 1)
    await board.heartbeat(BOB, HeartbeatRequest(b"", LEASE))
    rows = {key: row for grant in await board.lease_hosts(BOB, 5, 20) for key, row in grant.rows}
    assert rows.keys() == urls.keys() | theirs.keys()
    again = booked[0]
    assert decode_row(rows[again], A, 0.0).url == urls[again]


@told_to
async def test_forgetting_an_agent_keeps_its_acknowledged_urls(world: World, board: Coordinator) -> None:
    await board.offer_links([offer(A, [1, 2])], FREE)
    await board.ack(ADA, done(await only(board, ADA), [1]))
    assert await board.forget_agent("ada", again=False) == 0
    assert await sums(board) == (2, 1, 1)
    assert not await board.was_never_fenced(ADA)
    await board.join(AgentId("ada", 2), LEASE)
    assert len(await board.list_agents()) == 2


@told_to
async def test_an_agent_that_left_is_listed_while_its_results_are_kept(world: World, board: Coordinator) -> None:
    """Its disk may be lost long after it left: an operator must find its name then."""
    urls = {key_of(url, CHARTER.key_seed): url for url in (f"{A}/{n}" for n in range(2))}
    await board.offer_links([offer(A, urls)], FREE)
    grant = await only(board, ADA)
    await board.heartbeat(ADA, HeartbeatRequest(b"two pages", LEASE))
    await board.ack(ADA, replace(done(grant, urls), urls=pack_urls(list(urls.values()))))
    assert await board.list_departed_agents() == [], "she is still here"
    await board.leave(ADA)
    await board.leave(BOB)
    (left,) = await board.list_departed_agents()  # bob acknowledged nothing, so he is not listed
    assert (left.agent, left.status, left.alive, left.host_count) == ("ada", b"two pages", False, 0)
    await board.join(AgentId("ada", 2), LEASE)
    assert await board.list_departed_agents() == []
    assert await board.forget_agent("ada", again=False) == 0
    assert [note.agent for note in await board.list_departed_agents()] == ["ada"]
    assert await board.forget_agent("ada", again=True) == 2
    assert await board.list_departed_agents() == []


# -- lost answers and restarts


@told_to
async def test_a_retried_url_waits_again_once(world: World, board: Coordinator) -> None:
    await board.offer_links([offer(A, [1, 2, 3])], FREE, seeds=True)
    (grant,) = await board.lease_hosts(ADA, 5, 5)
    await board.ack(ADA, done(grant, [1], "page"))
    await board.ack(ADA, done(grant, [2, 3], "failed"))
    await board.release_hosts(ADA, [ReleasedHost(of(grant), HostPayload(b"buried"))])
    taken = RetryBatch(A, [(2, b"again 2"), (3, b"again 3")], ["failed"] * 2, 7)
    assert await board.requeue_failed(ADA, taken) == 2
    for _ in range(2):
        assert await board.requeue_failed(ADA, taken) == 0, "it was told before"
    books = await board.totals()
    assert (books.seen, books.settled, books.waiting) == (3, 1, 2)
    assert books.kinds == {"page": 1}
    (grant,) = await board.lease_hosts(BOB, 5, 5)
    assert dict(grant.rows) == {2: b"again 2", 3: b"again 3"}
    assert grant.payload.state == b"buried"
    await board.ack(BOB, done(grant, [2, 3], "page"))
    assert (await board.totals()).kinds == {"page": 3}
    assert await board.requeue_failed(ADA, replace(taken, number=8, rows=[(3, b"row 3")], kinds=["page"])) == 1
    assert (await board.totals()).waiting == 1
    with pytest.raises(AgentFenced):
        await board.requeue_failed(CYD, taken)


@told_to
async def test_a_grant_whose_answer_was_lost_goes_to_others(world: World, board: Coordinator) -> None:
    await board.offer_links([offer(A, range(9)), offer(B, [20, 21])], FREE)
    grants = {grant.host: grant for grant in await board.lease_hosts(ADA, 5, 3)}
    mine = grants[A]
    known = [key for key, _ in mine.rows][:2]
    gone = LeaseId(Host("http://gone.test"), 77)
    assert await board.reconcile_leases(ADA, {of(mine): known, gone: [5]}) == [gone]
    assert await board.reconcile_leases(ADA, {of(mine): known}) == []
    taken = await only(board, BOB)
    assert (taken.host, sorted(taken.rows)) == (B, links([20, 21]))
    (more,) = await board.lease_more_urls(ADA, [of(mine)], 100)
    assert sorted(more.rows) == links(key for key in range(9) if key not in known)
    await board.ack(ADA, done(mine, range(9)))
    await board.ack(BOB, done(taken, [20, 21]))
    assert await sums(board) == (11, 11, 0)


@told_to
async def test_a_restarted_server_is_calm_and_repeats_no_epoch(world: World, board: Coordinator) -> None:
    await board.offer_links([offer(A, [1, 2]), offer(B, [3])], FREE)
    first = await only_of(board, ADA, A)
    before = await board.heartbeat(ADA, HeartbeatRequest(b"", LEASE))
    (asked,) = await board.lease_addresses(ADA, [AddressRequest("10.0.0.1", of(first), 1.0)])
    assert asked.granted
    assert before.calm_seconds == 0
    world.restart()
    board = world.board()
    after = await board.heartbeat(ADA, HeartbeatRequest(b"", LEASE))
    assert after.server_run != before.server_run
    assert LEASE - 20 < after.calm_seconds <= LEASE + 3
    assert await board.reconcile_leases(ADA, {of(first): [1, 2]}) == []
    assert await board.lease_hosts(BOB, 5, 5) == []
    (again, other) = await board.lease_addresses(
        ADA, [AddressRequest("10.0.0.1", of(first), 1.0), AddressRequest("10.0.0.2", of(first), 1.0)]
    )
    assert again.granted
    assert not other.granted
    assert LEASE - 20 < other.retry_seconds <= LEASE + 3
    assert await board.ack(ADA, done(LeaseId(B, first.epoch + 5), [3])) == [[3]], "given and forgotten"
    assert await board.ack(ADA, done(first, [1])) == [()]
    world.advance(LEASE / 2)
    await board.heartbeat(ADA, HeartbeatRequest(b"", LEASE))
    await board.heartbeat(BOB, HeartbeatRequest(b"", LEASE))
    world.advance(LEASE / 2 + 4)
    second = await only(board, BOB)
    assert second.epoch > first.epoch + 100_000
    await board.close()


@told_to
async def test_a_coordinator_with_an_old_copy_rejects_agents_with_later_heartbeats(
    world: World, board: Coordinator
) -> None:
    """The heartbeats of each agent are counted separately; an old copy lacks the later ones."""
    await board.heartbeat(ADA, HeartbeatRequest(b"", LEASE, number=3))
    world.remember()
    await board.heartbeat(ADA, HeartbeatRequest(b"", LEASE, number=4, since=HeartbeatId("ada", 1, 3)))
    await board.heartbeat(ADA, HeartbeatRequest(b"", LEASE, number=2))  # arrives late
    await board.check_no_data_lost(HeartbeatId("ada", 1, 4))
    await board.close()
    world.restart_forgetful()
    board = world.board()
    for number in range(1, 9):
        await board.heartbeat(BOB, HeartbeatRequest(b"", LEASE, number=number))
    await board.check_no_data_lost(HeartbeatId("ada", 1, 3))
    before = await board.heartbeat(ADA, HeartbeatRequest(b"old", LEASE, since=HeartbeatId("ada", 1, 3)))
    for unheard in (HeartbeatId("ada", 1, 4), HeartbeatId("ada", 2, 1), HeartbeatId("eve", 1, 1)):
        with pytest.raises(CoordinatorDataLost, match=f"old copy of its data.*`{unheard.agent}`") as told:
            await board.check_no_data_lost(unheard)
        assert "cluster rebuild" in told.value.hint
        with pytest.raises(CoordinatorDataLost, match="old copy"):
            await board.heartbeat(ADA, HeartbeatRequest(b"new", LEASE, number=9, since=unheard))
    after = await board.heartbeat(ADA, HeartbeatRequest(b"old", LEASE))
    assert [note.status for note in after.agents] == [note.status for note in before.agents]
    with pytest.raises(CoordinatorDataLost):
        await board.check_no_data_lost(HeartbeatId("ada", 1, 9))
    await board.join(AgentId("ada", 2), LEASE)
    await board.heartbeat(AgentId("ada", 2), HeartbeatRequest(b"", LEASE, number=1, since=HeartbeatId("ada", 1, 3)))
    await board.check_no_data_lost(HeartbeatId("ada", 1, 1000))
    await board.close()


@told_to
async def test_retried_urls_are_not_sent_out_twice_when_their_agent_is_lost(world: World, board: Coordinator) -> None:
    urls = [Url(f"{A}/{n}") for n in range(10)]
    rows = [(key_of(url, CHARTER.key_seed), encode_row(Request(url, seen_at=1.0), A, 0.0)) for url in urls]
    keys = [key for key, _ in rows]
    await board.offer_links([LinkOffer(A, site_for_limits(A), rows)], FREE, seeds=True)
    grant = await only(board, ADA)
    booked = LeaseAck(of(grant), keys, ["page"] * 7 + ["failed"] * 3)
    await board.ack(ADA, AckBatch([booked], pack_urls(urls), 1))
    await board.release_hosts(ADA, [ReleasedHost(of(grant), HostPayload())])
    assert await board.requeue_failed(ADA, RetryBatch(A, rows[7:], ["failed"] * 3, 2)) == 3
    grant = await only(board, BOB)  # of the three that wait again one is fetched, and fails permanently
    assert len(grant.rows) == 3
    key = grant.rows[0][0]
    await board.ack(BOB, done(grant, [key], "failed"))
    assert await board.forget_agent("ada", again=True) == 7
    assert await board.forget_agent("ada", again=True) == 0
    assert await sums(board) == (10, 1, 9)
    assert (await board.totals()).kinds == {"failed": 1}
    await board.release_hosts(BOB, [ReleasedHost(of(grant), HostPayload(), grant.rows[1:])])
    world.advance(LEASE + 1)
    await board.join(CYD, LEASE)
    grant = await only(board, CYD)
    assert sorted(key for key, _ in grant.rows) == sorted({*keys} - {key})


@told_to
async def test_a_url_that_waits_again_is_not_queued_twice(world: World, board: Coordinator) -> None:
    """A forgotten agent comes back and retries its failures; another agent has retried some before."""
    urls = [Url(f"{A}/{n}") for n in range(6)]
    rows = [(key_of(url, CHARTER.key_seed), encode_row(Request(url, seen_at=1.0), A, 0.0)) for url in urls]
    keys = [key for key, _ in rows]
    await board.offer_links([LinkOffer(A, site_for_limits(A), rows)], FREE, seeds=True)
    grant = await only(board, ADA)
    await board.ack(ADA, AckBatch([LeaseAck(of(grant), keys, ["failed"] * 6)], pack_urls(urls), 1))
    await board.release_hosts(ADA, [ReleasedHost(of(grant), HostPayload())])
    assert await board.requeue_failed(BOB, RetryBatch(A, rows[:2], ["failed"] * 2, 5)) == 2
    assert await board.forget_agent("ada", again=True) == 4
    ada = AgentId("ada", 2)
    await board.join(ada, LEASE)
    assert await board.requeue_failed(ada, RetryBatch(A, rows, ["failed"] * 6, 9)) == 0
    assert await sums(board) == (6, 0, 6)
    assert (await board.totals()).kinds == {}
    world.advance(1.0)
    grant = await only(board, ada)
    assert sorted(key for key, _ in grant.rows) == sorted(keys)
    await board.ack(ada, done(grant, keys))
    assert await sums(board) == (6, 6, 0)
    taken = RetryBatch(A, rows[:3], ["page"] * 3, 10)
    assert await board.requeue_failed(ada, taken) == 3, "what was settled since can be taken back as before"
    assert (await board.totals()).kinds == {"page": 3}


@told_to
async def test_hosts_that_exclude_an_agent_do_not_hide_other_hosts(world: World, board: Coordinator) -> None:
    hosts = [Host(f"http://h{n}.example.org") for n in range(3)]  # of one site, so on one server
    for number, host in enumerate(hosts):
        await board.offer_links([offer(host, [number + 1])], FREE)
    grants = {grant.host: grant for grant in await board.lease_hosts(ADA, 9, 9)}
    for number, host in enumerate(hosts):
        avoided = {"ada": 10 * LEASE} if number < 2 else {}
        luggage, row = HostPayload(rest=float(number)), (number + 1, b"row")
        await board.release_hosts(ADA, [ReleasedHost(of(grants[host]), luggage, [row], "bob", avoided)])
    for _ in range(3):
        for name in (ADA, BOB):
            await board.heartbeat(name, HeartbeatRequest(b"", LEASE))
        world.advance(LEASE / 2)
    for name in (ADA, BOB):
        await board.heartbeat(name, HeartbeatRequest(b"", LEASE))
    got = [grant.host for _ in range(5) for grant in await board.lease_hosts(ADA, 1, 9)]
    assert got == [hosts[2]]


async def only_of(board: Coordinator, name: AgentId, host: Host) -> HostGrant:
    """Lease that host alone; the others go back."""
    grants = {grant.host: grant for grant in await board.lease_hosts(name, 5, 5)}
    others = [ReleasedHost(of(grant), HostPayload(), grant.rows) for grant in grants.values() if grant.host != host]
    await board.release_hosts(name, others)
    return grants[host]


# -- addresses


@told_to
async def test_an_address_has_one_holder_and_a_rest(world: World, board: Coordinator) -> None:
    await board.offer_links([offer(A, [1]), offer(B, [2])], FREE)
    mine = of((await board.lease_hosts(ADA, 1, 5))[0])
    theirs = of((await board.lease_hosts(BOB, 1, 5))[0])
    (granted,) = await board.lease_addresses(ADA, [AddressRequest("::1", mine, 9.0)])
    (again,) = await board.lease_addresses(ADA, [AddressRequest("::1", mine, 9.0)])
    (refused,) = await board.lease_addresses(BOB, [AddressRequest("::1", theirs, 1.0)])
    assert granted.granted
    assert again.granted
    assert (refused.granted, refused.holder, refused.retry_seconds) == (False, "ada", 9.0)
    await board.release_addresses(ADA, {"::1": 40.0})
    for name, held in ((ADA, mine), (BOB, theirs)):
        (resting,) = await board.lease_addresses(name, [AddressRequest("::1", held, 1.0)])
        assert (resting.granted, resting.holder) == (False, "")
        assert 20 < resting.retry_seconds <= 40.0
    world.advance(41)
    (granted,) = await board.lease_addresses(BOB, [AddressRequest("::1", theirs, 1.0)])
    assert granted.granted
    await board.release_addresses(ADA, {"::1": 30.0})
    await board.release_addresses(BOB, {"::1": 0.0})
    (resting,) = await board.lease_addresses(BOB, [AddressRequest("::1", theirs, 1.0)])
    assert 10 < resting.retry_seconds <= 30


@told_to
async def test_an_address_is_granted_for_a_held_host_or_for_none(world: World, board: Coordinator) -> None:
    await board.offer_links([offer(M, [1])], FREE)
    held = of(await only(board, ADA))
    stale, other, none = LeaseId(M, held.epoch + 1), LeaseId(N, held.epoch), LeaseId(N, 0)
    addresses = world.addresses(M, 4)
    asks = [AddressRequest(a, each, 1.0) for a, each in zip(addresses, (held, stale, other, none), strict=True)]
    assert [answer.granted for answer in await board.lease_addresses(ADA, asks)] == [True, False, False, True]


@told_to
async def test_a_dead_holders_address_rests_from_the_end_of_its_lease(world: World, board: Coordinator) -> None:
    await board.offer_links([offer(A, [1]), offer(B, [2])], FREE)
    mine = of((await board.lease_hosts(ADA, 1, 5))[0])
    theirs = of((await board.lease_hosts(BOB, 1, 5))[0])
    await board.lease_addresses(ADA, [AddressRequest("10.0.0.1", mine, 50.0)])
    world.advance(LEASE - 10)
    await board.heartbeat(BOB, HeartbeatRequest(b"", LEASE))
    world.advance(30)
    (answer,) = await board.lease_addresses(BOB, [AddressRequest("10.0.0.1", theirs, 1.0)])
    assert (answer.granted, answer.holder) == (False, "")
    assert 10 < answer.retry_seconds <= 30
    world.advance(31)
    (answer,) = await board.lease_addresses(BOB, [AddressRequest("10.0.0.1", theirs, 1.0)])
    assert answer.granted
