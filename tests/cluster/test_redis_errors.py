"""Every error of a coordinator's server becomes a readable error: one to wait for, or one that ends the
agent."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from cluster.coordinators import RedisWorld, ServerProcess
from fieldmouse.api.agent_preparation import create_crawl, fetch_crawl_spec
from fieldmouse.cluster.coordinator import (
    AckBatch,
    AddressRequest,
    AgentId,
    CrawlSpec,
    HeartbeatRequest,
    LeaseAck,
    LeaseId,
    LinkOffer,
    SiteBounds,
)
from fieldmouse.cluster.redis.connection import MOST_REPLY_BYTES, check_url, url_label
from fieldmouse.cluster.redis.coordinator import RedisCoordinator
from fieldmouse.errors import CoordinatorError, CoordinatorUnreachable, FieldmouseError, UsageError
from fieldmouse.testing import virtual_time
from fieldmouse.testing.memory_coordinator import MemoryCoordinator, MemoryServer
from fieldmouse.url import Host

ADA, A = AgentId("ada", 5), Host("http://a.test")
HELD = LeaseId(A, 1)
CALLS: list[Callable[[RedisCoordinator], Awaitable[object]]] = [
    lambda board: board.crawl_spec(),
    lambda board: board.create_crawl(CrawlSpec(1, "", ())),
    lambda board: board.join(ADA, 15.0),
    lambda board: board.heartbeat(ADA, HeartbeatRequest(b"", 15.0)),
    lambda board: board.offer_links([LinkOffer(A, "test", [(1, b"row")])], SiteBounds()),
    lambda board: board.lease_hosts(ADA, 1, 1),
    lambda board: board.lease_more_urls(ADA, [HELD], 1),
    lambda board: board.reconcile_leases(ADA, {}),
    lambda board: board.lease_addresses(ADA, [AddressRequest("10.0.0.1", HELD, 1.0)]),
    lambda board: board.ack(ADA, AckBatch([LeaseAck(HELD, [1], ["page"])])),
    lambda board: board.last_acked_batch(ADA),
    lambda board: board.totals(),
    lambda board: board.list_agents(),
    lambda board: board.leave(ADA),
]
GREETING = b"$12\r\nrun_id:abcde\r\n"


@asynccontextmanager
async def a_stranger(answer: Callable[[bytes], bytes]) -> AsyncIterator[str]:
    """A server on a port that answers as given; yields its URL."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while asked := await reader.read(1 << 16):
            writer.write(answer(asked))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"
    finally:
        server.close()


def complaining(complaint: str, greeting: bytes = GREETING) -> Callable[[bytes], bytes]:
    """A server that accepts all connections and answers every command with this."""

    def answer(asked: bytes) -> bytes:
        said = b""
        for words in asked.split(b"*")[1:]:
            kind = words.split(b"\r\n")[2]
            said += greeting if kind == b"INFO" else b"+OK\r\n" if kind == b"CLIENT" else complaint.encode()
        return said

    return answer


def heard(answer: Callable[[bytes], bytes]) -> list[FieldmouseError | None]:
    """Errors of all calls; an error that is not ours fails the test."""

    async def story() -> list[FieldmouseError | None]:
        said: list[FieldmouseError | None] = []
        async with a_stranger(answer) as url:
            for call in CALLS:
                board = RedisCoordinator(url)
                try:
                    await call(board)
                    said.append(None)
                except FieldmouseError as trouble:
                    said.append(trouble)
                await board.close()
        return said

    return asyncio.run(story())


