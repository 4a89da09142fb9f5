"""Tests of the fetcher against well-behaved servers, one at a time."""

from __future__ import annotations

import asyncio
import gzip
import socket
from errno import ENETUNREACH

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auto_advance_clock import AutoAdvanceClock
from fieldmouse.errors import UsageError
from fieldmouse.http.client import HttpFetcher
from fieldmouse.http.connection import ResponseLimits
from fieldmouse.types.outcome import Failed, Response
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.request import Request
from fieldmouse.url import Host, Url
from http_client.rawserver import QUICK, RawServer, ask_once, fetching, get, run, until

HELLO = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"


def test_response_is_kept_as_received() -> None:
    answer = ask_once(HELLO)
    assert isinstance(answer, Response)
    assert (answer.status, answer.body, answer.truncated) == (200, b"hello", "")
    assert answer.head == HELLO.removesuffix(b"hello")
    assert answer.headers == (("content-type", "text/plain"), ("content-length", "5"))
    assert answer.address == "127.0.0.1"
    assert answer.started_at <= answer.answered_at <= answer.ended_at


def test_request_has_the_expected_headers() -> None:
    async def play() -> tuple[Response | Failed, list[bytes], int]:
        async with RawServer(HELLO).listening() as server:
            extra = {"Accept-Language": "en", "accept": "*/*"}
            async with fetching(contact="me@example.org", headers=extra) as fetcher:
                validators = {"etag": 'W/"1"', "last_modified": "Sun, 15 Nov 2026 10:00:00 GMT"}
                answer = await get(fetcher, server, "/a?b=c", **validators)
                return answer, server.requests, server.port

    answer, requests, port = run(play())
    assert isinstance(answer, Response)
    assert answer.request == requests[0]
    line, *lines = requests[0].decode().removesuffix("\r\n\r\n").split("\r\n")
    assert line == "GET /a?b=c HTTP/1.1"
    assert dict(entry.split(": ", 1) for entry in lines) == {
        "Host": f"127.0.0.1:{port}",
        "If-None-Match": 'W/"1"',
        "If-Modified-Since": "Sun, 15 Nov 2026 10:00:00 GMT",
        "User-Agent": "fieldmouse-test/1",
        "From": "me@example.org",
        "Accept-Encoding": "gzip",
        "Connection": "keep-alive",
        "Accept-Language": "en",
        "accept": "*/*",
    }


def test_a_validator_cannot_smuggle_a_header() -> None:
    async def play() -> bytes:
        async with RawServer(HELLO).listening() as server, fetching() as fetcher:
            await get(fetcher, server, etag='"a"\r\nX-Evil: 1', last_modified="bad\ndate")
            return server.requests[0]

    assert b"Evil" not in run(play())


@pytest.mark.parametrize(("name", "value"), [("X Y", "1"), ("X", "a\r\nB: c"), ("X:", "1"), ("", "1")])
def test_a_header_that_cannot_be_sent_is_refused_at_once(name: str, value: str) -> None:
    with pytest.raises(UsageError):
        HttpFetcher(user_agent="x", clock=AutoAdvanceClock(), headers={name: value})


def chunked(pieces: list[bytes]) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece) + b"0\r\n\r\n"


