"""Unreadable values on the server cost the crawl only themselves."""

from __future__ import annotations

import asyncio
import struct
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
import zstandard

from cluster.coordinators import META, RedisWorld, ServerProcess, needs_server
from cluster.fuzz_decoding import claiming_frame, fuzz
from fieldmouse.cluster import decoding
from fieldmouse.cluster import decoding as blocks
from fieldmouse.cluster.client.host_placement import status_or_default
from fieldmouse.cluster.coordinator import (
    AckBatch,
    AddressRequest,
    AgentId,
    AgentReport,
    CrawlSpec,
    DamagedField,
    HeartbeatRequest,
    HostGrant,
    HostPayload,
    LeaseAck,
    LeaseId,
    LinkOffer,
    ListedAgent,
    ReleasedHost,
    SiteBounds,
)
from fieldmouse.cluster.decoding import DamagedValue, encode_row
from fieldmouse.cluster.redis import script_codec
from fieldmouse.cluster.redis.coordinator import RedisCoordinator
from fieldmouse.errors import AgentFenced, FieldmouseError
from fieldmouse.types.host_state import HostState
from fieldmouse.types.request import Request
from fieldmouse.url import Host, Url

ADA, BOB = AgentId("ada", 5), AgentId("bob", 6)
A, B = Host("http://a.test"), Host("http://b.test")
PREFIX = META.removesuffix("meta")
DIGITS = b"9" * 400
BOMB = zstandard.ZstdCompressor().compress(bytes(64 << 20))


def test_damaged_values_raise_nothing_but_damaged_value() -> None:
    found = fuzz(6000, seed=1)
    assert not found.failures, "\n".join(found.failures)
    assert 0 < found.accepted < found.cases


