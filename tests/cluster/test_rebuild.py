"""Rebuild of a lost crawl: the contract of every coordinator, and its refusals."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps

import pytest

from auto_advance_clock import AutoAdvanceClock
from cluster.audits import audit_of_ledger
from cluster.coordinators import MemoryWorld, RedisWorld, ServerProcess, World
from cluster.memory_rebuilder import MemoryRebuilder
from fieldmouse.cluster.coordinator import (
    AckBatch,
    AgentId,
    Coordinator,
    CrawlRebuilder,
    CrawlSpec,
    HeartbeatId,
    HeartbeatRequest,
    HostPayload,
    LeaseAck,
    LeaseId,
    LinkOffer,
    RestoredOutcomes,
    RetryBatch,
    SiteBounds,
)
from fieldmouse.cluster.decoding import decode_row, pack_urls
from fieldmouse.cluster.sharded.coordinator import ShardedCoordinator
from fieldmouse.cluster.sharded.rebuild import ShardedRebuilder
from fieldmouse.cluster.sharded.sharding import shard_of_host
from fieldmouse.errors import CoordinatorDataLost, CoordinatorError
from fieldmouse.testing.memory_coordinator import MemoryCoordinator, MemoryServer
from fieldmouse.url import Host, key_of

CHARTER = CrawlSpec(key_seed=7, settings="[crawl]", seeds=("http://a.test/",), made_by="ada")
LEASE, DELAY = 30.0, 2.0
FREE = SiteBounds()
ADA, BOB = AgentId("ada", 1), AgentId("bob", 1)
A, B = Host("http://a.test"), Host("http://b.test:81")


@pytest.fixture(params=["memory", "redis"])
def world(request: pytest.FixtureRequest) -> World:
    return MemoryWorld() if request.param == "memory" else RedisWorld(request.getfixturevalue("server"))


Story = Callable[[World, Coordinator, CrawlRebuilder], Awaitable[None]]


def told_to(story: Story) -> Callable[[World], None]:
    @wraps(story)
    def test(world: World) -> None:
        async def tell() -> None:
            board, builder = world.board(), world.builder()
            await story(world, board, builder)
            await board.close()
            await builder.close()
            world.audit().check()

        asyncio.run(tell())

    del test.__wrapped__  # pytest would ask for its arguments
    return test


def urls_of(host: Host, numbers: range) -> list[str]:
    return [f"{host}/{number}" for number in numbers]


def restored(host: Host, numbers: range, kind: str = "page") -> RestoredOutcomes:
    keys = [key_of(url, CHARTER.key_seed) for url in urls_of(host, numbers)]
    return RestoredOutcomes(host, "test", keys, [kind] * len(keys))


def offer(host: Host, numbers: range) -> LinkOffer:
    keys = [key_of(url, CHARTER.key_seed) for url in urls_of(host, numbers)]
    return LinkOffer(host, "test", [(key, b"row %d" % number) for key, number in zip(keys, numbers, strict=True)])


async def built(builder: CrawlRebuilder) -> None:
    """Ada has ten of a's URLs, bob has five of b's; fifteen of a's and seven of b's are known."""
    await builder.begin_hidden(CHARTER)
    await builder.restore_outcomes(ADA, [restored(A, range(10))], pack_urls(urls_of(A, range(10))))
    await builder.restore_outcomes(BOB, [restored(B, range(5), "failed")], pack_urls(urls_of(B, range(5))))
    for name in (ADA, BOB):
        await builder.mark_agent_restored(name, 3)
    await builder.restore_host_payloads({A: HostPayload(b"how a stands", rest=90.0, delay=DELAY)})
    await builder.offer_links([offer(A, range(15)), offer(B, range(7))], FREE)


@told_to
async def test_urls_with_outcomes_are_settled_and_the_others_wait(
    world: World, board: Coordinator, builder: CrawlRebuilder
) -> None:
    await built(builder)
    world.advance(50.0)  # it takes its time
    await builder.publish_crawl(LEASE, DELAY, age=3600.0)
    books = await board.totals()
    assert books.age == pytest.approx(3600.0, abs=30.0)
    assert (books.seen, books.settled, books.waiting, books.hosts) == (22, 15, 7, 2)
    assert books.kinds == {"page": 10, "failed": 5}
    assert books.started
    assert await board.crawl_spec() == CHARTER


@told_to
async def test_a_crawl_is_invisible_until_it_is_published(
    world: World, board: Coordinator, builder: CrawlRebuilder
) -> None:
    await built(builder)
    assert await board.crawl_spec() is None
    with pytest.raises(CoordinatorDataLost, match="has lost the crawl"):
        await board.join(ADA, LEASE)
    with pytest.raises(CoordinatorError, match="is being rebuilt"):
        await board.create_crawl(CrawlSpec(key_seed=8, settings="", seeds=()))
    assert (await builder.totals()).seen == 22
    await builder.publish_crawl(LEASE, DELAY)
    await board.join(ADA, LEASE)


@told_to
async def test_a_repeated_rebuild_counts_once(world: World, board: Coordinator, builder: CrawlRebuilder) -> None:
    await built(builder)
    # Killed and started again: the first values stay, and so does the specification.
    assert (await builder.begin_hidden(CrawlSpec(8, "", ()))).key_seed == CHARTER.key_seed
    await built(builder)
    assert await builder.restore_outcomes(BOB, [restored(A, range(8, 12))]) == 0, "two are settled, and two wait"
    await builder.publish_crawl(LEASE, DELAY)
    books = await board.totals()
    assert (books.seen, books.settled, books.hosts, books.kinds["page"]) == (22, 15, 2, 10)


@told_to
async def test_a_crawl_that_holds_urls_is_left_alone(world: World, board: Coordinator, builder: CrawlRebuilder) -> None:
    await board.create_crawl(CHARTER)
    await builder.begin_hidden(CHARTER)  # it was empty
    assert await board.crawl_spec() is None
    await builder.restore_outcomes(ADA, [restored(A, range(3))])
    await builder.publish_crawl(LEASE, DELAY)
    for act in (builder.begin_hidden(CHARTER), builder.publish_crawl(LEASE, DELAY)):
        with pytest.raises(CoordinatorError):
            await act
    with pytest.raises(CoordinatorError, match="is not empty"):
        await builder.begin_hidden(CHARTER)
    assert (await board.totals()).seen == 3


@told_to
async def test_nothing_is_granted_while_old_leases_may_last_and_hosts_keep_their_rest(
    world: World, board: Coordinator, builder: CrawlRebuilder
) -> None:
    await built(builder)
    await builder.publish_crawl(LEASE, DELAY)
    await board.join(ADA, 10 * LEASE)
    assert await board.lease_hosts(ADA, 9, 100) == []
    assert (await board.heartbeat(ADA, HeartbeatRequest(b"", 10 * LEASE))).calm_seconds > LEASE
    world.advance(LEASE + DELAY + 3.0)
    (first,) = await board.lease_hosts(ADA, 9, 100)
    assert first.host == B, "a rests for 90 seconds"
    world.advance(90.0)
    (second,) = await board.lease_hosts(ADA, 9, 100)
    assert (second.host, second.payload.state, len(second.rows)) == (A, b"how a stands", 5)
    assert second.epoch > first.epoch > 1_000_000, "the lost board gave no such epoch"
    keys = [key for key, _ in second.rows]
    told = AckBatch([LeaseAck(LeaseId(A, second.epoch), keys, ["page"] * len(keys))])
    assert await board.ack(ADA, told) == [()]
    assert (await board.totals()).settled == 20


@told_to
async def test_restored_urls_can_be_fetched_again_if_their_agent_is_lost_later(
    world: World, board: Coordinator, builder: CrawlRebuilder
) -> None:
    await builder.begin_hidden(CHARTER)
    await builder.restore_outcomes(ADA, [restored(A, range(10))], pack_urls(urls_of(A, range(10))))
    both = [restored(A, range(8, 13)), restored(B, range(2), "moved")]
    urls = pack_urls([*urls_of(A, range(8, 13)), *urls_of(B, range(2))])
    assert await builder.restore_outcomes(BOB, both, urls) == 5, "two of them are ada's"
    await builder.publish_crawl(LEASE, DELAY)
    assert await board.forget_agent("bob", again=True) == 5
    books = await board.totals()
    assert (books.settled, books.waiting, books.kinds) == (10, 5, {"page": 10})
    await board.join(AgentId("bob", 2), 10 * LEASE)
    world.advance(LEASE + DELAY + 3.0)
    grants = await board.lease_hosts(AgentId("bob", 2), 9, 100)
    found = {str(decode_row(row, grant.host, 0.0).url) for grant in grants for _, row in grant.rows}
    assert found == {*urls_of(A, range(10, 13)), *urls_of(B, range(2))}


@told_to
async def test_bounds_of_sites_count_restored_urls(world: World, board: Coordinator, builder: CrawlRebuilder) -> None:
    await builder.begin_hidden(CHARTER)
    await builder.restore_outcomes(ADA, [restored(A, range(10))], bounded=True)
    told = await builder.offer_links([offer(A, range(15)), offer(B, range(2))], SiteBounds(hosts=1, urls=12))
    assert (told.new, told.dropped_urls, told.dropped_hosts) == (2, 3, 2)
    await builder.publish_crawl(LEASE, DELAY)


@told_to
async def test_batches_sent_to_the_lost_coordinator_count_as_sent(
    world: World, board: Coordinator, builder: CrawlRebuilder
) -> None:
    """Its outcomes were read from its disk: none of them is rejected."""
    await built(builder)
    await builder.publish_crawl(LEASE, DELAY)
    assert await board.last_acked_batch(ADA) > 10**12
    assert await board.last_acked_batch(AgentId("ada", 2)) == 0, "a later start has told nothing yet"
    assert await board.last_acked_batch(AgentId("eve", 1)) == 0


@told_to
async def test_an_old_copy_is_cleared_completely(world: World, board: Coordinator, builder: CrawlRebuilder) -> None:
    await board.create_crawl(CHARTER)
    await board.join(ADA, LEASE)
    await board.offer_links([offer(A, range(15, 30)), offer(B, range(7))], FREE)
    await board.lease_hosts(ADA, 1, 4)
    await board.heartbeat(ADA, HeartbeatRequest(b"", LEASE, number=5))
    assert not await builder.clear_outdated_crawl(CHARTER.key_seed, [HeartbeatId("ada", 1, 5), HeartbeatId()])
    with pytest.raises(CoordinatorError, match="is not empty"):
        await builder.begin_hidden(CHARTER)
    with pytest.raises(CoordinatorError, match="`ada` crawls with it") as told:
        await builder.clear_outdated_crawl(CHARTER.key_seed, [HeartbeatId("bob", 1, 9)])
    assert "stop all agents first" in told.value.hint
    for each in (board, builder):
        await each.close()
    # as an operator who restores an old copy must do; ada may have been active when it was made
    world.restart()
    board, builder = world.board(), world.builder()
    assert await builder.clear_outdated_crawl(CHARTER.key_seed, [HeartbeatId("ada", 1, 5), HeartbeatId("bob", 1, 9)])
    assert not await builder.clear_outdated_crawl(CHARTER.key_seed, [HeartbeatId("bob", 1, 9)]), "there is none"
    with pytest.raises(CoordinatorDataLost, match="has lost the crawl"):
        await board.heartbeat(ADA, HeartbeatRequest(b"", LEASE, number=6))
    await built(builder)
    await builder.publish_crawl(LEASE, DELAY)
    books = await board.totals()
    assert (books.seen, books.settled, books.waiting, books.hosts) == (22, 15, 7, 2)
    assert await board.list_agents() == []
    await board.check_no_data_lost(HeartbeatId("bob", 1, 9))
    for unheard in (HeartbeatId("bob", 2, 1), HeartbeatId("cyd", 1, 1)):
        with pytest.raises(CoordinatorDataLost, match="old copy"):
            await board.check_no_data_lost(unheard)
    assert not await builder.clear_outdated_crawl(CHARTER.key_seed, [HeartbeatId("bob", 1, 9)])
    for each in (board, builder):
        await each.close()


@told_to
async def test_a_different_crawl_is_never_cleared(world: World, board: Coordinator, builder: CrawlRebuilder) -> None:
    """The wrong server may have a crawl of the default name, which does not know these agents."""
    await board.create_crawl(CrawlSpec(key_seed=99, settings="[crawl]", seeds=("http://z.test/",), made_by="zoe"))
    await board.offer_links([offer(A, range(15))], FREE)
    assert not await builder.clear_outdated_crawl(CHARTER.key_seed, [HeartbeatId("ada", 5, 9)])
    with pytest.raises(CoordinatorError, match="is not empty"):
        await builder.begin_hidden(CHARTER)
    assert (await board.totals()).seen == 15


@told_to
async def test_a_copied_directory_does_not_make_its_original_look_old(
    world: World, board: Coordinator, builder: CrawlRebuilder
) -> None:
    await builder.begin_hidden(CHARTER)
    failed = restored(A, range(1), "failed")
    await builder.restore_outcomes(AgentId("ada", 200), [failed])
    await builder.mark_agent_restored(AgentId("ada", 200), 7)
    await builder.mark_agent_restored(AgentId("bob", 300), 2)  # a copy of ada's directory, which has hardly run since
    await builder.mark_agent_restored(AgentId("ada", 100), 0)
    await builder.publish_crawl(LEASE, DELAY)
    await board.check_no_data_lost(HeartbeatId("ada", 200, 7))
    assert await board.last_acked_batch(AgentId("ada", 200)) > 1 << 50
    await board.join(AgentId("ada", 201), LEASE)
    for number, waits in ((7, 0), (8, 1)):
        taken = RetryBatch(A, [(failed.keys[0], b"row")], ["failed"], number)
        assert await board.requeue_failed(AgentId("ada", 201), taken) == waits, "what it had to tell was read"


def test_an_interrupted_clearing_is_completed_before_a_rebuild(server: ServerProcess) -> None:
    """Leftover keys of the old copy would count as seen: their URLs would be lost."""
    world = RedisWorld(server)

    async def story() -> None:
        board, builder, neighbour = world.board(), world.builder(), world.board("other")
        for each in (board, neighbour):
            await each.create_crawl(CHARTER)
            await each.offer_links([offer(A, range(15, 30))], FREE)
        command = builder._server.run_command

        async def killed(*words: str | bytes | int) -> object:
            if words[0] == "UNLINK":
                raise KeyboardInterrupt
            return await command(*words)

        builder._server.run_command = killed  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            await builder.clear_outdated_crawl(CHARTER.key_seed, [HeartbeatId("ada", 1, 1)])
        assert await board.crawl_spec() is None
        builder._server.run_command = command  # type: ignore[method-assign]
        assert await builder.clear_outdated_crawl(CHARTER.key_seed, [HeartbeatId("ada", 1, 1)])
        assert not server.client().keys("fm:{fieldmouse}:*")
        assert (await neighbour.totals()).seen == 15, "crawls beside it are not touched"
        for each in (board, builder, neighbour):
            await each.close()

    asyncio.run(story())


def spread(servers: list[MemoryServer]) -> ShardedRebuilder:
    builders = {f"server {number}": MemoryRebuilder(server) for number, server in enumerate(servers)}
    boards = {f"server {number}": MemoryCoordinator(server) for number, server in enumerate(servers)}
    return ShardedRebuilder(builders, boards)


def together_of(servers: list[MemoryServer]) -> ShardedCoordinator:
    return ShardedCoordinator({f"server {number}": MemoryCoordinator(server) for number, server in enumerate(servers)})


@pytest.mark.parametrize("lost", [(0,), (1,), (0, 1)])
def test_only_servers_that_lost_their_shard_are_rebuilt(lost: tuple[int, ...]) -> None:
    """Hosts on both; restoring and offering to a server that still has its shard changes nothing there."""

    async def story() -> None:
        clock = AutoAdvanceClock(1_700_000_000.0)
        servers = [MemoryServer(clock), MemoryServer(clock)]
        hosts = [Host(f"http://127.0.0.{number}") for number in range(1, 9)]
        assert {shard_of_host(host, 2) for host in hosts} == {0, 1}
        builder = spread(servers)
        for _ in range(2):  # all of it, and then the lost part
            assert (await builder.begin_hidden(CHARTER)).key_seed == CHARTER.key_seed
            for host in hosts:
                await builder.restore_outcomes(ADA, [restored(host, range(3))], pack_urls(urls_of(host, range(3))))
            await builder.mark_agent_restored(BOB, 1)  # agents without results
            await builder.restore_host_payloads({host: HostPayload(b"state") for host in hosts})
            await builder.offer_links([offer(host, range(5)) for host in hosts], FREE)
            assert (await builder.totals()).seen == 40
            await builder.publish_crawl(LEASE, DELAY)
            board = together_of(servers)
            books = await board.totals()
            assert (books.seen, books.settled, books.waiting, books.hosts) == (40, 24, 16, 8)
            assert books.kinds == {"page": 24}
            await board.check_no_data_lost(HeartbeatId("bob", 1, 3))
            with pytest.raises(CoordinatorError, match="is not empty"):
                await spread(servers).begin_hidden(CHARTER)
            for place in lost:
                servers[place].crawls.clear()
            builder = spread(servers)
            with pytest.raises(CoordinatorError):
                await together_of(servers).totals()
        for server in servers:
            if server.crawls:
                audit_of_ledger(MemoryCoordinator(server).crawl_state()).check()

    asyncio.run(story())
