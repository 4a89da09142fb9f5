"""Tests against hostile and broken servers: each costs a bounded amount and is reported.

Time limits are tested on a clock that the server advances, so nothing waits.
"""

from __future__ import annotations

import asyncio
import datetime
import socket
import ssl
import tracemalloc
from pathlib import Path

import msgspec
import pytest
import trustme
from hypothesis import given, settings
from hypothesis import strategies as st

from auto_advance_clock import AutoAdvanceClock
from common_name import issue_by_common_name
from fieldmouse.errors import UsageError
from fieldmouse.http.connection import ResponseLimits, create_tls_context
from fieldmouse.types.outcome import Failed, Response
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.request import Request
from fieldmouse.url import Host, Url
from http_client.rawserver import QUICK, RawServer, Say, ask_once, fetching, get, run

SMALL = ResponseLimits(body=100_000, header=8192, tick=0.005)


def failure(answer: Response | Failed) -> Failed:
    assert isinstance(answer, Failed), answer
    return answer


def endless(start: bytes, piece: bytes) -> Say:
    """Send `piece` until the connection is closed."""

    async def say(writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        while not writer.is_closing():
            writer.write(piece)
            await writer.drain()

    return say


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 10_000),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", b"x" * 10_000),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"2710\r\n" + b"x" * 10_000 + b"\r\n"),
    ],
    ids=["until close", "a huge length", "chunked"],
)
def test_an_endless_body_is_cut_at_the_limit(start: bytes, piece: bytes) -> None:
    answer = ask_once(endless(start, piece), limits=SMALL)
    assert isinstance(answer, Response), answer
    assert answer.truncated == "length"
    assert 0.9 * SMALL.body <= len(answer.body) <= SMALL.body
    assert set(answer.body) == {ord("x")}


@pytest.mark.parametrize(
    "piece", [b"1;" + b"e" * 5000 + b"\r\nx\r\n", b"1\r\nx\r\n" * 1000, b"0\r\n" + b"Trailer: x\r\n" * 500]
)
def test_endless_chunk_framing_around_a_small_body_is_cut(piece: bytes) -> None:
    """Chunk extensions, chunks of one byte, trailers: the limit counts bytes on the wire."""
    start = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    if piece.startswith(b"0"):
        start, piece = start + b"0\r\n", b"Trailer: x\r\n" * 500
    answer = ask_once(endless(start, piece), limits=SMALL)
    assert isinstance(answer, Response), answer
    assert answer.truncated == "length"


def test_endless_body_costs_at_most_the_limit_in_memory() -> None:
    tracemalloc.start()
    try:
        ask_once(endless(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65536), limits=ResponseLimits(body=2_000_000))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 12_000_000


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X-Filler: abcdefghij\r\n" * 100),
        (b"HTTP/1.1 200 OK\r\nX: ", b"a" * 10_000),
        (b"HTTP/1.1 200 ", b"a" * 10_000),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
    ],
    ids=["many headers", "one header", "a status line", "interim answers"],
)
def test_endless_headers_are_refused(start: bytes, piece: bytes) -> None:
    answer = failure(ask_once(endless(start, piece), limits=SMALL))
    assert answer.reason is OutcomeReason.HEADERS_TOO_LARGE


def test_ten_megabytes_of_complete_headers_are_refused() -> None:
    wire = b"HTTP/1.1 200 OK\r\n" + b"X-Filler: abcdefghij\r\n" * 480_000 + b"Content-Length: 0\r\n\r\n"
    assert failure(ask_once(wire)).reason is OutcomeReason.HEADERS_TOO_LARGE


def test_headers_just_over_the_limit_are_refused_in_one_piece() -> None:
    wire = b"HTTP/1.1 200 OK\r\nX: " + b"a" * 8192 + b"\r\nContent-Length: 0\r\n\r\n"
    assert failure(ask_once(wire, limits=SMALL)).reason is OutcomeReason.HEADERS_TOO_LARGE


@pytest.mark.parametrize(
    ("wire", "detail"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nonly this", "9 of 500 bytes"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nonly this", "9 bytes"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "inside the headers"),
        (b"", "without an answer"),
    ],
)
def test_failure_says_where_the_connection_was_closed(wire: bytes, detail: str) -> None:
    answer = failure(ask_once(wire, close=True))
    assert answer.reason is OutcomeReason.CONNECTION_CLOSED
    assert detail in answer.detail
    if b"\r\n\r\n" in wire:
        assert answer.response is not None
        assert (answer.response.body, answer.response.truncated) == (b"only this", "disconnect")


