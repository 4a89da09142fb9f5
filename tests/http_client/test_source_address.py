"""Tests of the source address: seen by the server, and blamed correctly for failures."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from pathlib import Path

import pytest
import trustme

from fieldmouse.errors import FieldmouseError, UsageError
from fieldmouse.http.connection import SourceAddress, create_tls_context
from fieldmouse.policy.dns_and_header_options import parse_source_address
from fieldmouse.policy.local_outage import FailureCause, cause_of
from fieldmouse.types.outcome import Failed, Response
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.request import Request
from fieldmouse.url import Host, Url
from http_client.rawserver import QUICK, RawServer, fetching, get, run
from meadowland import running_meadow
from whole.crawling import run as command


async def hello(writer: asyncio.StreamWriter) -> None:
    """Respond with the address of the client."""
    peer = writer.get_extra_info("peername")[0].encode()
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(peer), peer))
    await writer.drain()


def peer_seen(source: str, *, server_at: str = "127.0.0.1") -> str:
    async def play() -> Response | Failed:
        listening = RawServer(hello).listening(address=server_at)
        async with listening as server, fetching(QUICK, source=SourceAddress(source)) as fetcher:
            name = f"[{server_at}]" if ":" in server_at else server_at
            host = Host(f"http://{name}:{server.port}")
            return await fetcher.fetch(Request(Url(f"{host}/")), host, server_at)

    answer = run(play())
    assert isinstance(answer, Response), answer
    return answer.body.decode()


def has_ipv6() -> bool:
    with socket.socket(socket.AF_INET6) as trial:
        try:
            trial.bind(("::1", 0))
        except OSError:
            return False
    return True


@pytest.mark.parametrize("source", ["127.9.0.1", "127.9.0.2"])
def test_server_sees_the_configured_source_address(source: str) -> None:
    assert peer_seen(source) == source


@pytest.mark.skipif(not has_ipv6(), reason="no IPv6 on loopback")
def test_source_is_used_only_for_its_address_family() -> None:
    assert peer_seen("127.9.0.1", server_at="::1") == "::1"
    assert peer_seen("::1", server_at="127.0.0.1") == "127.0.0.1"
    assert peer_seen("::1", server_at="::1") == "::1"


def test_source_works_over_tls_and_no_socket_stays_open() -> None:
    authority = trustme.CA()
    theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("www.example.org").configure_cert(theirs)
    trusting, doubting = create_tls_context(), create_tls_context()
    authority.configure_trust(trusting)

    async def play() -> tuple[Response | Failed, list[Response | Failed], int]:
        source = SourceAddress("127.9.0.3")
        async with RawServer(hello).listening(tls=theirs) as server:
            async with fetching(QUICK, tls=trusting, source=source) as fetcher:
                good = await get(fetcher, server, name="www.example.org", scheme="https")
            before = len(os.listdir("/proc/self/fd"))
            async with fetching(QUICK, tls=doubting, source=source) as fetcher:
                bad = [await get(fetcher, server, name="www.example.org", scheme="https") for _ in range(10)]
                task = asyncio.ensure_future(get(fetcher, server, name="www.example.org", scheme="https"))
                await asyncio.sleep(0)
                task.cancel()
            while server.open:  # noqa: ASYNC110  # the loop itself is what we wait for
                await asyncio.sleep(0)
            return good, bad, len(os.listdir("/proc/self/fd")) - before

    good, bad, left = run(play())
    assert isinstance(good, Response), good
    assert good.body == b"127.9.0.3"
    assert {failed.reason for failed in bad if isinstance(failed, Failed)} == {OutcomeReason.TLS}
    assert left <= 2, "descriptors of ten connections"


@pytest.mark.parametrize(
    ("source", "address"),
    [("203.0.113.9", "127.0.0.1"), ("127.9.0.1", "203.0.113.9")],
    ids=["not ours", "no way from it"],
)
def test_unusable_source_is_an_error_of_our_network(source: str, address: str) -> None:
    async def play() -> Response | Failed:
        listening = RawServer(hello).listening()
        async with listening as server, fetching(QUICK, source=SourceAddress(source)) as fetcher:
            host = Host(f"http://{address}:{server.port}")
            return await fetcher.fetch(Request(Url(f"{host}/")), host, address)

    answer = run(play())
    assert isinstance(answer, Failed)
    assert cause_of(answer) is FailureCause.ROUTE


def test_refusal_is_still_blamed_on_the_server() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]

        async def play() -> Response | Failed:
            async with fetching(QUICK, source=SourceAddress("127.9.0.1")) as fetcher:
                host = Host(f"http://127.0.0.1:{port}")
                return await fetcher.fetch(Request(Url(f"{host}/")), host, "127.0.0.1")

        answer = run(play())
    assert isinstance(answer, Failed)
    assert (answer.errno, answer.detail) == (errno.ECONNREFUSED, "connection refused")
    assert cause_of(answer) is FailureCause.HOST


def test_source_address_is_checked_before_the_first_request() -> None:
    SourceAddress("127.9.0.1").check_is_local()
    with pytest.raises(FieldmouseError, match=r"cannot connect from 203\.0\.113\.9") as told:
        SourceAddress("203.0.113.9").check_is_local()
    assert not isinstance(told.value, UsageError)
    for text in ("", "eth0", "127.9.0.1:80", "0.0.0.0", "::", "224.0.0.1", "255.255.255.255", "[::1]"):
        with pytest.raises(UsageError, match="no address to connect from"):
            parse_source_address(text)


def test_crawl_uses_only_its_source_address(tmp_path: Path) -> None:
    with running_meadow(hosts=3, pages=30, links=20, page_kb=4) as meadow:
        words = ["--allow-private", "--delay", "0s", "--set", "network.source=127.9.0.7"]
        summary = command("crawl", tmp_path / "c", "--seed", meadow.seeds[0], *words)
        meadow.stop()
        arrivals = meadow.arrivals()
    assert summary["pages"] >= 30
    assert {arrival.client for arrival in arrivals} == {"127.9.0.7"}