@pytest.mark.parametrize(
    "frame", [BOMB, claiming_frame(16 << 40), claiming_frame(3 << 30)], ids=["64MiB", "16TiB", "3GiB"]
)
def test_a_frame_that_claims_too_much_allocates_nothing(frame: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(DamagedValue, match=r"is the limit|cannot be unpacked"):
            decoding.decode_robots_txt(frame)
        with pytest.raises(DamagedValue):
            decoding.block_rows(b"z" + struct.pack("<IQ", 1, 7) + frame)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_reply_of_many_large_grants_is_bounded_and_the_rest_goes_back() -> None:
    rows = [(n, bytes(200 << 10)) for n in range(20)]
    grants = [
        [b"http://h%d.test" % n, n + 1, 0, 0, 0, b"", b"", b"", 0, [blocks.encode_block(rows)]] for n in range(40)
    ]
    reply = script_codec.parse_grants([grants, 1])
    assert sum(len(row) for grant in reply.grants for _, row in grant.rows) < 2 * decoding.MOST_REPLY_ROWS
    assert len(reply.grants) + len(reply.surplus) == 40
    assert reply.surplus


@pytest.mark.parametrize(
    ("url", "why"),
    [
        (".evil.test/", "no path"),
        ("/a b", "no path"),
        ("/a\r\nX: y", "no path"),
        ("@evil.test/", "no path"),
        ("/\N{SNOWMAN}", "no path"),
        ("", "no path"),
    ],
)
def test_a_row_without_a_url_of_its_host_is_damaged(url: str, why: str) -> None:
    with pytest.raises(DamagedValue, match=why):
        decoding.decode_row(msgspec.msgpack.encode([url]), A, 0.0)


@pytest.mark.parametrize(
    "row",
    [
        b"\x91\xa3/\xff\xfe",
        msgspec.msgpack.encode(["/", 0, "", "page", float("nan")]),
        msgspec.msgpack.encode(["/", -1]),
        b"\x91" * 100_000,
        b"",
    ],
    ids=["not UTF-8", "nan", "negative", "deep", "empty"],
)
def test_a_row_with_impossible_fields_is_damaged(row: bytes) -> None:
    with pytest.raises(DamagedValue, match="row"):
        decoding.decode_row(row, A, 0.0)


def test_a_long_chain_of_redirects_still_makes_a_readable_row() -> None:
    long = Request(Url(A + "/" + "x" * 60_000), trail=tuple(A + "/" + "y" * 60_000 for _ in range(9)), redirects=9)
    assert decoding.decode_row(encode_row(long, A, 0.0), A, 0.0).url == long.url


def test_an_agent_status_that_is_not_utf_8_is_ignored() -> None:
    for advert in (b"\x97\xcb\xff", b"\xa3\xff\xfe\xfd", BOMB[:16000], msgspec.msgpack.encode([float("inf")])):
        assert status_or_default(ListedAgent("ada", 1, True, False, advert, 0.0)) == AgentReport()


def test_long_robots_txt_values_are_read_only_when_needed() -> None:
    from auto_advance_clock import AutoAdvanceClock
    from fieldmouse.robotstxt.parser import RobotsTxtCache

    rules = b"User-agent: *\n" + b"".join(b"Disallow: /private/%d\n" % n for n in range(20_000))
    exclusions = RobotsTxtCache(AutoAdvanceClock(0.0), product="fieldmouse")
    started = time.process_time()
    for n in range(200):
        exclusions.import_host(Host(f"http://h{n}.test"), rules, 60.0)
        assert exclusions.export_host(Host(f"http://h{n}.test")) == (rules, 60.0)
    assert time.process_time() - started < 5.0  # reading all of them takes about twenty
    assert asyncio.run(_allows(exclusions, Host("http://h7.test"), "/private/77")) is False


async def _allows(exclusions: object, host: Host, path: str) -> bool:
    from fieldmouse.robotstxt.parser import RobotsTxtCache

    assert isinstance(exclusions, RobotsTxtCache)
    rules = await exclusions.get_without_blocking(host)
    assert rules is not None
    return rules.allows(path)


def test_no_other_module_decodes_server_replies() -> None:
    cluster = Path(decoding.__file__).parent
    for path in [
        *cluster.glob("*.py"),
        *cluster.glob("redis/*.py"),
        *cluster.glob("sharded/*.py"),
        *(
            cluster / "client" / name
            for name in ("pending_calls.py", "host_placement.py", "host_payload.py", "session.py")
        ),
        cluster.parent / "crawler" / "cluster_agent.py",
    ]:
        # the second has `unpack_urls`, for values of this process
        if path.name not in ("decoding.py", "rows.py"):
            for decoder in ("Decoder(", "Decompressor", "msgpack.decode", "json.decode", "json.loads"):
                assert decoder not in path.read_text(), f"{path.name} has a decoder of its own"


# -- on a real server


def of(grant: HostGrant) -> LeaseId:
    return LeaseId(grant.host, grant.epoch)


def told(server: ServerProcess, story: Callable[[RedisCoordinator], Awaitable[None]]) -> None:
    RedisWorld(server)

    async def tell() -> None:
        board = RedisCoordinator(server.url)
        await board.create_crawl(CrawlSpec(1, "", ()))
        await board.join(ADA, 15.0)
        rows = [(1, b"row 1"), (2, b"row 2")]
        await board.offer_links([LinkOffer(A, "test", rows)], SiteBounds(), seeds=True)
        await board.offer_links([LinkOffer(B, "test", [(3, b"row 3")])], SiteBounds())
        try:
            await story(board)
        finally:
            await board.close()

    asyncio.run(tell())


async def finish(board: RedisCoordinator, name: AgentId = ADA) -> dict[Host, list[int]]:
    """Take and acknowledge everything that is granted; the crawl must be over then. Returns keys by host."""
    got: dict[Host, list[int]] = {}
    while grants := await board.lease_hosts(name, 10, 10):
        for grant in grants:
            if grant.damaged:
                await board.quarantine_damaged_values(name, {of(grant): grant.damaged})
            keys = [key for key, _ in grant.rows]
            got.setdefault(grant.host, []).extend(keys)
            await board.ack(name, AckBatch([LeaseAck(of(grant), keys, ["page"] * len(keys))]))
            await board.release_hosts(name, [ReleasedHost(of(grant), HostPayload())])
    books = await board.totals()
    assert books.waiting == 0, "the crawl would never end"
    assert books.seen == books.settled
    return got


QUEUES = {
    "cut": b"r\x05",
    "claims more": b"r" + struct.pack("<I", 2**31) + b"x" * 20,
    "unknown kind": b"q" + bytes(40),
    "empty": b"",
    "exclusions": b"x" + struct.pack("<II", 1, 2**31),
    "not zstd": b"z" + struct.pack("<IQQ", 2, 1, 2) + b"garbage",
    "bomb": b"z" + struct.pack("<IQQ", 2, 1, 2) + BOMB,
    "16 TiB": b"z" + struct.pack("<IQQ", 2, 1, 2) + claiming_frame(16 << 40),
    "row too long": b"r" + struct.pack("<IQQI", 2, 1, 2, 2**31),
}


@needs_server
@pytest.mark.parametrize("blob", QUEUES.values(), ids=QUEUES)
def test_a_damaged_block_of_rows_is_quarantined_and_the_crawl_ends(server: ServerProcess, blob: bytes) -> None:
    async def story(board: RedisCoordinator) -> None:
        client = server.client()
        client.delete(f"{PREFIX}q:{A}")
        client.rpush(f"{PREFIX}q:{A}", blob)
        got = await finish(board)
        assert got[B] == [3]
        assert got.get(A, []) == []
        books = await board.totals()
        assert books.quarantined >= 1
        assert books.kinds == {"page": 1, "quarantined": 2}
        assert client.llen(f"{PREFIX}quarantine") >= 1

    told(server, story)


HASHES: dict[str, tuple[str, str, bytes]] = {
    "rows that wait": (f"h:{A}", "n", DIGITS),
    "no rows that wait": (f"h:{A}", "n", b"0"),
    "not before": (f"h:{A}", "nb", DIGITS),
    "not before is text": (f"h:{A}", "nb", b"soon"),
    "delay": (f"h:{A}", "d", DIGITS),
    "negative delay": (f"h:{A}", "d", b"-5"),
    "raw rows": (f"h:{A}", "raw", b"\xff"),
    "shunned": (f"h:{A}", "no", b"\nada\nnever\n"),
    "state": (f"h:{A}", "st", b"\xff" * 100_000),
    "learned": (f"h:{A}", "le", b"\xff" * 100_000),
    "robots.txt": (f"h:{A}", "rt", BOMB),
    "advert": ("agent:ada", "advert", b"\xff" * 100_000),
    "pages reserved": ("agent:ada", "pages", DIGITS),
    "seen": ("agent:ada", "seen", b"yesterday"),
    "kinds": ("kinds", "page", DIGITS),
    "calm": ("meta", "calm", DIGITS),
    "clock": ("meta", "clock", b"noon"),
    "drag": ("meta", "drag", b"x"),
    "longest": ("meta", "longest", DIGITS),
    "address": ("a:10.0.0.1", "nb", DIGITS),
    "holder of an address": ("a:10.0.0.1", "by", b"nobody"),
}


@needs_server
@pytest.mark.parametrize("poison", HASHES.values(), ids=HASHES)
def test_a_damaged_field_does_not_prevent_fetching_all_pages(
    server: ServerProcess, poison: tuple[str, str, bytes]
) -> None:
    async def story(board: RedisCoordinator) -> None:
        key, field, value = poison
        server.client().hset(f"{PREFIX}{key}", field, value)
        server.client().hset(f"{PREFIX}h:{A}", "rx", int(time.time() * 1000) + 60_000)
        await board.heartbeat(ADA, HeartbeatRequest(b"", 15.0))
        (answer,) = await board.lease_addresses(ADA, [AddressRequest("10.0.0.1", LeaseId(A, 0), 1.0)])
        assert answer.granted
        await board.release_addresses(ADA, {"10.0.0.1": 0.0})
        got = await finish(board)
        assert sorted(key for keys in got.values() for key in keys) == [1, 2, 3]
        await board.list_agents()

    told(server, story)


@needs_server
@pytest.mark.parametrize("key", [f"h:{A}", f"q:{A}", "a:10.0.0.1", "agent:ghost"])
def test_a_key_of_another_type_costs_at_most_its_own_urls(server: ServerProcess, key: str) -> None:
    async def story(board: RedisCoordinator) -> None:
        client = server.client()
        client.delete(f"{PREFIX}{key}")
        client.set(f"{PREFIX}{key}", "not ours")
        client.zadd(f"{PREFIX}names", {"ghost": 0, b"\xff\xfe": 0})
        client.zadd(f"{PREFIX}live", {"ghost": 1, b"\xff\xfe": 1})
        pulse = await board.heartbeat(ADA, HeartbeatRequest(b"", 15.0))
        assert [note.agent for note in pulse.agents] == ["ada"]
        await board.lease_addresses(ADA, [AddressRequest("10.0.0.1", LeaseId(A, 0), 1.0)])
        got = await finish(board)
        assert got[B] == [3]

    told(server, story)


@needs_server
@pytest.mark.parametrize("key", ["told", "kinds"])
def test_outcomes_are_counted_although_another_key_has_a_wrong_type(server: ServerProcess, key: str) -> None:
    async def story(board: RedisCoordinator) -> None:
        server.client().delete(f"{PREFIX}{key}")
        server.client().set(f"{PREFIX}{key}", "not ours")
        await board.heartbeat(ADA, HeartbeatRequest(b"", 15.0))
        got = await finish(board)
        assert sorted(key for keys in got.values() for key in keys) == [1, 2, 3]
        assert (await board.totals()).quarantined > 0

    told(server, story)


@needs_server
def test_outcomes_are_counted_although_later_ones_cannot_be_acknowledged(server: ServerProcess) -> None:
    async def story(board: RedisCoordinator) -> None:
        first, second = sorted(await board.lease_hosts(ADA, 10, 10), key=lambda grant: grant.host)
        booked = [
            LeaseAck(of(grant), keys, ["page"] * len(keys))
            for grant in (first, second)
            if (keys := [key for key, _ in grant.rows])
        ]
        client, owed = server.client(), f"{PREFIX}k:{second.epoch}"
        client.rename(owed, "kept")
        client.set(owed, "not ours")
        with pytest.raises(FieldmouseError, match="cannot be read"):
            await board.ack(ADA, AckBatch(booked))
        assert (await board.totals()).settled == 2
        client.rename("kept", owed)
        await board.ack(ADA, AckBatch(booked))
        assert (await board.totals()).waiting == 0, "the crawl would never end"

    told(server, story)


@needs_server
def test_an_agent_whose_own_record_is_damaged_joins_again(server: ServerProcess) -> None:
    async def story(board: RedisCoordinator) -> None:
        server.client().delete(f"{PREFIX}agent:ada")
        server.client().set(f"{PREFIX}agent:ada", "not ours")
        with pytest.raises(AgentFenced):
            await board.heartbeat(ADA, HeartbeatRequest(b"", 15.0))
        await board.join(AgentId("ada", 6), 15.0)
        got = await finish(board, AgentId("ada", 6))
        assert sorted(key for keys in got.values() for key in keys) == [1, 2, 3]

    told(server, story)


@needs_server
def test_hosts_of_a_dead_agent_go_to_others_although_its_records_are_damaged(server: ServerProcess) -> None:
    async def story(board: RedisCoordinator) -> None:
        (first, second) = sorted(await board.lease_hosts(ADA, 2, 10), key=lambda grant: grant.host)
        client = server.client()
        client.rpush(f"{PREFIX}o:{first.epoch}", b"r\x05")
        client.lset(f"{PREFIX}o:{first.epoch}", 0, b"z")
        client.hset(f"{PREFIX}owe:5:ada", second.epoch, b"\xff\xfe")
        await board.join(BOB, 15.0)
        await board.forget_agent("ada", again=False)
        client.hincrby(META, "skew", 60_000)
        await board.join(BOB, 15.0)
        await board.heartbeat(BOB, HeartbeatRequest(b"", 15.0))
        await finish(board, BOB)
        assert (await board.totals()).kinds == {"quarantined": 3}

    told(server, story)


@needs_server
@pytest.mark.parametrize("host", [b"\xff\xfe", b"ftp://x.test", b"http://", b"http://UPPER.test", b"x" * 5000])
def test_an_invalid_host_is_quarantined(server: ServerProcess, host: bytes) -> None:
    async def story(board: RedisCoordinator) -> None:
        client = server.client()
        client.zadd(f"{PREFIX}r:", {host: 1})
        client.rpush(f"{PREFIX}q:".encode() + host, blocks.encode_block([(9, b"row 9")]))
        client.hset(f"{PREFIX}h:".encode() + host, mapping={"n": 1, "p": ""})
        client.hincrby(META, "seen", 1)
        got = await finish(board)
        assert sorted(key for keys in got.values() for key in keys) == [1, 2, 3]

    told(server, story)


@needs_server
def test_unreadable_rows_are_settled_once(server: ServerProcess) -> None:
    async def story(board: RedisCoordinator) -> None:
        (grant,) = [grant for grant in await board.lease_hosts(ADA, 2, 10) if grant.host == A]
        damaged = {of(grant): [DamagedField("rows", "no URL", (1,), b"row 1"), DamagedField("st", "no state")]}
        server.client().hset(f"{PREFIX}h:{A}", "st", "bad")
        assert await board.quarantine_damaged_values(ADA, damaged) == 1
        assert await board.quarantine_damaged_values(ADA, damaged) == 0, "said twice"
        assert not server.client().hexists(f"{PREFIX}h:{A}", "st")
        books = await board.totals()
        assert (books.settled, books.quarantined, books.kinds) == (1, 2, {"quarantined": 1})

    told(server, story)


def test_a_damaged_state_is_logged_and_left_out() -> None:
    state, learned, damaged = decoding.decode_host_payload(HostPayload(state=b"\x91\xa3/\xff\xfe", policy_data=b"\xff"))
    assert (state, learned) == (HostState(), b"")
    assert [its.field for its in damaged] == ["st", "le"]