@settings(max_examples=60, deadline=None)
@given(
    pieces=st.lists(st.binary(max_size=3000), max_size=8),
    framing=st.sampled_from(["length", "chunked", "close", "1.0"]),
    cuts=st.lists(st.floats(0, 1), max_size=6),
    interim=st.sampled_from([b"", b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"]),
    end=st.sampled_from([b"\r\n", b"\n"]),
)
def test_body_is_complete_for_every_framing_and_segmentation(
    pieces: list[bytes], framing: str, cuts: list[float], interim: bytes, end: bytes
) -> None:
    body = b"".join(pieces)
    lines = [b"HTTP/1.0 200 OK" if framing == "1.0" else b"HTTP/1.1 200 OK", b"X: \xe9"]
    payload = body
    if framing == "length":
        lines.append(b"Content-Length: %d" % len(body))
    if framing == "chunked":
        lines.append(b"Transfer-Encoding: chunked")
        payload = chunked(pieces)
    head = end.join(lines) + end + end
    wire = interim + head + payload
    places = sorted({int(cut * len(wire)) for cut in cuts})

    async def in_parts(writer: asyncio.StreamWriter) -> None:
        for start, stop in zip([0, *places], [*places, len(wire)], strict=True):
            writer.write(wire[start:stop])
            await writer.drain()
            await asyncio.sleep(0)

    answer = ask_once(in_parts, close=framing in ("close", "1.0"))
    assert isinstance(answer, Response), answer
    assert answer.body == body
    assert answer.head == head
    assert (answer.header("x"), answer.header("link")) == ("\u00e9", "")
    assert answer.truncated == ""


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_without_a_body_is_complete(status: int) -> None:
    answer = ask_once(
        b"HTTP/1.1 %d Fine\r\nContent-Length: 10\r\n\r\n" % status if status == 304 else b"HTTP/1.1 204 X\r\n\r\n"
    )
    assert isinstance(answer, Response)
    assert (answer.status, answer.body) == (status, b"")


def test_upgrade_offer_is_ignored() -> None:
    answer = ask_once(
        b"HTTP/1.1 200 OK\r\nUpgrade: h2,h2c\r\nConnection: Upgrade, Keep-Alive\r\nContent-Length: 2\r\n\r\nok"
    )
    assert isinstance(answer, Response)
    assert answer.body == b"ok"


def test_connection_is_reused_for_the_same_host() -> None:
    async def play() -> RawServer:
        async with RawServer(HELLO).listening() as server, fetching() as fetcher:
            for _ in range(5):
                assert isinstance(await get(fetcher, server), Response)
            return server

    server = run(play())
    assert (server.connections, len(server.requests)) == (1, 5)


def test_two_hosts_at_one_address_never_have_two_connections() -> None:
    async def play() -> RawServer:
        async with RawServer(HELLO).listening() as server, fetching(clock=AutoAdvanceClock()) as fetcher:
            for turn in range(6):
                assert isinstance(await get(fetcher, server, name=f"h{turn % 2}.example"), Response)
                assert len(fetcher._idle) == 1
                await until(lambda: server.open == 1)  # an earlier connection is closed
            return server

    server = run(play())
    assert server.connections == 6
    hosts = [request.split(b"Host: ")[1].split(b":")[0] for request in server.requests]
    assert hosts == [b"h0.example", b"h1.example"] * 3


def test_idle_connection_closed_by_the_server_is_replaced() -> None:
    """The server closes every connection at its second request, without a response."""
    turns = 0

    async def every_other(writer: asyncio.StreamWriter) -> None:
        nonlocal turns
        turns += 1
        if turns % 2:
            writer.write(HELLO)
        else:
            writer.transport.abort()

    async def play() -> RawServer:
        async with RawServer(every_other).listening() as server, fetching() as fetcher:
            for _ in range(4):
                assert isinstance(await get(fetcher, server), Response)
            return server

    server = run(play())
    assert server.connections == 4


def test_new_connection_closed_without_response_is_a_failure() -> None:
    async def hang_up(writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def play() -> tuple[Response | Failed, int]:
        async with RawServer(hang_up).listening() as server, fetching() as fetcher:
            return await get(fetcher, server), server.connections

    answer, connections = run(play())
    assert isinstance(answer, Failed)
    assert (answer.reason, connections) == (OutcomeReason.CONNECTION_CLOSED, 1)


@pytest.mark.parametrize("extra", [b"x", b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", b"\r\n"])
def test_surplus_bytes_close_the_connection_but_keep_the_response(extra: bytes) -> None:
    async def play() -> tuple[list[Response | Failed], int]:
        async with RawServer(HELLO + extra).listening() as server, fetching() as fetcher:
            return [await get(fetcher, server) for _ in range(2)], server.connections

    answers, connections = run(play())
    for answer in answers:
        assert isinstance(answer, Response)
        assert answer.body == b"hello"
    assert connections == 2 or extra == b"\r\n"


def test_unrequested_data_closes_an_idle_connection() -> None:
    said = asyncio.Event()

    async def late(writer: asyncio.StreamWriter) -> None:
        writer.write(HELLO)
        await writer.drain()
        await said.wait()
        writer.write(HELLO.replace(b"hello", b"wrong"))

    async def play() -> list[Response | Failed]:
        clock = AutoAdvanceClock()  # so that it is not closed because of its age
        async with RawServer(late, HELLO).listening() as server, fetching(clock=clock) as fetcher:
            first = await get(fetcher, server)
            said.set()
            kept = next(iter(fetcher._idle.values()))
            await until(lambda: not kept.reusable)
            return [first, await get(fetcher, server)]

    for answer in run(play()):
        assert isinstance(answer, Response)
        assert answer.body == b"hello"


@pytest.mark.parametrize("unasked", [HELLO.replace(b"hello", b"wrong"), b"x", b""], ids=["answer", "byte", "end"])
def test_data_received_before_a_request_is_not_its_response(unasked: bytes) -> None:
    """The second response is in the system's buffer, unseen by the event loop, at the next request."""

    async def play() -> tuple[Response | Failed, Response | Failed]:
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            server = RawServer()
            server.port = listener.getsockname()[1]

            async def answer_once() -> socket.socket:
                taken, _ = await loop.sock_accept(listener)
                await loop.sock_recv(taken, 4096)
                await loop.sock_sendall(taken, HELLO)
                return taken

            async with fetching(clock=AutoAdvanceClock(1000.0)) as fetcher:
                serving = asyncio.create_task(answer_once())
                first = await get(fetcher, server)
                with await serving as taken:
                    assert len(fetcher._idle) == 1
                    if unasked:
                        taken.send(unasked)
                    else:
                        taken.shutdown(socket.SHUT_WR)
                    serving = asyncio.create_task(answer_once())
                    second = await get(fetcher, server)  # at once: nothing is read in between
                    (await serving).close()
            return first, second

    for answer in run(play()):
        assert isinstance(answer, Response), answer
        assert answer.body == b"hello"


def test_idle_connections_are_few_and_short_lived() -> None:
    clock = AutoAdvanceClock(1000.0)

    async def play() -> list[str]:
        async with (
            RawServer(HELLO).listening(address="127.0.0.1") as one,
            RawServer(HELLO).listening(address="127.0.0.2") as two,
            RawServer(HELLO).listening(address="127.0.0.3") as three,
            fetching(clock=clock, idle_connections=2, keep_alive=5.0) as fetcher,
        ):
            for number, server in enumerate((one, two, three), 1):
                host = Host(f"http://127.0.0.{number}:{server.port}")
                assert isinstance(await fetcher.fetch(Request(Url(host + "/")), host, f"127.0.0.{number}"), Response)
            kept = list(fetcher._idle)
            await until(lambda: one.open == 0)  # the oldest was closed
            clock.advance(6.0)
            await until(lambda: not fetcher._idle and two.open == three.open == 0)
            return kept

    assert run(play()) == ["127.0.0.2", "127.0.0.3"]


def test_a_mapped_name_goes_to_its_mapped_port() -> None:
    async def play() -> tuple[Response | Failed, bytes]:
        async with RawServer(HELLO).listening() as server, fetching(port={"h.example": server.port}.get) as fetcher:
            host = Host("http://h.example")
            answer = await fetcher.fetch(Request(Url(host + "/")), host, "127.0.0.1")
            return answer, server.requests[0]

    answer, request = run(play())
    assert isinstance(answer, Response)
    assert b"\r\nHost: h.example\r\n" in request


def test_body_beyond_the_callers_limit_is_cut() -> None:
    body = gzip.compress(b"x" * 100_000, 0)
    wire = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)

    async def play(limit: int) -> Response | Failed:
        async with RawServer(wire).listening() as server, fetching() as fetcher:
            host = Host(f"http://127.0.0.1:{server.port}")
            return await fetcher.fetch(Request(Url(host + "/")), host, "127.0.0.1", body_limit=limit)

    for limit, cut in ((len(body), ""), (len(body) - 1, "length"), (10, "length")):
        answer = run(play(limit))
        assert isinstance(answer, Response)
        assert answer.body == body[:limit]
        assert answer.truncated == cut


def test_a_cancelled_fetch_leaves_no_connection_behind() -> None:
    async def play() -> int:
        asked = asyncio.Event()

        async def never(writer: asyncio.StreamWriter) -> None:
            asked.set()
            await asyncio.Event().wait()

        async with RawServer(never).listening() as server, fetching() as fetcher:
            task = asyncio.create_task(get(fetcher, server))
            await asked.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return len(fetcher._busy) + len(fetcher._idle) + len(fetcher._connecting)

    assert run(play()) == 0


def test_closing_the_fetcher_ends_running_fetches() -> None:
    async def play() -> Response | Failed:
        asked = asyncio.Event()

        async def never(writer: asyncio.StreamWriter) -> None:
            asked.set()
            await asyncio.Event().wait()

        async with RawServer(never).listening() as server, fetching() as fetcher:
            task = asyncio.create_task(get(fetcher, server))
            await asked.wait()
            await fetcher.close()
            return await task

    answer = run(play())
    assert isinstance(answer, Failed)
    assert answer.reason is OutcomeReason.CONNECTION_CLOSED


def test_standard_event_loop_works_too() -> None:
    async def play() -> list[Response | Failed]:
        async with RawServer(HELLO).listening() as server, fetching() as fetcher:
            return [await get(fetcher, server) for _ in range(3)]

    assert all(isinstance(answer, Response) for answer in asyncio.run(play()))


def test_the_limits_have_sane_defaults() -> None:
    assert ResponseLimits().body == 16 * 1024 * 1024
    assert ResponseLimits().tick < min(
        ResponseLimits().connect, ResponseLimits().first_byte, ResponseLimits().idle, ResponseLimits().grace
    )
    assert QUICK.body == ResponseLimits().body


def test_nothing_is_sent_if_the_lease_ends_while_connecting() -> None:
    """The lease expires between connecting and sending."""

    async def play() -> tuple[Response | Failed, list[bytes]]:
        async with RawServer(HELLO).listening() as server, fetching(may_ask=lambda: False) as fetcher:
            return await get(fetcher, server), server.requests

    answer, requests = run(play())
    assert isinstance(answer, Failed)
    assert answer.reason is OutcomeReason.NO_CONNECTION
    assert answer.errno == ENETUNREACH
    assert requests == []


def test_nothing_is_sent_if_the_lease_ends_while_signing() -> None:
    """The connection is an idle one; signing takes long, and the lease expires."""
    asked: list[str] = []

    async def play() -> tuple[Response | Failed, Response | Failed, int]:
        async def sign(link: Request, host: Host) -> None:
            asked.append(str(link.url))
            await asyncio.sleep(0)

        async with (
            RawServer(HELLO, HELLO).listening() as server,
            fetching(sign=sign, may_ask=lambda: len(asked) < 2) as fetcher,
        ):
            first = await get(fetcher, server, "/first")
            return first, await get(fetcher, server, "/second"), len(server.requests)

    first, second, requests = run(play())
    assert isinstance(first, Response)
    assert isinstance(second, Failed)
    assert second.errno == ENETUNREACH
    assert requests == 1
