"""Hostile servers: one thread, many loopback addresses, and each response a trick with a known outcome.

A `Trick` is the response of a path and the outcome that a crawl must record for it. Tricks that affect
their whole host have a separate address; beside every other trick there is a good page, which must be
stored whatever its neighbour does.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import socket
import ssl
import struct
import threading
import zlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import brotli  # type: ignore[import-untyped]
import trustme
import zstandard

from fieldmouse.types.reason import OutcomeReason

Say = Callable[[asyncio.StreamWriter], Awaitable[None]]
Answer = bytes | Say

GOOD = "/good.html"
YEAR = 365 * 86400


class End(NamedTuple):
    """Expected outcome of a URL: the kind of its row, its reason, and a part of the detail."""

    kind: str
    reason: str = ""
    detail: str = ""


PAGE = End("page")


def failed(reason: OutcomeReason, detail: str = "") -> End:
    return End("failed", reason.value, detail)


def refused(reason: OutcomeReason, detail: str = "") -> End:
    return End("refused", reason.value, detail)


@dataclass
class Trick:
    """Responses of a host by path, and the outcome of each."""

    name: str
    answers: dict[str, Answer]
    ends: dict[str, End]
    scheme: str = "http"
    tls: ssl.SSLContext | None = None
    listens: bool = True
    greeting: bytes = b""  # sent before any request
    linked: tuple[str, ...] | None = None  # paths that the seed page links to; None for all that have an end
    good: bool = True  # a good page is beside it
    origin: str = ""

    @property
    def links(self) -> list[str]:
        paths = self.ends if self.linked is None else self.linked
        return [self.origin + path for path in [*paths, *([GOOD] if self.good else [])]]

    @property
    def expected(self) -> dict[str, End]:
        ends = self.ends | ({GOOD: PAGE} if self.good else {})
        return {self.origin + path: end for path, end in ends.items()}


def http(body: bytes = b"", status: str = "200 OK", length: bool = True, **headers: str) -> bytes:
    named = {"Content-Type": "text/html", **{name.replace("_", "-"): text for name, text in headers.items()}}
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {text}" for name, text in named.items())]
    if length:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def page(words: str = "a page", *hrefs: str) -> bytes:
    links = "".join(f'<a href="{href}">{n}</a>\n' for n, href in enumerate(hrefs))
    return f"<!DOCTYPE html><title>{words}</title><p>{words}</p>{links}".encode()


def endless(start: bytes, piece: bytes, every: float = 0.0) -> Say:
    """Send `piece` for as long as the client reads."""

    async def say(writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        while not writer.is_closing():
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(every)

    return say


def streamed(start: bytes, pieces: Callable[[], Iterator[bytes]]) -> Say:
    async def say(writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        for piece in pieces():
            if writer.is_closing():
                return
            writer.write(piece)
            await writer.drain()
            # compression takes long and yields little: other connections need their turn
            await asyncio.sleep(0)
        writer.close()

    return say


async def silence(writer: asyncio.StreamWriter) -> None:
    while not writer.is_closing():  # a closed transport sets no event  # noqa: ASYNC110  # a closed transport sets no event
        await asyncio.sleep(0.1)


async def reset(writer: asyncio.StreamWriter) -> None:
    writer.write(http(b"half a page")[:-4] + b"x")
    await writer.drain()
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def gzip_bomb(megabytes: int) -> Iterator[bytes]:
    """A gzip stream of `megabytes` MiB of zeros: one compressed piece, repeated."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    first = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    yield first
    for _ in range(megabytes // 16):
        yield again * 16


def brotli_bomb(megabytes: int) -> bytes:
    packer = brotli.Compressor(quality=1)
    zeros = bytes(1 << 20)
    return b"".join(packer.process(zeros) for _ in range(megabytes)) + packer.finish()


def zstd_bomb(megabytes: int) -> bytes:
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    zeros = bytes(1 << 20)
    return b"".join(packer.compress(zeros) for _ in range(megabytes)) + packer.flush()


def urls_of_a_sitemap(loc: Callable[[int], str], count: int) -> Iterator[bytes]:
    yield b'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
    for start in range(0, count, 1000):
        yield "".join(f"<url><loc>{loc(n)}</loc></url>" for n in range(start, start + 1000)).encode()


def gzipped(pieces: Iterator[bytes]) -> Iterator[bytes]:
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    for piece in pieces:
        yield packer.compress(piece)
    yield packer.flush()


def self_signed() -> ssl.SSLContext:
    return _served_with(trustme.CA().issue_cert("127.0.0.1"))


def expired(authority: trustme.CA, address: str) -> ssl.SSLContext:
    past = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    return _served_with(authority.issue_cert(address, not_after=past))


def _served_with(certificate: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


@dataclass
class HostileWeb:
    """All tricks, served; `requests` is every (address, path) that was asked for."""

    tricks: list[Trick]
    requests: list[tuple[str, str]] = field(default_factory=list)
    seed: str = ""

    @contextlib.contextmanager
    def serving(self, extra: Callable[[HostileWeb], list[str]] | None = None) -> Iterator[HostileWeb]:
        """On air while the block lasts; `extra` names more hrefs for the seed page."""
        loop = asyncio.new_event_loop()
        started = threading.Event()
        front = Trick("seed", {}, {"/": PAGE}, good=False)
        mute: list[socket.socket] = []

        async def open_all() -> None:
            for number, trick in enumerate([front, *self.tricks]):
                await self._open(trick, f"127.77.{number // 250}.{number % 250 + 1}", mute)
            self.seed = front.origin + "/"
            hrefs = [href for trick in self.tricks for href in trick.links]
            front.answers["/"] = http(page("All doors", *hrefs, *(extra(self) if extra else ())))
            started.set()

        def live() -> None:
            asyncio.set_event_loop(loop)
            opening = loop.create_task(open_all())
            loop.run_forever()
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.gather(*asyncio.all_tasks(loop), opening, return_exceptions=True))
            loop.close()

        thread = threading.Thread(target=live, daemon=True)
        thread.start()
        assert started.wait(30), "the hostile web did not open"
        try:
            yield self
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(30)
            for unheard in mute:
                unheard.close()

    @property
    def expected(self) -> dict[str, End]:
        return {self.seed: PAGE} | {url: end for trick in self.tricks for url, end in trick.expected.items()}

    async def _open(self, trick: Trick, address: str, mute: list[socket.socket]) -> None:
        if trick.listens:
            server = await asyncio.start_server(
                lambda reader, writer: self._serve(trick, address, reader, writer), address, 0, ssl=trick.tls
            )
            port = server.sockets[0].getsockname()[1]
        else:
            unheard = socket.socket()  # a port that is bound but does not listen
            unheard.bind((address, 0))
            port = unheard.getsockname()[1]
            mute.append(unheard)
        trick.origin = f"{trick.scheme}://{address}:{port}"

    async def _serve(
        self, trick: Trick, address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            if trick.greeting:
                writer.write(trick.greeting)
                await reader.read(1)
                return
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                path = head.split(b" ", 2)[1].decode("latin-1")
                self.requests.append((address, path))
                answer = trick.answers.get(path)
                if answer is None:
                    known = path == GOOD
                    answer = http(page(f"beside {trick.name}")) if known else http(status="404 Not Found")
                if not isinstance(answer, bytes):
                    await answer(writer)
                    return
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError, ssl.SSLError):
            pass  # the client or we have had enough
        finally:
            writer.close()
