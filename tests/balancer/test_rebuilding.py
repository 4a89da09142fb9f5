"""Rebuild of a lost crawl: the contract of every coordinator, and its refusals."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps

import pytest

from balancer.audits import audit_of_ledger
from balancer.boards import MemoryWorld, RedisWorld, ServerProcess, World
from fieldmouse.clock import ManualClock
from fieldmouse.cluster.coordinator import (
    Board,
    BookedKeys,
    Charter,
    Heard,
    Heartbeat,
    Held,
    Luggage,
    Name,
    Offer,
    SiteBounds,
    TakenBack,
    Told,
)
from fieldmouse.cluster.decoding import link_of
from fieldmouse.cluster.rebuild import BoardBuilder, RestoredHost
from fieldmouse.cluster.rows import pack_urls
from fieldmouse.cluster.sharded.coordinator import SpreadBoard
from fieldmouse.cluster.sharded.rebuild import SpreadBuilder
from fieldmouse.cluster.sharded.sharding import place_of_host
from fieldmouse.errors import BoardError, BoardLost
from fieldmouse.testing.memory_coordinator import MemoryBoard, MemoryBuilder, MemoryServer
from fieldmouse.url import Host, key_of

CHARTER = Charter(key_seed=7, settings="[crawl]", seeds=("http://a.test/",), made_by="ada")
LEASE, DELAY = 30.0, 2.0
FREE = SiteBounds()
ADA, BOB = Name("ada", 1), Name("bob", 1)
A, B = Host("http://a.test"), Host("http://b.test:81")


@pytest.fixture(params=["memory", "redis"])
def world(request: pytest.FixtureRequest) -> World:
    return MemoryWorld() if request.param == "memory" else RedisWorld(request.getfixturevalue("server"))


Story = Callable[[World, Board, BoardBuilder], Awaitable[None]]


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


def restored(host: Host, numbers: range, kind: str = "page") -> RestoredHost:
    keys = [key_of(url, CHARTER.key_seed) for url in urls_of(host, numbers)]
    return RestoredHost(host, "test", keys, [kind] * len(keys))


def offer(host: Host, numbers: range) -> Offer:
    keys = [key_of(url, CHARTER.key_seed) for url in urls_of(host, numbers)]
    return Offer(host, "test", [(key, b"row %d" % number) for key, number in zip(keys, numbers, strict=True)])


async def built(builder: BoardBuilder) -> None:
    """Ada has ten of a's URLs, bob has five of b's; fifteen of a's and seven of b's are known."""
    await builder.hide(CHARTER)
    await builder.restore(ADA, [restored(A, range(10))], pack_urls(urls_of(A, range(10))))
    await builder.restore(BOB, [restored(B, range(5), "failed")], pack_urls(urls_of(B, range(5))))
    for name in (ADA, BOB):
        await builder.note_restored(name, 3)
    await builder.settle_hosts({A: Luggage(b"how a stands", rest=90.0, delay=DELAY)})
    await builder.offer([offer(A, range(15)), offer(B, range(7))], FREE)


@told_to
async def test_urls_with_outcomes_are_settled_and_the_others_wait(
    world: World, board: Board, builder: BoardBuilder
) -> None:
    await built(builder)
    world.advance(50.0)  # it takes its time
    await builder.publish(LEASE, DELAY, age=3600.0)
    books = await board.books()
    assert books.age == pytest.approx(3600.0, abs=30.0)
    assert (books.seen, books.settled, books.waiting, books.hosts) == (22, 15, 7, 2)
    assert books.kinds == {"page": 10, "failed": 5}
    assert books.begun
    assert await board.charter() == CHARTER


@told_to
async def test_a_crawl_is_invisible_until_it_is_published(
    world: World, board: Board, builder: BoardBuilder
) -> None:
    await built(builder)
    assert await board.charter() is None
    with pytest.raises(BoardLost, match="has lost the crawl"):
        await board.join(ADA, LEASE)
    with pytest.raises(BoardError, match="is being rebuilt"):
        await board.found(Charter(key_seed=8, settings="", seeds=()))
    assert (await builder.books()).seen == 22
    await builder.publish(LEASE, DELAY)
    await board.join(ADA, LEASE)


@told_to
async def test_a_repeated_rebuild_counts_once(world: World, board: Board, builder: BoardBuilder) -> None:
    await built(builder)
    # Killed and started again: the first values stay, and so does the specification.
    assert (await builder.hide(Charter(8, "", ()))).key_seed == CHARTER.key_seed
    await built(builder)
    assert await builder.restore(BOB, [restored(A, range(8, 12))]) == 0, "two are settled, and two wait"
    await builder.publish(LEASE, DELAY)
    books = await board.books()
    assert (books.seen, books.settled, books.hosts, books.kinds["page"]) == (22, 15, 2, 10)


@told_to
async def test_a_crawl_that_holds_urls_is_left_alone(
    world: World, board: Board, builder: BoardBuilder
) -> None:
    await board.found(CHARTER)
    await builder.hide(CHARTER)  # it was empty
    assert await board.charter() is None
    await builder.restore(ADA, [restored(A, range(3))])
    await builder.publish(LEASE, DELAY)
    for act in (builder.hide(CHARTER), builder.publish(LEASE, DELAY)):
        with pytest.raises(BoardError):
            await act
    with pytest.raises(BoardError, match="is not empty"):
        await builder.hide(CHARTER)
    assert (await board.books()).seen == 3


@told_to
async def test_nothing_is_granted_while_old_leases_may_last_and_hosts_keep_their_rest(
    world: World, board: Board, builder: BoardBuilder
) -> None:
    await built(builder)
    await builder.publish(LEASE, DELAY)
    await board.join(ADA, 10 * LEASE)
    assert await board.lease(ADA, 9, 100) == []
    assert (await board.beat(ADA, Heartbeat(b"", 10 * LEASE))).calm > LEASE
    world.advance(LEASE + DELAY + 3.0)
    (first,) = await board.lease(ADA, 9, 100)
    assert first.host == B, "a rests for 90 seconds"
    world.advance(90.0)
    (second,) = await board.lease(ADA, 9, 100)
    assert (second.host, second.luggage.state, len(second.rows)) == (A, b"how a stands", 5)
    assert second.epoch > first.epoch > 1_000_000, "the lost board gave no such epoch"
    keys = [key for key, _ in second.rows]
    told = Told([BookedKeys(Held(A, second.epoch), keys, ["page"] * len(keys))])
    assert await board.book(ADA, told) == [()]
    assert (await board.books()).settled == 20


@told_to
async def test_restored_urls_can_be_fetched_again_if_their_agent_is_lost_later(
    world: World, board: Board, builder: BoardBuilder
) -> None:
    await builder.hide(CHARTER)
    await builder.restore(ADA, [restored(A, range(10))], pack_urls(urls_of(A, range(10))))
    both = [restored(A, range(8, 13)), restored(B, range(2), "moved")]
    urls = pack_urls([*urls_of(A, range(8, 13)), *urls_of(B, range(2))])
    assert await builder.restore(BOB, both, urls) == 5, "two of them are ada's"
    await builder.publish(LEASE, DELAY)
    assert await board.forget("bob", again=True) == 5
    books = await board.books()
    assert (books.settled, books.waiting, books.kinds) == (10, 5, {"page": 10})
    await board.join(Name("bob", 2), 10 * LEASE)
    world.advance(LEASE + DELAY + 3.0)
    grants = await board.lease(Name("bob", 2), 9, 100)
    found = {str(link_of(row, grant.host, 0.0).url) for grant in grants for _, row in grant.rows}
    assert found == {*urls_of(A, range(10, 13)), *urls_of(B, range(2))}


@told_to
async def test_bounds_of_sites_count_restored_urls(world: World, board: Board, builder: BoardBuilder) -> None:
    await builder.hide(CHARTER)
    await builder.restore(ADA, [restored(A, range(10))], bounded=True)
    told = await builder.offer([offer(A, range(15)), offer(B, range(2))], SiteBounds(hosts=1, urls=12))
    assert (told.new, told.dropped_urls, told.dropped_hosts) == (2, 3, 2)
    await builder.publish(LEASE, DELAY)


@told_to
async def test_batches_sent_to_the_lost_coordinator_count_as_sent(
    world: World, board: Board, builder: BoardBuilder
) -> None:
    """Its outcomes were read from its disk: none of them is rejected."""
    await built(builder)
    await builder.publish(LEASE, DELAY)
    assert await board.last_told(ADA) > 10**12
    assert await board.last_told(Name("ada", 2)) == 0, "a later start has told nothing yet"
    assert await board.last_told(Name("eve", 1)) == 0


@told_to
async def test_an_old_copy_is_cleared_completely(world: World, board: Board, builder: BoardBuilder) -> None:
    await board.found(CHARTER)
    await board.join(ADA, LEASE)
    await board.offer([offer(A, range(15, 30)), offer(B, range(7))], FREE)
    await board.lease(ADA, 1, 4)
    await board.beat(ADA, Heartbeat(b"", LEASE, number=5))
    assert not await builder.clear(CHARTER.key_seed, [Heard("ada", 1, 5), Heard()])
    with pytest.raises(BoardError, match="is not empty"):
        await builder.hide(CHARTER)
    with pytest.raises(BoardError, match="`ada` crawls with it") as told:
        await builder.clear(CHARTER.key_seed, [Heard("bob", 1, 9)])
    assert "stop all agents first" in told.value.hint
    for each in (board, builder):
        await each.close()
    # as an operator who restores an old copy must do; ada may have been active when it was made
    world.restart()
    board, builder = world.board(), world.builder()
    assert await builder.clear(CHARTER.key_seed, [Heard("ada", 1, 5), Heard("bob", 1, 9)])
    assert not await builder.clear(CHARTER.key_seed, [Heard("bob", 1, 9)]), "there is none"
    with pytest.raises(BoardLost, match="has lost the crawl"):
        await board.beat(ADA, Heartbeat(b"", LEASE, number=6))
    await built(builder)
    await builder.publish(LEASE, DELAY)
    books = await board.books()
    assert (books.seen, books.settled, books.waiting, books.hosts) == (22, 15, 7, 2)
    assert await board.agents() == []
    await board.recalls(Heard("bob", 1, 9))
    for unheard in (Heard("bob", 2, 1), Heard("cyd", 1, 1)):
        with pytest.raises(BoardLost, match="old copy"):
            await board.recalls(unheard)
    assert not await builder.clear(CHARTER.key_seed, [Heard("bob", 1, 9)])
    for each in (board, builder):
        await each.close()


@told_to
async def test_a_different_crawl_is_never_cleared(world: World, board: Board, builder: BoardBuilder) -> None:
    """The wrong server may have a crawl of the default name, which does not know these agents."""
    await board.found(Charter(key_seed=99, settings="[crawl]", seeds=("http://z.test/",), made_by="zoe"))
    await board.offer([offer(A, range(15))], FREE)
    assert not await builder.clear(CHARTER.key_seed, [Heard("ada", 5, 9)])
    with pytest.raises(BoardError, match="is not empty"):
        await builder.hide(CHARTER)
    assert (await board.books()).seen == 15


@told_to
async def test_a_copied_directory_does_not_make_its_original_look_old(
    world: World, board: Board, builder: BoardBuilder
) -> None:
    await builder.hide(CHARTER)
    failed = restored(A, range(1), "failed")
    await builder.restore(Name("ada", 200), [failed])
    await builder.note_restored(Name("ada", 200), 7)
    await builder.note_restored(Name("bob", 300), 2)  # a copy of ada's directory, which has hardly run since
    await builder.note_restored(Name("ada", 100), 0)
    await builder.publish(LEASE, DELAY)
    await board.recalls(Heard("ada", 200, 7))
    assert await board.last_told(Name("ada", 200)) > 1 << 50
    await board.join(Name("ada", 201), LEASE)
    for number, waits in ((7, 0), (8, 1)):
        taken = TakenBack(A, [(failed.keys[0], b"row")], ["failed"], number)
        assert await board.take_back(Name("ada", 201), taken) == waits, "what it had to tell was read"


def test_an_interrupted_clearing_is_completed_before_a_rebuild(server: ServerProcess) -> None:
    """Leftover keys of the old copy would count as seen: their URLs would be lost."""
    world = RedisWorld(server)

    async def story() -> None:
        board, builder, neighbour = world.board(), world.builder(), world.board("other")
        for each in (board, neighbour):
            await each.found(CHARTER)
            await each.offer([offer(A, range(15, 30))], FREE)
        command = builder._server.command

        async def killed(*words: str | bytes | int) -> object:
            if words[0] == "UNLINK":
                raise KeyboardInterrupt
            return await command(*words)

        builder._server.command = killed  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            await builder.clear(CHARTER.key_seed, [Heard("ada", 1, 1)])
        assert await board.charter() is None
        builder._server.command = command  # type: ignore[method-assign]
        assert await builder.clear(CHARTER.key_seed, [Heard("ada", 1, 1)])
        assert not server.client().keys("fm:{fieldmouse}:*")
        assert (await neighbour.books()).seen == 15, "crawls beside it are not touched"
        for each in (board, builder, neighbour):
            await each.close()

    asyncio.run(story())


def spread(servers: list[MemoryServer]) -> SpreadBuilder:
    builders = {f"server {number}": MemoryBuilder(server) for number, server in enumerate(servers)}
    boards = {f"server {number}": MemoryBoard(server) for number, server in enumerate(servers)}
    return SpreadBuilder(builders, boards)


def together_of(servers: list[MemoryServer]) -> SpreadBoard:
    return SpreadBoard({f"server {number}": MemoryBoard(server) for number, server in enumerate(servers)})


@pytest.mark.parametrize("lost", [(0,), (1,), (0, 1)])
def test_only_servers_that_lost_their_shard_are_rebuilt(lost: tuple[int, ...]) -> None:
    """Hosts on both; restoring and offering to a server that still has its shard changes nothing there."""

    async def story() -> None:
        clock = ManualClock(1_700_000_000.0)
        servers = [MemoryServer(clock), MemoryServer(clock)]
        hosts = [Host(f"http://127.0.0.{number}") for number in range(1, 9)]
        assert {place_of_host(host, 2) for host in hosts} == {0, 1}
        builder = spread(servers)
        for _ in range(2):  # all of it, and then the lost part
            assert (await builder.hide(CHARTER)).key_seed == CHARTER.key_seed
            for host in hosts:
                await builder.restore(ADA, [restored(host, range(3))], pack_urls(urls_of(host, range(3))))
            await builder.note_restored(BOB, 1)  # agents without results
            await builder.settle_hosts({host: Luggage(b"state") for host in hosts})
            await builder.offer([offer(host, range(5)) for host in hosts], FREE)
            assert (await builder.books()).seen == 40
            await builder.publish(LEASE, DELAY)
            board = together_of(servers)
            books = await board.books()
            assert (books.seen, books.settled, books.waiting, books.hosts) == (40, 24, 16, 8)
            assert books.kinds == {"page": 24}
            await board.recalls(Heard("bob", 1, 3))
            with pytest.raises(BoardError, match="is not empty"):
                await spread(servers).hide(CHARTER)
            for place in lost:
                servers[place].crawls.clear()
            builder = spread(servers)
            with pytest.raises(BoardError):
                await together_of(servers).books()
        for server in servers:
            if server.crawls:
                audit_of_ledger(MemoryBoard(server).ledger()).check()

    asyncio.run(story())
