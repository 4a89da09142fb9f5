"""Tests of the resolver against a test nameserver on loopback, and of names that need none."""

from __future__ import annotations

import asyncio
import contextlib
import os
import struct
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from auto_advance_clock import AutoAdvanceClock
from fieldmouse.errors import UsageError
from fieldmouse.http.dns import FailedLookup, ForbiddenAddress, FoundAddress, HostsFile, Resolver
from fieldmouse.policy.dns_and_header_options import Endpoint, NameOverrides
from http_client.rawserver import run, until

A, AAAA, CNAME = 1, 28, 5
NO_HOSTS = Path("/nonexistent/hosts")


class Nameserver(asyncio.DatagramProtocol):
    """Nameserver that answers from a table: name -> list of (type, ttl, data), or a response code."""

    def __init__(self, zone: dict[str, list[tuple[int, int, bytes]] | int]):
        self.zone = zone
        self.asked: list[tuple[str, int]] = []
        self.silent = False
        self.port = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.port = transport.get_extra_info("sockname")[1]

    def datagram_received(self, query: bytes, sender: tuple[str, int]) -> None:
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]].decode())
            at += 1 + query[at]
        question = query[12 : at + 5]
        (kind,) = struct.unpack(">H", query[at + 1 : at + 3])
        name = ".".join(labels).lower()
        self.asked.append((name, kind))
        if self.silent:
            return
        found = self.zone.get(name, 3)
        code, records = (found, []) if isinstance(found, int) else (0, found)
        records = [record for record in records if record[0] in (kind, CNAME)]
        answer = b"".join(
            b"\xc0\x0c" + struct.pack(">HHIH", type_, 1, ttl, len(data)) + data for type_, ttl, data in records
        )
        head = query[:2] + struct.pack(">HHHHH", 0x8180 | code, 1, len(records), 0, 0)
        self.transport.sendto(head + question + answer, sender)  # type: ignore[attr-defined]


@contextlib.asynccontextmanager
async def resolving(
    zone: dict[str, list[tuple[int, int, bytes]] | int], clock: AutoAdvanceClock, **settings: object
) -> AsyncIterator[tuple[Resolver, Nameserver]]:
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(lambda: Nameserver(zone), local_addr=("127.0.0.1", 0))
    given = {"hosts_file": NO_HOSTS, "timeout": 10.0, "tries": 1, **settings}
    resolver = Resolver(clock=clock, nameservers=[f"127.0.0.1:{server.port}"], **given)  # type: ignore[arg-type]
    try:
        yield resolver, server
    finally:
        await resolver.close()
        transport.close()


def v4(text: str) -> bytes:
    return bytes(int(part) for part in text.split("."))


V6 = bytes.fromhex("26062800022000010000000000000001")


def test_name_is_queried_once_and_cached_for_its_ttl() -> None:
    clock = AutoAdvanceClock(1000.0)

    async def play() -> list[FoundAddress | ForbiddenAddress | FailedLookup]:
        answers = []
        zone = {"a.example": [(A, 100, v4("93.184.216.34"))]}
        async with resolving(zone, clock) as (resolver, server):
            for pause in (0, 50, 49.5):
                clock.advance(pause)
                answers.append(await resolver.lookup("A.Example."))
            assert len(server.asked) == 1
            zone["a.example"] = [(A, 100, v4("93.184.216.35"))]
            clock.advance(1)
            answers.append(await resolver.lookup("a.example"))
        return answers

    # One query per channel, or c-ares would answer from its cache.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fieldmouse.http.dns.QUERIES_PER_CHANNEL", 1)
        answers = run(play())
    assert answers == [FoundAddress("93.184.216.34", 1100.0)] * 3 + [FoundAddress("93.184.216.35", 1200.5)]