@pytest.mark.parametrize(
    ("complaint", "words"),
    [
        ("-BUSY Redis is busy running a script. You can only call SCRIPT KILL", "busy with a slow script"),
        ("-LOADING Redis is loading the dataset in memory", "reading its data"),
        ("-OOM command not allowed when used memory > 'maxmemory'.", "no memory left"),
        ("-MISCONF Redis is configured to save RDB snapshots", "cannot write to its disk"),
        ("-READONLY You can't write against a read only replica.", "replica"),
        ("-MASTERDOWN Link with MASTER is down", "lost its primary"),
        ("-NOREPLICAS Not enough good replicas to write.", "too few replicas"),
        ("-CLUSTERDOWN Hash slot not served", "cluster that is down"),
        ("-TRYAGAIN Multiple keys request during rehashing of slot", "being moved"),
        ("-ERR Error running script: Script killed by user with SCRIPT KILL...", "told to kill our script"),
        ("-ERR max number of clients reached", "does not answer"),
        ("-ERR Error running script (call to f_1): @user_script:9: -READONLY You can't", "replica"),
        ("-MOVED nowhere", "not as a Redis server does"),
    ],
)
def test_agents_wait_for_errors_that_an_operator_can_fix(complaint: str, words: str) -> None:
    for trouble in heard(complaining(f"{complaint}\r\n")):
        assert isinstance(trouble, CoordinatorUnreachable)
        assert words in str(trouble)
        assert trouble.hint


@pytest.mark.parametrize(
    ("complaint", "words"),
    [
        ("-NOAUTH Authentication required.", "password"),
        ("-NOPERM this user has no permissions to run the 'evalsha' command", "password"),
        ("-MOVED 3999 127.0.0.1:6381", "a node of a cluster"),
        ("-CROSSSLOT Keys in request don't hash to the same slot", "a node of a cluster"),
        ("-DENIED Redis is running in protected mode", "DENIED Redis is running"),
        ("-ERR unknown command 'EVALSHA'", "unknown command"),
        ("-WRONGTYPE Operation against a key holding the wrong kind of value", "cannot be read"),
        ("-ERR @user_script:3: WRONGTYPE Operation against a key", "cannot be read"),
    ],
)
def test_errors_that_waiting_cannot_fix_end_the_agent_with_an_explanation(complaint: str, words: str) -> None:
    for trouble in heard(complaining(f"{complaint}\r\n")):
        assert isinstance(trouble, CoordinatorError)
        assert not isinstance(trouble, CoordinatorUnreachable)
        assert words in str(trouble)
        assert trouble.hint


@pytest.mark.parametrize(
    "answer",
    [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"ERROR\r\n", b"SSH-2.0-OpenSSH_9\r\n", b"\x15\x03\x01\x00\x02\x02\x46"],
    ids=["web server", "memcached", "ssh", "tls"],
)
def test_another_protocol_is_reported_as_no_redis_server(answer: bytes) -> None:
    for trouble in heard(lambda _: answer):
        assert isinstance(trouble, CoordinatorUnreachable), "a proxy before a server that is away is one, too"
        assert "not as a Redis server does" in str(trouble)


@pytest.mark.parametrize("greeting", [b"$-1\r\n", b":1\r\n", b"*1\r\n:1\r\n", b"$2\r\nhi\r\n"])
def test_a_server_without_run_id_is_reported_as_no_redis_server(greeting: bytes) -> None:
    for trouble in heard(complaining("+OK\r\n", greeting)):
        assert isinstance(trouble, CoordinatorUnreachable)


@pytest.mark.parametrize("answer", [":7", "*0", "*1\r\n$-1", "$3\r\nabc", "+OK", "*3\r\n:1\r\n:2\r\n:3"])
def test_a_foreign_answer_is_no_traceback(answer: str) -> None:
    assert any(isinstance(trouble, CoordinatorError) for trouble in heard(complaining(f"{answer}\r\n")))


def test_data_of_another_program_is_reported_as_such(server: ServerProcess) -> None:
    RedisWorld(server)

    async def story(key: str, act: Callable[[RedisCoordinator], Awaitable[object]]) -> None:
        server.client().flushall()
        board = RedisCoordinator(server.url)
        await board.create_crawl(CrawlSpec(1, "", ()))
        await board.join(ADA, 15.0)
        await board.offer_links([LinkOffer(A, "test", [(1, b"row")])], SiteBounds())
        server.client().delete(key)
        server.client().set(key, "not ours")
        with pytest.raises(CoordinatorError, match="cannot be read"):
            await act(board)
        await board.close()

    prefix = "fm:{fieldmouse}:"
    asyncio.run(story(f"{prefix}meta", lambda board: board.crawl_spec()))
    asyncio.run(story(f"{prefix}meta", lambda board: board.totals()))


