"""Headers of the `sign` plug-in go only to the host they were made for."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

from fieldmouse.fetch.auth_headers import AuthHeadersPlugin
from fieldmouse.http.client import SentAndStoredHeaders
from fieldmouse.plugins.page import OutgoingRequest
from fieldmouse.plugins.runner import MAX_STUCK_CALLS
from fieldmouse.policy.dns_and_header_options import BLANK
from fieldmouse.types.outcome import Failed, Response
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.request import Request, RequestKind
from fieldmouse.url import Host, Url
from http_client.rawserver import RawServer, fetching, get, run

HERE, THERE = Host("https://own.example"), Host("https://else.example")
HELLO = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
TOKEN = {"Authorization": "Bearer s3cret"}


def signer(sign: Callable[[OutgoingRequest], object], patience: float = 5.0, **more: object) -> AuthHeadersPlugin:
    return AuthHeadersPlugin(sign, "own:sign", hosts=[HERE], patience=patience, **more)  # type: ignore[arg-type]


def asked(
    made: AuthHeadersPlugin, host: Host = HERE, kind: RequestKind = RequestKind.PAGE
) -> SentAndStoredHeaders | str | None:
    async def ask() -> SentAndStoredHeaders | str | None:
        return await made(Request(Url(host + "/a"), kind=kind), host)

    return asyncio.run(ask())


def test_signed_headers_are_sent_but_blanked_in_the_archive() -> None:
    signed = asked(signer(lambda request: TOKEN))
    assert signed == SentAndStoredHeaders(b"Authorization: Bearer s3cret\r\n", f"Authorization: {BLANK}\r\n".encode())
    assert asked(signer(lambda request: TOKEN, keep=True)) == SentAndStoredHeaders(signed.sent, signed.sent)


def test_sign_gets_the_url_and_the_host() -> None:
    seen: list[OutgoingRequest] = []
    asked(signer(lambda request: seen.append(request)))
    assert seen == [OutgoingRequest("https://own.example/a", "https://own.example")]


@pytest.mark.parametrize(
    "host",
    [THERE, "http://own.example", "https://own.example:8443", "https://www.own.example", "https://own.example.evil"],
)
def test_another_host_scheme_or_port_is_never_signed(host: str) -> None:
    assert asked(signer(lambda request: pytest.fail("asked")), Host(host)) is None


def test_none_and_empty_headers_are_no_signature() -> None:
    assert asked(signer(lambda request: None)) is None
    assert asked(signer(lambda request: {})) is None


def _raise(trouble: BaseException) -> Callable[[OutgoingRequest], object]:
    def sign(request: OutgoingRequest) -> object:
        raise trouble

    return sign


@pytest.mark.parametrize(
    ("sign", "says"),
    [
        (_raise(KeyError("s3cret")), "raised KeyError"),
        (_raise(SystemExit("s3cret")), "raised SystemExit"),
        (lambda request: "s3cret", "gave a `str` and not a mapping of headers"),
        (lambda request: {"Authorization": 7}, "gave a header that is no text"),
        (lambda request: {"User-Agent": "s3cret"}, "gave the header `User-Agent`, which requests have already"),
        (lambda request: {"x-mine": "s3cret"}, "gave the header `x-mine`, which requests have already"),
        (lambda request: {"A": "s3cret\r\nHost: evil"}, "gave the header `A`, which cannot be sent"),
        (lambda request: {"A\r\nB": "s3cret"}, "gave the header `?`, which cannot be sent"),
        (lambda request: {"A": "s3cret €"}, "gave the header `A`, which cannot be sent"),
        (lambda request: {"A": "s3cret" * 9999}, "gave headers of more than 16384 characters"),
    ],
)
def test_errors_of_sign_are_named_without_secrets(sign: Callable[[OutgoingRequest], object], says: str) -> None:
    made = signer(sign, taken=["X-Mine"])
    assert asked(made) == f"`own:sign` {says}"
    assert asked(made, kind=RequestKind.ROBOTS_TXT) is None, "a robots.txt is asked for without"


def test_a_hanging_sign_times_out() -> None:
    threads: list[threading.Thread] = []

    def loop(request: OutgoingRequest) -> None:
        threads.append(threading.current_thread())
        while True:
            pass

    assert asked(signer(loop, patience=0.05)) == "`own:sign` took longer than 0.05 s"
    threads[0].join(60)
    assert not threads[0].is_alive()


def test_after_many_hanging_calls_sign_is_not_called_until_they_return() -> None:
    gate = threading.Event()
    made = signer(lambda request: gate.wait(60) and None, patience=0.02)

    async def play() -> None:
        link = Request(Url(HERE + "/a"))
        for _ in range(MAX_STUCK_CALLS):
            assert await made(link, HERE) == "`own:sign` took longer than 0.02 s"
        assert await made(link, HERE) == f"`own:sign` was left out: {MAX_STUCK_CALLS} calls have not come back"
        gate.set()
        ends = time.monotonic() + 60
        while await made(link, HERE) is not None:
            assert time.monotonic() < ends

    asyncio.run(play())


def test_a_slow_sign_does_not_block_the_event_loop() -> None:
    """`sign` waits for something that only the loop can give: on the loop's thread it would deadlock."""
    given = threading.Event()

    async def play() -> SentAndStoredHeaders | str | None:
        made = signer(lambda request: TOKEN if given.wait(30) else None, patience=60.0)
        asyncio.get_running_loop().call_later(0.01, given.set)
        return await made(Request(Url(HERE + "/a")), HERE)

    assert isinstance(asyncio.run(play()), SentAndStoredHeaders)


def test_the_server_gets_the_headers_but_the_archive_does_not() -> None:
    async def play(*script: bytes) -> tuple[list[bytes], list[Response | Failed]]:
        async with RawServer(*script, close=True).listening() as server:
            own = Host(f"http://127.0.0.1:{server.port}")
            made = AuthHeadersPlugin(lambda request: TOKEN, "own:sign", hosts=[own], patience=5.0)
            async with fetching(sign=made) as fetcher:
                return server.requests, [await get(fetcher, server) for _ in script]

    requests, answers = run(play(HELLO, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhell"))
    assert all(b"\r\nAuthorization: Bearer s3cret\r\n" in request for request in requests)
    whole, broken = answers
    assert isinstance(whole, Response)
    assert isinstance(broken, Failed)
    assert broken.response is not None, "cut short, and kept"
    for kept, sent in zip((whole.request, broken.response.request), requests, strict=True):
        assert kept == sent.replace(b"Bearer s3cret", BLANK.encode())


def test_a_request_that_cannot_be_signed_is_not_made() -> None:
    async def play() -> tuple[list[bytes], Response | Failed]:
        async with RawServer(HELLO).listening() as server:
            own = Host(f"http://127.0.0.1:{server.port}")
            made = AuthHeadersPlugin(_raise(KeyError()), "own:sign", hosts=[own], patience=5.0)
            async with fetching(sign=made) as fetcher:
                return server.requests, await get(fetcher, server)

    requests, answer = run(play())
    assert requests == []
    assert isinstance(answer, Failed)
    assert (answer.reason, answer.detail) == (OutcomeReason.NOT_SIGNED, "`own:sign` raised KeyError")