def test_restarting_the_dns_library_loses_no_query(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fieldmouse.http.dns.QUERIES_PER_CHANNEL", 3)

    async def play() -> list[FoundAddress | ForbiddenAddress | FailedLookup]:
        zone = {f"h{n}.example": [(A, 900, v4("93.184.216.34"))] for n in range(40)}
        async with resolving(zone, AutoAdvanceClock()) as (resolver, _):
            return await asyncio.gather(*(resolver.lookup(name) for name in zone))

    assert run(play()) == [FoundAddress("93.184.216.34", 900.0)] * 40


@pytest.mark.parametrize(("ttl", "kept"), [(0, 60), (59, 60), (61, 61), (10**9, 3600)])
def test_ttl_is_limited(ttl: int, kept: float) -> None:
    async def play() -> float:
        zone = {"a.example": [(A, ttl, v4("93.184.216.34"))]}
        async with resolving(zone, AutoAdvanceClock(1000.0), most=3600.0) as (resolver, _):
            return (await resolver.resolve_addresses("a.example")).expires_at

    assert run(play()) == 1000.0 + kept


def test_concurrent_lookups_share_one_query_and_cancelling_one_keeps_it() -> None:
    async def play() -> tuple[list[object], int]:
        zone = {"a.example": [(A, 100, v4("93.184.216.34"))]}
        async with resolving(zone, AutoAdvanceClock()) as (resolver, server):
            askers = [asyncio.create_task(resolver.lookup("a.example")) for _ in range(20)]
            await asyncio.sleep(0)
            askers[0].cancel()
            answers = await asyncio.gather(*askers, return_exceptions=True)
            assert not resolver._queries
            return answers, len(server.asked)

    answers, asked = run(play())
    assert isinstance(answers[0], asyncio.CancelledError)
    assert set(answers[1:]) == {FoundAddress("93.184.216.34", 100.0)}
    assert asked == 1


def test_ipv6_is_queried_only_without_ipv4() -> None:
    async def play() -> tuple[object, object, list[tuple[str, int]]]:
        zone = {"six.example": [(AAAA, 100, V6)], "both.example": [(AAAA, 9, V6), (A, 100, v4("93.184.216.34"))]}
        async with resolving(zone, AutoAdvanceClock()) as (resolver, server):
            return await resolver.lookup("six.example"), await resolver.lookup("both.example"), server.asked

    six, both, asked = run(play())
    assert six == FoundAddress("2606:2800:220:1::1", 100.0)
    assert both == FoundAddress("93.184.216.34", 100.0)
    assert asked == [("six.example", A), ("six.example", AAAA), ("both.example", A)]


def test_ttl_of_an_alias_counts() -> None:
    async def play() -> object:
        alias = (CNAME, 70, b"\x01b\x07example\x00")
        async with resolving({"a.example": [alias, (A, 900, v4("93.184.216.34"))]}, AutoAdvanceClock()) as (
            resolver,
            _,
        ):
            return await resolver.lookup("a.example")

    assert run(play()) == FoundAddress("93.184.216.34", 70.0)


@pytest.mark.parametrize(
    ("zone", "temporary", "kept"),
    [
        ({}, False, 300.0),
        ({"a.example": []}, False, 300.0),
        ({"a.example": 2}, True, 30.0),
        ({"a.example": 5}, True, 30.0),
    ],
    ids=["no such name", "no address", "server failure", "refused"],
)
def test_name_without_address_has_reason_and_expiry(
    zone: dict[str, list[tuple[int, int, bytes]] | int], temporary: bool, kept: float
) -> None:
    async def play() -> tuple[object, object]:
        async with resolving(zone, AutoAdvanceClock()) as (resolver, server):
            answer = await resolver.lookup("a.example")
            asked = len(server.asked)
            assert await resolver.lookup("a.example") == answer
            return answer, len(server.asked) - asked

    answer, asked_again = run(play())
    assert isinstance(answer, FailedLookup)
    assert (answer.temporary, answer.expires_at, asked_again) == (temporary, kept, 0)
    assert answer.reason


def test_silent_nameserver_is_a_temporary_failure() -> None:
    async def play() -> object:
        async with resolving({}, AutoAdvanceClock(), timeout=0.2) as (resolver, server):
            server.silent = True
            return await resolver.lookup("a.example")

    answer = run(play())
    assert isinstance(answer, FailedLookup)
    assert answer.temporary


@pytest.mark.parametrize("name", ["a..b", "x" * 70 + ".example", "", "." * 3, "b\u00fccher.example", "a b"])
def test_invalid_name_has_no_address(name: str) -> None:
    async def play() -> object:
        async with resolving({}, AutoAdvanceClock()) as (resolver, _):
            return await resolver.lookup(name)

    assert isinstance(run(play()), FailedLookup)


def test_private_addresses_are_forbidden_and_the_first_allowed_is_taken() -> None:
    async def play() -> list[object]:
        zone = {
            "evil.example": [(A, 100, v4("169.254.169.254"))],
            "mixed.example": [(A, 100, v4("10.0.0.1")), (A, 100, v4("93.184.216.34"))],
            "six.example": [(AAAA, 100, bytes(10) + b"\xff\xff" + v4("127.0.0.1"))],
        }
        async with resolving(zone, AutoAdvanceClock()) as (resolver, _):
            return [await resolver.lookup(name) for name in (*zone, "127.0.0.1", "localhost", "a.localhost", "::1")]

    answers = run(play())
    assert answers[0] == ForbiddenAddress("169.254.169.254", "cloud metadata", 100.0)
    assert answers[1] == FoundAddress("93.184.216.34", 100.0)
    assert all(isinstance(answer, ForbiddenAddress) and answer.reason == "loopback" for answer in answers[2:])


def test_mapped_and_local_names_need_no_dns(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("# ours\n::1 printer\n10.0.0.7 printer Printer.Office.Example # both\nbroken line\n")
    names = NameOverrides(["*.meadow.test=127.0.0.9:8000", "printer=127.0.0.2"])

    async def play() -> list[object]:
        async with resolving({}, AutoAdvanceClock(), names=names, hosts_file=hosts, allow_private=True) as (
            resolver,
            server,
        ):
            asked = ("h1.meadow.test", "printer", "printer.office.example", "localhost", "10.2.3.4", "::1")
            answers = [(await resolver.lookup(name)) for name in asked]
            assert not server.asked
            assert (resolver.mapped_port("h1.meadow.test"), resolver.mapped_port("printer")) == (8000, None)
            return [answer.address for answer in answers if isinstance(answer, FoundAddress)]

    assert run(play()) == ["127.0.0.9", "127.0.0.2", "10.0.0.7", "127.0.0.1", "10.2.3.4", "::1"]


def test_a_changed_hosts_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    clock = AutoAdvanceClock()
    hosts = HostsFile(path, clock)
    assert hosts.addresses_of("a.example") == ()
    path.write_text("10.0.0.1 a.example\n")
    clock.advance(1.5)
    assert hosts.addresses_of("a.example") == ("10.0.0.1",)
    path.write_text("10.0.0.2 a.example\n")
    os.utime(path, ns=(1, 1))
    assert hosts.addresses_of("a.example") == ("10.0.0.1",)
    clock.advance(1.5)
    assert hosts.addresses_of("a.example") == ("10.0.0.2",)


def test_cache_is_bounded_and_drops_the_oldest() -> None:
    async def play() -> list[str]:
        zone = {f"h{n}.example": [(A, 900, v4("93.184.216.34"))] for n in range(6)}
        async with resolving(zone, AutoAdvanceClock(), size=4) as (resolver, _):
            for name in (*zone, "h5.example", "h0.example"):
                await resolver.lookup(name)
            return list(resolver._cache)

    assert run(play()) == ["h3.example", "h4.example", "h5.example", "h0.example"]


def test_closing_cancels_running_queries() -> None:
    async def play() -> list[object]:
        async with resolving({}, AutoAdvanceClock()) as (resolver, server):
            server.silent = True
            task = asyncio.create_task(resolver.lookup("a.example"))
            await until(lambda: server.asked)
            await resolver.close()
            return await asyncio.gather(task, return_exceptions=True)

    assert isinstance(run(play())[0], asyncio.CancelledError)


@pytest.mark.parametrize(
    ("entry", "pin"),
    [
        ("a.example=127.0.0.1", Endpoint("127.0.0.1")),
        (" A.Example. = 127.0.0.1:80 ", Endpoint("127.0.0.1", 80)),
        ("a.example=::1", Endpoint("::1")),
        ("a.example=[::1]", Endpoint("::1")),
        ("a.example=[::1]:8080", Endpoint("::1", 8080)),
    ],
)
def test_name_map_entry_is_parsed(entry: str, pin: Endpoint) -> None:
    assert NameOverrides([entry]).fixed_endpoint_of("a.example") == pin


@pytest.mark.parametrize(
    "entry", ["", "a.example", "=127.0.0.1", "a=b.example", "a=127.0.0.1:0", "a=127.0.0.1:65536", "a=127.0.0.1:x"]
)
def test_invalid_name_map_entry_is_refused(entry: str) -> None:
    with pytest.raises(UsageError) as caught:
        NameOverrides([entry])
    assert caught.value.hint


def test_exact_names_win_over_patterns_and_the_first_pattern_counts() -> None:
    names = NameOverrides(["*.a.example=127.0.0.1", "*=127.0.0.2", "x.a.example=127.0.0.3"])
    found = [names.fixed_endpoint_of(name) for name in ("x.a.example", "y.a.example", "other", "93.184.216.34")]
    assert found == [Endpoint("127.0.0.3"), Endpoint("127.0.0.1"), Endpoint("127.0.0.2"), None]


def test_the_dns_library_is_loaded_only_when_it_is_needed() -> None:
    code = "import sys, fieldmouse.http.dns; sys.exit('aiodns' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
