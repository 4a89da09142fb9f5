"""Behaviour of the Redis coordinator beyond the contract: storage and failures."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from cluster.coordinators import META, MISSING, PROGRAM, RedisWorld, ServerProcess, a_server, needs_server
from fieldmouse.cluster.coordinator import (
    AgentId,
    CrawlSpec,
    HeartbeatId,
    HeartbeatRequest,
    LeaseId,
    LinkOffer,
    Row,
    SiteBounds,
)
from fieldmouse.cluster.redis.coordinator import RedisCoordinator
from fieldmouse.errors import CoordinatorDataLost, CoordinatorError, CoordinatorUnreachable, UsageError
from fieldmouse.url import Host

ADA = AgentId("ada", 1)
A = Host("http://a.test")
CHARTER = CrawlSpec(1, "", ())


def rows(keys: range) -> list[Row]:
    return [(key, b"a row that looks much like all the others, number %d" % key) for key in keys]


def run(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(story())  # type: ignore[arg-type]


def test_long_queues_are_compressed_and_keep_their_order(server: ServerProcess) -> None:
    world = RedisWorld(server)

    async def story() -> None:
        board = world.board()
        await board.create_crawl(CHARTER)
        await board.join(ADA, 100.0)
        for start in range(0, 400, 2):
            await board.offer_links([LinkOffer(A, "test", rows(range(start, start + 2)))], SiteBounds())
        world.audit().check()
        blobs = server.client().lrange("fm:{fieldmouse}:q:" + A, 0, -1)
        assert len(blobs) < 40
        assert sum(map(len, blobs)) < 400 * 30
        (grant,) = await board.lease_hosts(ADA, 1, 10)
        assert 10 <= len(grant.rows) <= 128 + 10
        (more,) = await board.lease_more_urls(ADA, [LeaseId(A, grant.epoch)], 1000)
        assert [*grant.rows, *more.rows] == rows(range(400))
        await board.close()

    run(story)


def test_a_queue_that_changed_during_compression_stays_as_it_is(server: ServerProcess) -> None:
    world = RedisWorld(server)

    async def story() -> None:
        board = world.board()
        await board.create_crawl(CHARTER)
        await board.join(ADA, 100.0)
        for start in range(0, 30, 2):
            await board.offer_links([LinkOffer(A, "test", rows(range(start, start + 2)))], SiteBounds())

        call = board._run_script

        async def meddle(act: str, *words: str | bytes | int, name: AgentId | None = None) -> object:
            if act == "pack":
                await call("lease", 1, 7, 0, name=ADA)
            return await call(act, *words, name=name)

        board._run_script = meddle  # type: ignore[method-assign]
        await board.offer_links([LinkOffer(A, "test", rows(range(30, 33)))], SiteBounds())
        world.audit().check()
        assert len(world.audit().queued) == 33 - 8
        await board.close()

    run(story)


@pytest.mark.parametrize(
    "url", ["", "http://board.test", "redis:///0", "redis://board.test:port/0", "unix://", "board.test:6379"]
)
def test_an_invalid_url_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(UsageError, match="no coordinator") as caught:
        RedisCoordinator(url)
    assert "redis://" in caught.value.hint


def test_an_unreachable_server_is_named_without_its_password() -> None:
    async def story() -> None:
        board = RedisCoordinator("redis://:secret@127.0.0.1:1/3")
        with pytest.raises(CoordinatorUnreachable, match=re.escape("redis://127.0.0.1:1/3")) as caught:
            await board.totals()
        assert "secret" not in f"{caught.value} {caught.value.hint}"

    run(story)


def test_a_wrong_password_is_reported_at_once() -> None:
    if PROGRAM is None:
        pytest.skip(MISSING)
    with a_server("--requirepass", "secret", password="secret") as server:

        async def story() -> None:
            for url in (server.url, f"unix://:wrong@{server.socket}"):
                board = RedisCoordinator(url)
                with pytest.raises(CoordinatorError, match="password") as caught:
                    await board.totals()
                assert not isinstance(caught.value, CoordinatorUnreachable)
            board = RedisCoordinator(f"unix://:secret@{server.socket}?db=2")
            assert await board.create_crawl(CHARTER) == CHARTER
            await board.close()

        run(story)


def test_a_server_that_evicts_keys_is_refused(server: ServerProcess) -> None:
    world = RedisWorld(server)

    async def story() -> None:
        board = world.board()
        await board.create_crawl(CHARTER)
        client = server.client()
        client.config_set("maxmemory", "1gb")
        client.config_set("maxmemory-policy", "allkeys-lru")
        try:
            with pytest.raises(CoordinatorError, match="allkeys-lru"):
                await board.join(ADA, 100.0)
            client.config_set("maxmemory-policy", "noeviction")
            await board.join(ADA, 100.0)
        finally:
            client.config_set("maxmemory", "0")
        await board.close()

    run(story)


def test_a_server_that_starts_to_evict_keys_is_noticed(server: ServerProcess) -> None:
    world = RedisWorld(server)

    async def story() -> None:
        board, client = world.board(), server.client()
        await board.create_crawl(CHARTER)
        await board.join(ADA, 100.0)

        async def beat() -> None:
            for _ in range(12):
                await board.heartbeat(ADA, HeartbeatRequest(b"", 100.0))

        await beat()
        try:
            client.config_set("maxmemory", "1gb")
            client.config_set("maxmemory-policy", "allkeys-lru")
            with pytest.raises(CoordinatorError, match="allkeys-lru"):
                await beat()
            client.set("somebody else's", "x" * 100_000)
            client.config_set("maxmemory-policy", "volatile-ttl")
            client.expire("somebody else's", 1000)
            client.config_set("maxmemory", str(client.info("memory")["used_memory"] - 50_000))
            while client.exists("somebody else's"):
                client.ping()
            client.config_set("maxmemory", "0")
            with pytest.raises(CoordinatorDataLost, match="has evicted data"):
                await beat()
        finally:
            client.config_set("maxmemory", "0")
            client.config_set("maxmemory-policy", "noeviction")
        await board.close()

    run(story)


def test_agents_wait_for_a_server_that_is_out_of_memory(server: ServerProcess) -> None:
    world = RedisWorld(server)

    async def story() -> None:
        board = world.board()
        await board.create_crawl(CHARTER)
        client = server.client()
        client.config_set("maxmemory", "1")
        try:
            with pytest.raises(CoordinatorUnreachable, match="memory"):
                await board.offer_links([LinkOffer(A, "test", rows(range(5)))], SiteBounds())
        finally:
            client.config_set("maxmemory", "0")
        assert (await board.offer_links([LinkOffer(A, "test", rows(range(5)))], SiteBounds())).new == 5
        await board.close()

    run(story)


def test_the_error_of_a_lost_crawl_names_the_remedy(server: ServerProcess) -> None:
    world = RedisWorld(server)

    async def story() -> None:
        board = world.board()
        await board.create_crawl(CHARTER)
        await board.join(ADA, 100.0)
        server.client().flushall()
        with pytest.raises(CoordinatorDataLost, match="lost the crawl") as caught:
            await board.heartbeat(ADA, HeartbeatRequest(b"", 100.0))
        assert caught.value.hint
        await board.close()

    run(story)


def test_a_newer_format_is_refused_and_a_missing_format_is_read(server: ServerProcess) -> None:
    world = RedisWorld(server)

    async def story() -> None:
        board, client = world.board(), server.client()
        client.hset(META, "charter", b'{"key_seed": 5, "settings": "[crawl]", "seeds": ["http://a.test/"]}')
        assert await board.crawl_spec() == CrawlSpec(5, "[crawl]", ("http://a.test/",))
        client.hset(META, "charter", b'{"format": 2, "key_seed": "of another kind", "made_by": "fieldmouse/9.1"}')
        for act in (board.crawl_spec, lambda: board.create_crawl(CHARTER)):
            with pytest.raises(CoordinatorError, match=r"has format 2, 1 is the newest") as caught:
                await act()
            assert "fieldmouse/9.1" in caught.value.hint
        await board.close()
        client.delete(META)
        board = world.board()
        await board.create_crawl(CHARTER)
        assert msgspec.json.decode(client.hget(META, "charter"))["format"] == 1
        await board.close()

    run(story)


@needs_server
def test_an_old_append_only_file_is_noticed() -> None:
    """A copy of its dump is restored, as from a backup."""
    with a_server("--appendonly", "no") as server:
        folder = server.socket.parent

        async def beat(number: int, since: HeartbeatId) -> None:
            board = RedisCoordinator(server.url)
            await board.heartbeat(ADA, HeartbeatRequest(b"", 100.0, number=number, since=since))
            await board.close()

        async def begin() -> None:
            board = RedisCoordinator(server.url)
            await board.create_crawl(CHARTER)
            await board.join(ADA, 100.0)
            await board.close()

        asyncio.run(begin())
        asyncio.run(beat(1, HeartbeatId()))
        server.client().save()
        shutil.copy(folder / "dump.rdb", folder / "backup.rdb")
        asyncio.run(beat(2, HeartbeatId("ada", 1, 1)))
        server.client().save()
        server.kill()
        server.start()
        asyncio.run(beat(3, HeartbeatId("ada", 1, 2)))
        server.kill()
        shutil.copy(folder / "backup.rdb", folder / "dump.rdb")
        server.start()
        with pytest.raises(CoordinatorDataLost, match="old copy of its data"):
            asyncio.run(beat(4, HeartbeatId("ada", 1, 2)))
        asyncio.run(beat(4, HeartbeatId("ada", 1, 1)))


def test_a_coordinator_reconnects_to_a_restarted_server(server: ServerProcess) -> None:
    world = RedisWorld(server)

    async def story() -> None:
        board = world.board()
        await board.create_crawl(CHARTER)
        await board.join(ADA, 100.0)
        before = await board.heartbeat(ADA, HeartbeatRequest(b"", 100.0))
        server.kill()
        with pytest.raises(CoordinatorUnreachable):
            await board.heartbeat(ADA, HeartbeatRequest(b"", 100.0))
        with pytest.raises(CoordinatorUnreachable):
            await board.heartbeat(ADA, HeartbeatRequest(b"", 100.0))
        server.start()
        after = await board.heartbeat(ADA, HeartbeatRequest(b"", 100.0))
        assert (after.server_run != before.server_run, after.calm_seconds > 50) == (True, True)
        await board.close()

    run(story)


def test_cancelled_calls_leave_no_answer_for_other_calls(server: ServerProcess) -> None:
    world = RedisWorld(server)

    async def story() -> None:
        board = world.board()
        await board.create_crawl(CHARTER)
        await board.join(ADA, 100.0)
        for turns in range(30):
            calls = [asyncio.ensure_future(board.was_never_fenced(ADA)) for _ in range(5)]
            for _ in range(turns):
                await asyncio.sleep(0)
            for call in calls[:3]:
                call.cancel()
            answers = await asyncio.gather(*calls, return_exceptions=True)
            assert answers[3:] == [True, True]
            assert (await board.totals()).seen == 0
        await board.close()

    run(story)
