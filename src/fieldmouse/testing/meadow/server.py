"""HTTP/1.1 server of the synthetic web, and its log of arriving requests.

There is one protocol object per connection, with keep-alive, pipelining, HEAD, chunks, delayed and slow
responses. A request head is split by hand: clients here are well-behaved, and every microsecond is taken
from the crawler on the same machine. While a response is delayed, dripping or held back by a full socket,
later requests of the connection wait in the buffer. Politeness is judged from the log, on the server's
side.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from email.utils import formatdate
from http import HTTPStatus
from pathlib import Path
from typing import cast

import msgspec

from fieldmouse.testing.meadow.plan import Site
from fieldmouse.testing.meadow.responder import MeadowRequest, MeadowResponse, Responder


class Arrival(msgspec.Struct, frozen=True):
    """One request. `busy` counts the unfinished requests to the same address."""

    t: float  # epoch seconds
    host: str  # from the Host header
    address: str
    path: str
    busy: int
    agent: str
    client: str = ""  # the client's address


class ArrivalLog:
    """Appender of arrivals to a file. It writes whole lines, so several processes may append to one file."""

    def __init__(self, path: Path):
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._waiting: list[Arrival] = []
        self._encode = msgspec.json.Encoder().encode

    def add(self, arrival: Arrival) -> None:
        self._waiting.append(arrival)

    def flush(self) -> None:
        if self._waiting:
            lines = b"".join([self._encode(arrival) + b"\n" for arrival in self._waiting])
            self._waiting.clear()
            while lines:
                lines = lines[os.write(self._file, lines) :]

    def close(self) -> None:
        self.flush()
        os.close(self._file)


def read_arrivals(path: Path) -> list[Arrival]:
    """Return all arrivals so far, in order of time."""
    decode = msgspec.json.Decoder(Arrival).decode
    lines = path.read_bytes().split(b"\n")[:-1]
    return sorted((decode(line) for line in lines), key=lambda arrival: arrival.t)


_REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}
_MAX_HEAD = 65536
_DRIPS = 20


class ServerState:
    """State shared by all connections of one process."""

    def __init__(self, desk: Responder, log: ArrivalLog | None, loop: asyncio.AbstractEventLoop):
        self.desk = desk
        self.log = log
        self.loop = loop
        self.named = desk.plan.options.has_names
        self.stands_at = desk.plan.options.stands_at
        self.answering: dict[str, int] = {}
        self.date = b""
        self.do_periodic_work()

    def do_periodic_work(self) -> None:
        """Do the work that is done once a second instead of per request."""
        self.date = b"Server: meadow\r\nDate: %s\r\n" % formatdate(usegmt=True).encode()
        if self.log:
            self.log.flush()


class HttpConnection(asyncio.Protocol):
    """One connection."""

    def __init__(self, grounds: ServerState):
        self._grounds = grounds
        self._buffer = b""
        self._held = False  # a response is under way, or the socket is full
        self._owes = False  # counted in `answering`
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._address: str = transport.get_extra_info("sockname")[0]
        peer = transport.get_extra_info("peername")
        # without a peer the client has already disconnected and sends no request
        self._client: str = peer[0] if peer else ""
        if not peer or self._address not in self._grounds.desk.plan.addresses:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer:
            self._timer.cancel()
        self._count_as_answered()
        self._held = True

    def pause_writing(self) -> None:
        self._held = True

    def resume_writing(self) -> None:
        if self._timer is None:
            self._held = False
            self._serve_buffered_requests()

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        if not self._held:
            self._serve_buffered_requests()

    def _serve_buffered_requests(self) -> None:
        while self._buffer and not self._held:
            head, end, rest = self._buffer.partition(b"\r\n\r\n")
            if not end:
                if len(self._buffer) > _MAX_HEAD:
                    self._transport.abort()
                return
            self._buffer = rest
            self._handle_request(head)

    def _handle_request(self, head: bytes) -> None:
        line, *lines = head.decode("latin-1").split("\r\n")
        try:
            method, target, protocol = line.split(" ")
        except ValueError:
            self._send_error(400)
            return
        headers = {}
        for each in lines:
            name, _, value = each.partition(":")
            headers[name.lower()] = value.strip()
        wanted = headers.get("connection", "").lower()
        keep = wanted != "close" if protocol == "HTTP/1.1" else wanted == "keep-alive"
        if target.startswith("http://"):
            target = "/" + target[7:].partition("/")[2]
        if method not in ("GET", "HEAD") or "content-length" in headers or "transfer-encoding" in headers:
            self._send_error(405)
            return
        grounds = self._grounds
        plan = grounds.desk.plan
        host = headers.get("host", "")
        site = plan.by_authority.get(host) if grounds.named else plan.by_address.get(self._address)
        if grounds.log:
            self._log_arrival(host, target, headers.get("user-agent", ""))
        if site is None:
            self._send_error(404)
            return
        etag, since = headers.get("if-none-match", ""), headers.get("if-modified-since", "")
        ask = MeadowRequest(target, headers.get("accept-encoding", ""), etag, since, self._client)
        answer = grounds.desk.respond(site, ask, grounds.stands_at or time.time())
        # HTTP/1.0 has no chunks; the length is sent instead.
        chunked = site.habits.chunked and protocol == "HTTP/1.1"
        keep = keep and not site.habits.closing
        if answer.stall:
            self._held = True
        elif answer.delay:
            self._call_later(answer.delay, lambda: self._send_response(site, answer, method, keep, chunked))
        else:
            self._send_response(site, answer, method, keep, chunked)

    def _send_response(self, site: Site, answer: MeadowResponse, method: str, keep: bool, chunked: bool) -> None:
        status, headers, body = answer[:3]
        chunked = chunked and status == 200
        length = b"" if status == 304 else b"Content-Length: %d\r\n" % len(body)
        if chunked:
            length = b"Transfer-Encoding: chunked\r\n"
        if method == "HEAD":
            body = b""
        elif chunked:
            body = _chunked_body(body)
        end = b"\r\n" if keep else b"Connection: close\r\n\r\n"
        head = b"HTTP/1.1 %d %s\r\n%s" % (status, _REASONS[status], self._grounds.date) + headers + length + end
        if answer.drip and body:
            self._transport.write(head)
            step = -(-len(body) // _DRIPS)
            self._send_slowly([body[k : k + step] for k in range(0, len(body), step)], answer.drip / _DRIPS, keep)
        else:
            self._transport.write(head + body)
            self._end_response(keep)

    def _send_slowly(self, drops: list[bytes], seconds: float, keep: bool) -> None:
        self._transport.write(drops.pop(0))
        if drops:
            self._call_later(seconds, lambda: self._send_slowly(drops, seconds, keep))
        else:
            self._end_response(keep)

    def _end_response(self, keep: bool) -> None:
        self._count_as_answered()
        if not keep:
            self._held = True
            self._transport.close()

    def _call_later(self, seconds: float, act: Callable[[], None]) -> None:
        self._held = True

        def wake() -> None:
            self._timer = None
            self._held = False
            act()
            if not self._held:
                self._serve_buffered_requests()

        self._timer = self._grounds.loop.call_later(seconds, wake)

    def _send_error(self, status: int) -> None:
        reason = _REASONS[status]
        self._transport.write(b"HTTP/1.1 %d %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % (status, reason))
        self._end_response(keep=False)

    def _log_arrival(self, host: str, path: str, agent: str) -> None:
        answering = self._grounds.answering
        busy = answering.get(self._address, 0)
        answering[self._address] = busy + 1
        self._owes = True
        assert self._grounds.log
        self._grounds.log.add(Arrival(time.time(), host, self._address, path, busy, agent, self._client))

    def _count_as_answered(self) -> None:
        if self._owes:
            self._owes = False
            answering = self._grounds.answering
            answering[self._address] -= 1
            if not answering[self._address]:
                del answering[self._address]


def _chunked_body(body: bytes) -> bytes:
    """Split the body into a few chunks, like a server with a small buffer.

    >>> _chunked_body(b"mouse")
    b'5\\r\\nmouse\\r\\n0\\r\\n\\r\\n'
    """
    parts = [body[k : k + 4096] for k in range(0, len(body), 4096)]
    return b"".join([b"%x\r\n%s\r\n" % (len(part), part) for part in parts]) + b"0\r\n\r\n"