def test_an_endless_reply_is_aborted() -> None:
    """The server claims a gigabyte and sends it."""
    head = f"*1\r\n${1 << 30}\r\n"
    sent = 0

    def answer(asked: bytes) -> bytes:
        nonlocal sent
        if b"INFO" in asked or b"CLIENT" in asked:
            return complaining("")(asked)
        sent += 1
        return head.encode() + bytes(MOST_REPLY_BYTES + (1 << 20))

    async def story() -> None:
        async with a_stranger(answer) as url:
            board = RedisCoordinator(url)
            with pytest.raises(CoordinatorUnreachable):
                await board.totals()
            await board.close()

    asyncio.run(story())
    assert sent == 1


def test_no_part_of_a_password_is_shown_however_it_is_written() -> None:
    for password in ("pass", "p@ss", "pa/ss", "pa?ss", "pa#ss", "p@/?#ss", "p?q=x"):
        assert url_label(f"redis://me:{password}@board.test:7/1?db=3") == "redis://board.test:7/1?db=3"
    for password in ("pa/ss", "pa?ss", "pa#ss", "p@/?#ss", "p?ss=x"):
        with pytest.raises(UsageError, match=re.escape("`redis://board.test:7/1` is no coordinator")) as wrong:
            check_url(f"redis://me:{password}@board.test:7/1")
        assert "%40" in wrong.value.hint
    check_url("redis://me:p%40%2F%3Fss@[::1]:7/1")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("redis://board.test/0?db=x", "`db`"),
        ("redis://board.test/0?ssl_ca_certs=ca.pem", "is for TLS"),
        ("rediss://board.test/0?ssl_cert_reqs=maybe", "cannot be `maybe`"),
        ("rediss://board.test/0?ssl_check_hostname=maybe", "cannot be `maybe`"),
        ("redis://board.test/99999999999999999999", "is no coordinator"),
    ],
)
def test_invalid_url_options_are_named(url: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check_url(url)


class SilentBoard(MemoryCoordinator):
    """Its server accepts calls and never answers: a call lasts until it is cancelled."""

    async def crawl_spec(self) -> CrawlSpec | None:
        await asyncio.sleep(10.0)
        raise CoordinatorUnreachable("the board says nothing")


def test_a_new_agent_does_not_wait_for_a_silent_server() -> None:
    said: list[str] = []

    async def story(clock: virtual_time.VirtualClock) -> float:
        began = clock.now()
        with pytest.raises(CoordinatorUnreachable):
            await fetch_crawl_spec(SilentBoard(MemoryServer(clock)), "fieldmouse", 5.0, said.append)
        return clock.now() - began

    assert virtual_time.run_in_virtual_time(story) == 10.0, "once, since that took longer than it had patience"


class InterruptedBoard(MemoryCoordinator):
    """The first call does not arrive, and the answer of the second is lost."""

    tries = 0

    async def create_crawl(self, charter: CrawlSpec) -> CrawlSpec:
        self.tries += 1
        if self.tries > 1:
            charter = await super().create_crawl(charter)
        if self.tries < 3:
            raise CoordinatorUnreachable("the board does not answer")
        return charter


def test_creating_a_crawl_survives_a_lost_answer() -> None:
    async def story(clock: virtual_time.VirtualClock) -> None:
        board, ours = InterruptedBoard(MemoryServer(clock)), CrawlSpec(1, "", ())
        assert await create_crawl(board, ours, "fieldmouse", lambda words: None) == ours
        assert board.tries == 2

    virtual_time.run_in_virtual_time(story)
