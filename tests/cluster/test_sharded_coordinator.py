"""Behaviour of the sharded coordinator beyond the contract."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.coordinators import MemoryWorld, RedisWorld, ServerProcess, SpreadWorld
from cluster.test_coordinator_contract import done
from fieldmouse.cluster.client.session import open_coordinator
from fieldmouse.cluster.coordinator import (
    AckBatch,
    AddressRequest,
    AgentId,
    Coordinator,
    CrawlSpec,
    CrawlTotals,
    HeartbeatReply,
    HeartbeatRequest,
    LeaseAck,
    LeaseId,
    LinkOffer,
    SiteBounds,
)
from fieldmouse.cluster.decoding import pack_urls, unpack_urls
from fieldmouse.cluster.redis.coordinator import RedisCoordinator
from fieldmouse.cluster.sharded.coordinator import ShardedCoordinator
from fieldmouse.cluster.sharded.sharding import check_not_sharded, shard_of_address, shard_of_host, split_batch
from fieldmouse.errors import AgentFenced, CoordinatorDataLost, CoordinatorUnreachable, UsageError
from fieldmouse.testing.memory_coordinator import MemoryCoordinator
from fieldmouse.url import Host

LEASE = 100.0
CHARTER = CrawlSpec(7, "[crawl]", ("http://a.test/",))
ADA = AgentId("ada", 1)
FREE = SiteBounds()
HERE, THERE = Host("http://a.test"), Host("http://be.test")  # on the first server of two, on the second


def tell(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(story())  # type: ignore[arg-type]


class MoodyBoard(MemoryCoordinator):
    """A coordinator in memory that can be made unreachable, and runs a callback before it is read."""

    silent = False
    heard = 0

    async def heartbeat(self, name: AgentId, *words: Any, **more: Any) -> HeartbeatReply:
        if self.silent:
            raise CoordinatorUnreachable("it does not answer", "wait")
        self.heard += 1
        return await super().heartbeat(name, *words, **more)

    before_books: Callable[[], Awaitable[None]] | None = None

    async def totals(self) -> CrawlTotals:
        if self.before_books is not None:
            happens, self.before_books = self.before_books, None
            await happens()
        return await super().totals()


async def two(names: Sequence[str] = "xy") -> tuple[ShardedCoordinator, MoodyBoard, MoodyBoard]:
    """Ada has joined and holds a host on each: each has one URL, with the keys 1 and 2."""
    first, second = (MoodyBoard(MemoryWorld().server) for _ in range(2))
    board = ShardedCoordinator(dict(zip(names, (first, second), strict=True)))
    await board.create_crawl(CHARTER)
    await board.join(ADA, LEASE)
    await board.offer_links([LinkOffer(HERE, "", [(1, b"1")]), LinkOffer(THERE, "", [(2, b"2")])], FREE, seeds=True)
    return board, first, second


def test_a_site_lies_on_one_server_and_all_servers_fill_evenly() -> None:
    sites = [f"site-{n}.org" for n in range(3000)]
    places = Counter()
    for site in sites:
        (place,) = {shard_of_host(Host(f"{start}{site}"), 3) for start in ("http://", "https://www.", "http://a.b.")}
        places[place] += 1
    # Three fair thirds of 3000 differ from 1000 by five standard deviations (129) once in a million times.
    assert all(870 < count < 1130 for count in places.values())
    assert {shard_of_address(f"10.0.0.{n}", 3) for n in range(99)} == {0, 1, 2}


def test_each_host_is_on_one_server_only() -> None:
    async def story() -> None:
        board, first, second = await two()
        assert (await first.totals()).hosts == (await second.totals()).hosts == 1
        grants = await board.lease_hosts(ADA, 5, 5)
        assert {grant.host for grant in grants} == {HERE, THERE}
        held = {grant.host: LeaseId(grant.host, grant.epoch) for grant in grants}
        assert await board.ack(ADA, done(held[THERE], [2])) == [()]
        assert [(await each.totals()).settled for each in (first, second)] == [0, 1]

    tell(story)


def test_an_agent_is_alive_for_all_servers_or_for_none() -> None:
    async def story() -> None:
        board, first, second = await two()
        await board.heartbeat(ADA, HeartbeatRequest(b"", LEASE))
        second.silent = True
        with pytest.raises(CoordinatorUnreachable):
            await board.heartbeat(ADA, HeartbeatRequest(b"", LEASE))
        heard = first.heard
        with pytest.raises(CoordinatorUnreachable):
            await board.heartbeat(ADA, HeartbeatRequest(b"", LEASE))
        assert first.heard == heard, "whoever waits for one server must die for the other"
        second.silent = False
        pulse = await board.heartbeat(ADA, HeartbeatRequest(b"", LEASE))
        assert first.heard == heard + 1
        assert [note.alive for note in pulse.agents] == [True]

    tell(story)


def test_a_crawl_is_done_only_if_no_url_waited_at_one_moment() -> None:
    """While the servers are read, a page of the second is acknowledged; its link waits on the first."""

    async def story() -> None:
        board, _, second = await two()
        held = {grant.host: LeaseId(grant.host, grant.epoch) for grant in await board.lease_hosts(ADA, 5, 5)}
        await board.ack(ADA, done(held[HERE], [1]))

        async def visit() -> None:
            await board.offer_links([LinkOffer(HERE, "", [(3, b"3")])], FREE)
            await board.ack(ADA, done(held[THERE], [2]))

        second.before_books = visit  # the first has been read by then
        assert (await board.totals()).waiting == 1
        await board.lease_more_urls(ADA, [held[HERE]], 5)
        await board.ack(ADA, done(held[HERE], [3]))
        books = await board.totals()
        assert (books.started, books.waiting, books.seen, books.kinds) == (True, 0, 3, {"page": 3})

    tell(story)


def test_a_crawl_has_begun_when_all_servers_have_their_seeds() -> None:
    async def story() -> None:
        worlds = [MemoryWorld(), MemoryWorld()]
        board = SpreadWorld(*worlds).board()
        await board.create_crawl(CHARTER)
        part = worlds[0].board()
        await part.offer_links([LinkOffer(HERE, "", [(1, b"")])], FREE, seeds=True)
        assert not (await board.totals()).started
        await board.offer_links([LinkOffer(HERE, "", [(1, b"")])], FREE, seeds=True)
        assert (await board.totals()).started

    tell(story)


def test_outcomes_count_only_on_servers_where_the_agent_is_not_fenced() -> None:
    async def story() -> None:
        board, first, second = await two()
        held = {grant.host: LeaseId(grant.host, grant.epoch) for grant in await board.lease_hosts(ADA, 5, 5)}
        told = AckBatch([*done(held[HERE], [1]).acks, *done(held[THERE], [2]).acks])
        await second.leave(ADA)
        assert await board.ack(ADA, told) == [(), [2]]
        with pytest.raises(AgentFenced):
            await board.heartbeat(ADA, HeartbeatRequest(b"", LEASE))
        await first.leave(ADA)
        with pytest.raises(AgentFenced):
            await board.ack(ADA, told)

    tell(story)


def test_an_address_on_an_unreachable_server_is_refused_and_others_are_granted() -> None:
    async def story() -> None:
        board, _, second = await two()
        held = {grant.host: LeaseId(grant.host, grant.epoch) for grant in await board.lease_hosts(ADA, 5, 5)}
        here, there = "10.0.0.1", "10.0.0.4"
        assert (shard_of_address(here, 2), shard_of_address(there, 2)) == (0, 1)

        async def silent(name: AgentId, asks: Sequence[AddressRequest]) -> list[object]:
            raise CoordinatorUnreachable("it does not answer", "wait")

        second.lease_addresses = silent  # type: ignore[method-assign, assignment]
        asks = [AddressRequest(there, held[HERE], 1.0), AddressRequest(here, held[THERE], 1.0)]
        assert [answer.granted for answer in await board.lease_addresses(ADA, asks)] == [False, True]
        with pytest.raises(CoordinatorUnreachable):
            await board.lease_addresses(ADA, asks[:1])

    tell(story)


# -- servers of a crawl


def boards(*worlds: MemoryWorld) -> dict[str, Coordinator]:
    return {f"redis://{'abc'[n]}": world.board() for n, world in enumerate(worlds)}


def test_servers_of_a_crawl_are_identified_by_their_data() -> None:
    async def story() -> None:
        worlds = [MemoryWorld(), MemoryWorld()]
        await ShardedCoordinator(boards(*worlds)).create_crawl(CHARTER)
        moved = ShardedCoordinator({"x": worlds[1].board(), "y": worlds[0].board()})
        assert await moved.crawl_spec() == CHARTER
        await moved.offer_links([LinkOffer(HERE, "", [(1, b"")])], FREE)
        assert (await worlds[0].board().totals()).seen == 1

    tell(story)


def test_a_different_list_of_servers_is_refused_with_an_explanation() -> None:
    async def story() -> None:
        a, b, c = MemoryWorld(), MemoryWorld(), MemoryWorld()
        board = ShardedCoordinator(boards(a, b))
        await board.create_crawl(CHARTER)
        with pytest.raises(UsageError, match=r"lies on 2 servers \(redis://a, redis://b\), and 3 are named"):
            await ShardedCoordinator(boards(a, b, c)).crawl_spec()
        with pytest.raises(UsageError, match=r"lies on 2 servers .*, and 1 is named"):
            check_not_sharded(await a.board().crawl_spec() or CHARTER, "fieldmouse")
        with pytest.raises(UsageError, match="are one server"):
            await ShardedCoordinator(boards(a, a)).crawl_spec()
        with pytest.raises(CoordinatorDataLost, match="redis://c has no data"):
            await ShardedCoordinator({"redis://a": a.board(), "redis://c": c.board()}).create_crawl(CHARTER)
        await board.offer_links([], FREE, seeds=True)
        with pytest.raises(CoordinatorDataLost, match="redis://b has no data"):
            await ShardedCoordinator(boards(a, c)).crawl_spec()
        await c.board().create_crawl(CrawlSpec(8, "", ()))
        with pytest.raises(UsageError, match="different crawls"):
            await ShardedCoordinator(boards(a, c)).crawl_spec()
        alone = MemoryWorld()
        await alone.board().create_crawl(CHARTER)
        with pytest.raises(UsageError, match="lies on redis://a alone, and 2 are named"):
            await ShardedCoordinator(boards(alone, MemoryWorld())).crawl_spec()

    tell(story)


def test_another_agent_completes_a_crawl_whose_creator_died() -> None:
    async def story() -> None:
        a, b = MemoryWorld(), MemoryWorld()
        names = ("redis://a", "redis://b")
        await a.board().create_crawl(CrawlSpec(5, "first", (), servers=names, place=0))
        board = ShardedCoordinator(boards(a, b))
        assert await board.crawl_spec() is None
        assert (await board.create_crawl(CHARTER)).key_seed == 5
        assert (await b.board().crawl_spec() or CHARTER).place == 1

    tell(story)


# -- shares

told = st.lists(st.tuples(st.sampled_from("abcdefg"), st.integers(0, 5)), min_size=1, max_size=8)


@given(told, st.integers(1, 4))
def test_the_shards_of_a_batch_add_up_to_it(leases: list[tuple[str, int]], servers: int) -> None:
    bookings = [
        LeaseAck(LeaseId(Host(f"http://{letter}.test"), n), [100 * n + k for k in range(keys)], ["page"] * keys)
        for n, (letter, keys) in enumerate(leases)
    ]
    keys = [key for booked in bookings for key in booked.keys]
    whole = AckBatch(bookings, pack_urls([f"url {key}" for key in keys]))
    parts = split_batch(whole, servers)
    numbers = sorted(number for its, _ in parts.values() for number in its)
    assert numbers == list(range(len(bookings)))
    for place, (its, part) in parts.items():
        assert part.acks == [bookings[number] for number in its]
        assert {shard_of_host(booked.lease.host, servers) for booked in part.acks} == {place}
        assert unpack_urls(part.urls) == [f"url {key}" for booked in part.acks for key in booked.keys]


# -- one server under two names


def test_one_server_under_two_names_is_refused_before_a_crawl_is_created() -> None:
    async def story() -> None:
        world = MemoryWorld()
        twice = SpreadWorld(world, world)
        for act in (
            twice.board().create_crawl(CHARTER),
            twice.board().crawl_spec(),
            twice.builder().begin_hidden(CHARTER),
        ):
            with pytest.raises(UsageError, match="`server 0` and `server 1` are one server"):
                await act
        assert not world.server.crawls
        assert not world.server.hidden

    tell(story)


def test_a_real_server_is_identified_by_its_run_id(server: ServerProcess, tmp_path: Path) -> None:
    async def story() -> None:
        RedisWorld(server)
        other = tmp_path / "other"
        other.symlink_to(server.socket)
        for name in (f"unix://{other}", f"{server.url}?db=0"):
            board = open_coordinator([server.url, name], "fieldmouse")
            with pytest.raises(UsageError, match="are one server"):
                await board.create_crawl(CHARTER)
            await board.close()
            assert not server.client().keys()

    tell(story)


def test_two_databases_of_one_server_are_two_coordinators(server: ServerProcess) -> None:
    async def story() -> None:
        RedisWorld(server)
        board = open_coordinator([f"{server.url}?db=1", f"{server.url}?db=2"], "fieldmouse")
        assert (await board.create_crawl(CHARTER)).key_seed == CHARTER.key_seed
        await board.offer_links([LinkOffer(HERE, "", [(1, b"1")]), LinkOffer(THERE, "", [(2, b"2")])], FREE, seeds=True)
        await board.close()
        for database in (1, 2):
            part = RedisCoordinator(f"{server.url}?db={database}")
            assert (await part.totals()).hosts == 1
            await part.close()

    tell(story)