def test_reset_is_not_the_end_of_a_body() -> None:
    async def reset(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\npart of a page")
        await writer.drain()
        raw = writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        writer.transport.abort()

    assert failure(ask_once(reset)).reason is OutcomeReason.CONNECTION_CLOSED


@pytest.mark.parametrize(
    "wire",
    [
        b"<html>no http at all</html>",
        b"\0\0\0\0",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 banana\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnot hex\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n",
    ],
)
def test_invalid_http_is_reported(wire: bytes) -> None:
    answer = failure(ask_once(wire))
    assert answer.reason is OutcomeReason.BAD_HTTP
    assert answer.detail


def test_nul_bytes_in_headers_and_body_are_kept() -> None:
    answer = ask_once(b"HTTP/1.1 200 OK\r\nX: a\0b\r\nY: a\r\n folded\r\nContent-Length: 3\r\n\r\n\0\0\0")
    assert isinstance(answer, Response), answer
    assert (answer.header("x"), answer.header("y"), answer.body) == ("a\0b", "a folded", b"\0\0\0")


FRAGMENTS = [
    *(b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 C\r\n\r\n", b"HTTP/1.0 304 N\r\n", b"Content-Length: 3\r\n"),
    *(b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n", b"Upgrade: x\r\n", b"X: y\r\n"),
    *(b"3\r\nabc\r\n", b"0\r\n\r\n", b"abc", b"\r\n", b"\n", b"\r", b" z\r\n", b":", b"\0", b"\xff\xfe"),
]


@settings(max_examples=150, deadline=None)
@given(wire=st.one_of(st.binary(max_size=400), st.lists(st.sampled_from(FRAGMENTS), max_size=14).map(b"".join)))
def test_arbitrary_bytes_never_break_the_fetcher(wire: bytes) -> None:
    answer = ask_once(wire, close=True)
    if isinstance(answer, Response):
        assert 200 <= answer.status <= 999
        assert answer.head in wire
        assert answer.head.endswith((b"\n\r\n", b"\n\n"))
    else:
        assert answer.reason in (OutcomeReason.CONNECTION_CLOSED, OutcomeReason.BAD_HTTP)


HOLD = ResponseLimits(tick=0.005)


def after(clock: AutoAdvanceClock, *steps: bytes | float) -> Say:
    """Send the bytes, let the seconds pass, then hold the connection open."""

    async def say(writer: asyncio.StreamWriter) -> None:
        for step in steps:
            if isinstance(step, bytes):
                writer.write(step)
                await writer.drain()
            else:
                # The bytes arrive before time passes, and then the fetcher can run its checks.
                await asyncio.sleep(2 * HOLD.tick)
                clock.advance(step)
                await asyncio.sleep(2 * HOLD.tick)
        await asyncio.Event().wait()

    return say


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"


@pytest.mark.parametrize(
    ("steps", "reason", "detail"),
    [
        ([21.0], OutcomeReason.TIMEOUT, "no answer"),
        ([b"HTTP/1.1 200 OK\r\n", 20.5], OutcomeReason.TIMEOUT, "silent"),
        ([HEAD + b"x" * 50_000, 20.5], OutcomeReason.TIMEOUT, "silent"),
        ([121.0], OutcomeReason.TIMEOUT, "not complete"),
        ([HEAD, 121.0], OutcomeReason.TIMEOUT, "not complete"),
        ([HEAD, *[b"x", 7.0] * 3, b"x"], OutcomeReason.TOO_SLOW, "bytes/s"),
        ([b"HTTP/1.1 200 OK\r\n", *[b"X: y\r\n", 7.0] * 3, b"Z"], OutcomeReason.TOO_SLOW, "bytes/s"),
    ],
    ids=["mute", "stalls in the head", "stalls in the body", "mute for long", "no body", "drip", "header drip"],
)
def test_slow_servers_run_into_time_limits(steps: list[bytes | float], reason: OutcomeReason, detail: str) -> None:
    clock = AutoAdvanceClock(1_000_000.0)
    answer = failure(ask_once(after(clock, *steps), limits=HOLD, clock=clock))
    assert (answer.reason, detail in answer.detail) == (reason, True), answer.detail
    if answer.response is not None:
        assert answer.response.truncated == "time", "it was our limit and not the server that ended it"


def test_aborted_response_is_not_reported_as_disconnect() -> None:
    async def play() -> Response | Failed:
        asked = asyncio.Event()

        async def half(writer: asyncio.StreamWriter) -> None:
            writer.write(HEAD + b"half")
            await writer.drain()
            asked.set()
            await asyncio.Event().wait()

        async with RawServer(half).listening() as server, fetching() as fetcher:
            task = asyncio.create_task(get(fetcher, server))
            await asked.wait()
            connection = next(iter(fetcher._busy))
            while not connection._body:  # noqa: ASYNC110
                await asyncio.sleep(0)
            await fetcher.close()
            return await task

    answer = failure(run(play()))
    assert answer.response is not None
    assert (answer.response.body, answer.response.truncated) == (b"half", "unspecified")


def test_body_beyond_the_total_time_is_cut() -> None:
    clock = AutoAdvanceClock(1_000_000.0)
    steps = [HEAD, *[b"x" * 5000, 15.0] * 9]
    answer = ask_once(after(clock, *steps), limits=HOLD, clock=clock)
    assert isinstance(answer, Response), answer
    assert answer.truncated == "time"
    assert set(answer.body) == {ord("x")}
    assert 5000 * 7 <= len(answer.body) <= 5000 * 9


def test_a_slow_but_honest_server_is_waited_for() -> None:
    clock = AutoAdvanceClock(1_000_000.0)
    wire = b"HTTP/1.1 200 OK\r\nContent-Length: 6000\r\n\r\n"
    steps = [19.0, wire, b"x" * 10, 15.0, b"x" * 4000, 15.0, b"x" * 1990]
    answer = ask_once(after(clock, *steps), limits=HOLD, clock=clock)
    assert isinstance(answer, Response), answer
    assert (len(answer.body), answer.truncated) == (6000, "")


def test_a_refused_connection_is_no_connection() -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        port = unheard.getsockname()[1]

        async def play() -> Response | Failed:
            async with fetching() as fetcher:
                host = Host(f"http://127.0.0.1:{port}")
                return await fetcher.fetch(Request(Url(host + "/")), host, "127.0.0.1")

        answer = failure(run(play()))
    assert (answer.reason, answer.detail) == (OutcomeReason.NO_CONNECTION, "connection refused")


def test_connecting_times_out() -> None:
    """A listener that never responds to a TLS handshake."""
    clock = AutoAdvanceClock(1_000_000.0)

    async def play() -> Response | Failed:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            host = Host(f"https://127.0.0.1:{silent.getsockname()[1]}")
            async with fetching(HOLD, clock) as fetcher:
                task = asyncio.create_task(fetcher.fetch(Request(Url(host + "/")), host, "127.0.0.1"))
                while not fetcher._connecting:  # noqa: ASYNC110
                    await asyncio.sleep(0)
                clock.advance(11.0)
                return await task

    answer = failure(run(play()))
    assert (answer.reason, answer.detail) == (OutcomeReason.NO_CONNECTION, "no connection within 10 s")


HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
LONG_AGO = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def over_tls(authority: trustme.CA, certificate: trustme.LeafCert, *, verify: bool = True, trusted: bool = True):  # type: ignore[no-untyped-def]
    ours = create_tls_context(verify=verify)
    if trusted:
        authority.configure_trust(ours)
    theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate.configure_cert(theirs)

    async def play() -> Response | Failed:
        async with RawServer(HELLO).listening(tls=theirs) as server, fetching(QUICK, tls=ours) as fetcher:
            return await get(fetcher, server, name="www.example.org", scheme="https")

    return run(play())


def test_a_good_certificate_is_trusted_by_name_and_not_by_address(authority: trustme.CA) -> None:
    answer = over_tls(authority, authority.issue_cert("www.example.org"))
    assert isinstance(answer, Response), answer
    assert answer.body == b"hello"


def test_an_expired_certificate_is_refused(authority: trustme.CA) -> None:
    stale = authority.issue_cert("www.example.org", not_after=LONG_AGO)
    answer = failure(over_tls(authority, stale))
    assert (answer.reason, answer.detail) == (OutcomeReason.TLS, "certificate has expired")


def test_a_certificate_for_another_name_is_refused(authority: trustme.CA) -> None:
    answer = failure(over_tls(authority, authority.issue_cert("other.example.org")))
    assert answer.reason is OutcomeReason.TLS
    assert "www.example.org" in answer.detail


def test_a_certificate_that_names_its_host_only_in_its_common_name_is_refused(tmp_path: Path) -> None:
    authority_pem, certificate = issue_by_common_name("www.example.org")
    path = tmp_path / "ca.pem"
    path.write_bytes(authority_pem)
    theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate.configure_cert(theirs)

    async def play() -> Response | Failed:
        ours = create_tls_context(ca_file=path)
        async with RawServer(HELLO).listening(tls=theirs) as server, fetching(QUICK, tls=ours) as fetcher:
            return await get(fetcher, server, name="www.example.org", scheme="https")

    answer = failure(run(play()))
    assert answer.reason is OutcomeReason.TLS
    assert "www.example.org" in answer.detail
    assert "subjectAltName" in answer.detail


def test_an_unknown_authority_is_refused(authority: trustme.CA) -> None:
    answer = failure(over_tls(authority, authority.issue_cert("www.example.org"), trusted=False))
    assert answer.reason is OutcomeReason.TLS
    assert "certificate" in answer.detail


def test_any_certificate_is_accepted_without_verification(authority: trustme.CA) -> None:
    stranger = trustme.CA().issue_cert("elsewhere.example", not_after=LONG_AGO)
    assert isinstance(over_tls(authority, stranger, verify=False, trusted=False), Response)


def test_server_without_tls_is_reported() -> None:
    async def play() -> Response | Failed:
        async with RawServer(HELLO).listening() as server, fetching(tls=create_tls_context()) as fetcher:

            async def answer_anything(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await reader.read(10)
                writer.write(HELLO)

            plain = await asyncio.start_server(answer_anything, "127.0.0.1", 0)
            server.port = plain.sockets[0].getsockname()[1]
            answer = await get(fetcher, server, scheme="https")
            plain.close()
            return answer

    assert failure(run(play())).reason is OutcomeReason.TLS


@pytest.mark.parametrize("name", [".example", "x" * 64 + ".example", "a..b"])
def test_name_invalid_in_certificates_is_a_failure(authority: trustme.CA, name: str) -> None:
    theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("www.example.org").configure_cert(theirs)

    async def play() -> Response | Failed:
        async with RawServer(HELLO).listening(tls=theirs) as server, fetching(tls=create_tls_context()) as fetcher:
            return await get(fetcher, server, name=name, scheme="https")

    assert failure(run(play())).reason is OutcomeReason.TLS


def test_a_handshake_cut_short_is_a_failure() -> None:
    async def play() -> Response | Failed:
        async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(10)
            writer.close()

        async with fetching(tls=create_tls_context()) as fetcher:
            rude = await asyncio.start_server(hang_up, "127.0.0.1", 0)
            host = Host(f"https://127.0.0.1:{rude.sockets[0].getsockname()[1]}")
            answer = await fetcher.fetch(Request(Url(host + "/")), host, "127.0.0.1")
            rude.close()
            return answer

    assert failure(run(play())).reason in (OutcomeReason.TLS, OutcomeReason.NO_CONNECTION)


def test_certificate_authority_is_read_from_a_file(authority: trustme.CA, tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    assert create_tls_context(ca_file=path).verify_mode is ssl.CERT_REQUIRED
    path.write_text("nothing of the kind")
    with pytest.raises(UsageError, match=r"ca\.pem"):
        create_tls_context(ca_file=path)


def test_robots_txt_of_100_megabytes_is_read_up_to_half_a_megabyte() -> None:
    sent = 0

    async def say(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
        while sent < 100_000_000 and not writer.is_closing():
            writer.write(b"Disallow: /a\n" * 5000)
            sent += 65_000
            await writer.drain()

    async def play() -> Response | Failed:
        async with RawServer(say).listening() as server, fetching() as fetcher:
            host = Host(f"http://127.0.0.1:{server.port}")
            return await fetcher.fetch(Request(Url(host + "/robots.txt")), host, "127.0.0.1", body_limit=512_000)

    answer = run(play())
    assert isinstance(answer, Response), answer
    assert (len(answer.body), answer.truncated) == (512_000, "length")
    assert sent < 50_000_000


def test_a_failure_can_be_written_to_a_log(authority: trustme.CA) -> None:
    answer = failure(ask_once(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nonly this", close=True))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(answer), type=Failed) == answer
