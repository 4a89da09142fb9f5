"""Test server that sends exactly the given bytes and records requests."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import uvloop

from fieldmouse.clock import Clock, WallClock
from fieldmouse.http.client import HttpFetcher
from fieldmouse.http.connection import ResponseLimits
from fieldmouse.types.outcome import Failed, Response
from fieldmouse.types.request import Request
from fieldmouse.url import Host, Url

T = TypeVar("T")
Say = Callable[[asyncio.StreamWriter], Awaitable[None]]

QUICK = ResponseLimits(tick=0.005)


class RawServer:
    """Server that plays a script, one entry per request; the last entry is repeated."""

    def __init__(self, *script: bytes | Say, close: bool = False):
        self.script = script
        self.close = close  # close the connection after each response
        self.requests: list[bytes] = []
        self.connections = 0
        self.open = 0
        self.most_open = 0
        self.port = 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            while True:
                self.requests.append(await reader.readuntil(b"\r\n\r\n"))
                words = self.script[min(len(self.requests), len(self.script)) - 1]
                if isinstance(words, bytes):
                    writer.write(words)
                    await writer.drain()
                else:
                    await words(writer)
                if self.close or writer.is_closing():
                    return
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        finally:
            self.open -= 1
            writer.close()

    @contextlib.asynccontextmanager
    async def listening(
        self, tls: ssl.SSLContext | None = None, address: str = "127.0.0.1"
    ) -> AsyncIterator[RawServer]:
        server = await asyncio.start_server(self._serve, address, 0, ssl=tls)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()


@contextlib.asynccontextmanager
async def fetching(
    limits: ResponseLimits = QUICK, clock: Clock | None = None, **settings: object
) -> AsyncIterator[HttpFetcher]:
    fetcher = HttpFetcher(
        user_agent="fieldmouse-test/1",
        clock=clock or WallClock(),
        limits=limits,
        **settings,  # type: ignore[arg-type]
    )
    try:
        yield fetcher
    finally:
        await fetcher.close()


async def get(
    fetcher: HttpFetcher, server: RawServer, path: str = "/", name: str = "127.0.0.1", scheme: str = "http", **rest: str
) -> Response | Failed:
    host = Host(f"{scheme}://{name}:{server.port}")
    return await fetcher.fetch(Request(Url(host + path), **rest), host, "127.0.0.1")  # type: ignore[arg-type]


def ask_once(
    *script: bytes | Say, limits: ResponseLimits = QUICK, clock: Clock | None = None, close: bool = False
) -> Response | Failed:
    """Return the result of a fetch from a server that plays `script`."""

    async def play() -> Response | Failed:
        async with RawServer(*script, close=close).listening() as server, fetching(limits, clock) as fetcher:
            return await get(fetcher, server)

    return run(play())


def run(coroutine: Awaitable[T]) -> T:
    """Run on uvloop with a timeout, so that a hanging test fails."""

    async def bounded() -> T:
        return await asyncio.wait_for(coroutine, 60)

    return uvloop.run(bounded())


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110  # the loop itself is what we wait for
        await asyncio.sleep(0)
