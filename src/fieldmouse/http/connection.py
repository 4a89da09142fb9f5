"""HTTP/1.1 connection: one request at a time, with limits on size and time, over TCP or TLS from the chosen local
address.

The connection keeps what the archive needs (the head exactly as received, the body without its chunks)
and enforces the `ResponseLimits`. Every byte is counted here first, so no server can cost more than the limits in
memory and time. Chunked bodies (RFC 9112, 7.1) are decoded tolerantly: lines may end in a bare line feed,
a chunk may lack the line end behind it, and chunk extensions and trailers are skipped.

A connection has no timer: its owner calls it every `ResponseLimits.tick` seconds, which is one timer for a
thousand connections.

It is used for servers of its address family; for others the system chooses. Errors caused by it (the
address is gone, or has no route) are errors of our network: their errno says so, and no host is blamed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import select
import socket
import ssl
import struct
from errno import EADDRNOTAVAIL, EINVAL
from pathlib import Path

import msgspec

from fieldmouse.clock import Clock
from fieldmouse.errors import FieldmouseError, UsageError
from fieldmouse.http import headers
from fieldmouse.http.decoding import DecodedBody, decode_body
from fieldmouse.types.outcome import Response
from fieldmouse.types.reason import OutcomeReason

LONGEST_LINE = 64 * 1024  # bytes of a size with its extensions, or of a trailer

_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?\r*", re.DOTALL)
_PLAIN_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})\r\n").match
_CR, _LF = b"\r\n"


class BadChunk(ValueError):
    """Invalid chunk; the message says why."""


class ChunkedDecoder:
    """Decoder of one body; `body` grows, and `done` is true after the last chunk and the trailers."""

    __slots__ = ("_behind", "_left", "_line", "_trailing", "body", "done")

    def __init__(self) -> None:
        self.body = bytearray()
        self.done = False
        self._left = 0  # bytes of the current chunk still to come
        self._behind = False  # a chunk has just ended: its line end comes next
        self._trailing = False  # the last chunk was read
        self._line = b""  # the part of a line received so far

    def feed(self, data: bytes) -> int:
        r"""Decode more data; return the number of bytes behind the end of the body. Raises `BadChunk`.

        >>> chunks = ChunkedDecoder()
        >>> chunks.feed(b"5\r\nmice \r\n4;x=y\nru"), chunks.done
        (0, False)
        >>> chunks.feed(b"n.\n0\n\nHTTP"), chunks.done, bytes(chunks.body)
        (4, True, b'mice run.')
        """
        at = 0 if self._left or self._behind or self._trailing or self._line else self._read_complete_chunks(data)
        size = len(data)
        while at < size and not self.done:
            if self._left:
                piece = data[at : at + self._left]
                self.body += piece
                at += len(piece)
                self._left -= len(piece)
                self._behind = not self._left
            elif self._behind:
                # A carriage return may be the last byte received.
                if data[at] == _CR:
                    at += 1
                    continue
                self._behind = False
                at += data[at] == _LF
            else:
                end = data.find(b"\n", at)
                line = self._line + data[at : end if end >= 0 else size]
                if len(line) > LONGEST_LINE:
                    raise BadChunk(f"a line of more than {LONGEST_LINE} bytes between chunks")
                if end < 0:
                    self._line = line
                    break
                self._line = b""
                at = end + 1
                self._parse_line(line)
        return size - at if self.done else 0

    def _read_complete_chunks(self, data: bytes) -> int:
        """Decode the chunks that are complete in `data`, as nearly all are; return where the others begin."""
        at, body = 0, self.body
        while match := _PLAIN_SIZE(data, at):
            start = match.end()
            stop = start + int(match[1], 16)
            if start == stop or data[stop : stop + 2] != b"\r\n":
                break
            body += data[start:stop]
            at = stop + 2
        return at

    def _parse_line(self, line: bytes) -> None:
        if self._trailing:
            self.done = not line.strip(b"\r")
            return
        match = _SIZE.fullmatch(line)
        if match is None:
            raise BadChunk(f"no chunk begins with {line[:20]!r}")
        self._left = int(match[1], 16)
        self._trailing = not self._left


_AT_ONCE = struct.pack("ii", 1, 0)  # linger: on, for zero seconds


def discard_unsent_on_abort(transport: asyncio.Transport) -> None:
    """Discard unacknowledged data when the transport is aborted.

    Otherwise the system retransmits it for minutes. After a network outage the request could reach a host
    that another agent has leased since.
    """
    sock = transport.get_extra_info("socket")
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)


class ResponseLimits(msgspec.Struct, frozen=True):
    """Limits on one response. Sizes are bytes on the wire, times are seconds."""

    body: int = 16 * 1024 * 1024  # a longer body is cut: truncated="length"
    header: int = 64 * 1024  # status line, headers and interim (1xx) responses together
    connect: float = 10.0  # TCP and TLS handshake together
    first_byte: float = 20.0  # from the request to the first byte of the response
    idle: float = 20.0  # silence in the middle of a response
    total: float = 120.0  # a body that takes longer is cut: truncated="time"
    min_speed: float = 100.0  # bytes a second, averaged from the first byte; 0 disables the check
    grace: float = 20.0  # seconds after the first byte before the speed is checked
    tick: float = 0.25  # interval of the checks


class FailedRequest(msgspec.Struct, frozen=True):
    """Reason for an incomplete response; `response` is the part received before."""

    reason: OutcomeReason
    detail: str
    response: Response | None = None
    unanswered: bool = False  # the connection was lost before the first byte: a GET may be repeated
    errno: int = 0  # of the operating system, or 0


class Connection(asyncio.Protocol):
    """A connection to one host at one address.

    After `send` the owner awaits the future; when it is done, `reusable` tells whether the connection may
    be used again.
    """

    def __init__(self, host: str, address: str, limits: ResponseLimits, clock: Clock):
        self.host, self.address = host, address
        self.requests_sent = 0  # requests sent on this connection
        self.idle_since = 0.0
        self._limits, self._clock = limits, clock
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[Response | FailedRequest] | None = None
        self._request = b""
        self._body_limit = 0
        self._asked_at = self._heard_at = 0.0
        self._reset()

    def _reset(self) -> None:
        self._received, self._answered_at = 0, 0.0
        self._done = self._surplus = False
        self._raw: bytes | bytearray = b""  # the head so far, until it is complete
        self._head: bytes | None = None
        self._body_at = 0  # bytes before the body
        self._fields = _NONE
        self._framing = headers.BodyFraming()
        self._chunks: ChunkedDecoder | None = None
        self._body: bytes | bytearray = b""

    # Methods for the owner

    @property
    def reusable(self) -> bool:
        """Whether it is connected and has no request in progress."""
        return self._waiter is None and self._transport is not None and not self._transport.is_closing()

    def has_no_unread_data(self) -> bool:
        """Tell whether nothing waits to be read, not even in the system's buffer.

        Data that arrived before a request does not answer it, and the event loop may not have seen it yet.
        """
        if not self.reusable or self._transport is None:
            return False
        sock = self._transport.get_extra_info("socket")
        if sock is None or sock.fileno() < 0:
            return sock is None
        poll = select.poll()
        poll.register(sock.fileno(), select.POLLIN)
        return not poll.poll(0)

    def send(self, request: bytes, body_limit: int) -> asyncio.Future[Response | FailedRequest]:
        """Send a request head; the future never holds an exception."""
        assert self._waiter is None, "a connection is asked one thing at a time"
        self._reset()
        self._request, self._body_limit = request, body_limit
        self._asked_at = self._clock.now()
        self.requests_sent += 1
        waiter: asyncio.Future[Response | FailedRequest] = asyncio.get_running_loop().create_future()
        self._waiter = waiter
        if self._transport is None or self._transport.is_closing():
            self._fail_response(OutcomeReason.CONNECTION_CLOSED, "closed before the request was sent")
        else:
            self._transport.write(request)
        return waiter

    def enforce_limits(self, now: float) -> None:
        """Enforce the time limits on the current response."""
        if self._waiter is None:
            return
        limits = self._limits
        if now - self._asked_at > limits.total:
            if self._body:
                self._complete_response(now, truncated="time")
            else:
                self._fail_response(OutcomeReason.TIMEOUT, f"not complete after {limits.total:g} s")
        elif not self._answered_at:
            if now - self._asked_at > limits.first_byte:
                self._fail_response(OutcomeReason.TIMEOUT, f"no answer within {limits.first_byte:g} s")
        elif now - self._heard_at > limits.idle:
            self._fail_response(OutcomeReason.TIMEOUT, f"silent for {limits.idle:g} s in the middle of an answer")
        else:
            elapsed = now - self._answered_at
            if elapsed > limits.grace and self._received < limits.min_speed * elapsed:
                speed = self._received / elapsed
                self._fail_response(OutcomeReason.TOO_SLOW, f"{speed:.3g} bytes/s, wanted {limits.min_speed:g}")

    def close(self) -> None:
        """Close an idle connection gracefully."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """End the connection at once, even during a response."""
        self._fail_response(OutcomeReason.CONNECTION_CLOSED, "stopped by us", cut="unspecified")

    # Methods for the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # always a stream here

    def data_received(self, data: bytes) -> None:
        if self._waiter is None:  # unrequested data: no later response on this connection can be trusted
            self.close()
            return
        now = self._heard_at = self._clock.now()
        if not self._answered_at:
            self._answered_at = now
        self._received += len(data)
        try:
            if self._head is None:
                data = self._read_head(data)
                if self._head is None:
                    return
            self._read_body(data)
        except headers.InvalidHead as error:
            self._fail_response(OutcomeReason.BAD_HTTP, f"{error}; the answer begins {bytes(self._raw[:40])!r}")
        except BadChunk as error:
            self._fail_response(OutcomeReason.BAD_HTTP, f"{error}, in the body")
        else:
            if self._done and len(self._body) <= self._body_limit:
                self._complete_response(now)
            elif self._done or self._received - self._body_at > self._body_limit:
                self._complete_response(now, truncated="length")

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if self._waiter is None:
            return
        if not self._answered_at:
            cause = "closed" if error is None else getattr(error, "strerror", None) or str(error)
            number = getattr(error, "errno", None) or 0
            self._fail_response(
                OutcomeReason.CONNECTION_CLOSED, f"{cause.lower()} without an answer", unanswered=True, errno=number
            )
        elif self._head is None:
            self._fail_response(
                OutcomeReason.CONNECTION_CLOSED, f"closed inside the headers, after {self._received} bytes"
            )
        elif error is None and self._framing.ends_with_connection:
            self._complete_response(self._clock.now())
        else:
            promised = self._framing.length
            wanted = "" if promised is None else f" of {promised}"
            self._fail_response(
                OutcomeReason.CONNECTION_CLOSED, f"closed after {len(self._body)}{wanted} bytes of body"
            )

    # Reading a response

    def _read_head(self, data: bytes) -> bytes:
        """Read until the head is complete, past interim responses; return the data behind it.

        If `_head` is still None afterwards, more data is needed, or the response was refused.
        """
        raw: bytes | bytearray = data
        seen = len(self._raw)
        if isinstance(self._raw, bytearray):
            self._raw += data
            raw = self._raw
        before, at = self._received - len(raw), 0
        while True:
            at = headers.skip_empty_lines(raw, at)
            end = headers.head_length(raw, max(at, seen - 2))
            if not end:
                break
            if before + end > self._limits.header:
                self._refuse_head(before + end)
                return b""
            self._raw = whole = bytes(raw[at:end])
            fields = headers.parse_head(whole)
            if fields.status == 101:
                raise headers.InvalidHead("the server switched protocols unasked")
            if fields.status >= 200:
                self._framing = headers.body_framing(fields)
                self._fields, self._head, self._raw = fields, whole, b""
                self._body_at = before + end
                if self._framing.chunked:
                    self._chunks = ChunkedDecoder()
                    self._body = self._chunks.body
                return bytes(raw[end:])
            at = end
        self._raw = raw if isinstance(raw, bytearray) else bytearray(raw)  # it grows in place from now on
        del self._raw[:at]
        if headers.is_not_http(self._raw):
            raise headers.InvalidHead("there is no status line")
        if self._received > self._limits.header:
            self._refuse_head(self._received)
        return b""

    def _read_body(self, data: bytes) -> None:
        """Take the data of the body; anything behind it is surplus."""
        if self._chunks is not None:
            self._surplus = self._chunks.feed(data) > 0
            self._done = self._chunks.done
            return
        length = self._framing.length
        if length is not None:
            left = length - len(self._body)
            self._surplus = len(data) > left
            data = data[:left]
        if not self._body:
            self._body = data
        elif isinstance(self._body, bytearray):
            self._body += data
        else:
            self._body = bytearray(self._body) + data
        self._done = len(self._body) == length

    # Ending a response

    def _complete_response(self, now: float, truncated: str = "") -> None:
        if self._framing.codings:
            unpacked = self._undo_transfer_codings()
            if unpacked.reason is OutcomeReason.DECOMPRESSION_BOMB:
                truncated = "length"
            elif unpacked.reason is not None and not truncated:
                self._fail_response(OutcomeReason.BAD_HTTP, f"Transfer-Encoding: {unpacked.detail}")
                return
        response = self._build_response(now, truncated)
        if truncated or self._surplus or not self._framing.keep_alive:
            self._disconnect(at_once=bool(truncated))
        else:
            self.idle_since = now
        self._resolve_waiter(response)

    def _fail_response(
        self, reason: OutcomeReason, detail: str, *, unanswered: bool = False, errno: int = 0, cut: str = ""
    ) -> None:
        now = self._clock.now()
        if self._framing.codings:
            self._undo_transfer_codings()
        broken = None if self._head is None else self._build_response(now, cut or _TRUNCATED.get(reason, "unspecified"))
        self._disconnect(at_once=True)
        self._resolve_waiter(FailedRequest(reason, detail, broken, unanswered, errno))

    def _refuse_head(self, size: int) -> None:
        self._head = None
        self._fail_response(
            OutcomeReason.HEADERS_TOO_LARGE, f"at least {size} bytes, the limit is {self._limits.header}"
        )

    def _build_response(self, now: float, truncated: str) -> Response:
        body = self._body
        if len(body) > self._body_limit:
            body = body[: self._body_limit]
        times, head = (self._asked_at, self._answered_at, now), self._head or b""
        status, fields = self._fields.status, self._fields.headers
        return Response(status, head, bytes(body), self._request, self.address, *times, fields, truncated)

    def _undo_transfer_codings(self) -> DecodedBody:
        """Undo the transfer codings of the body, up to the limit on bodies."""
        unpacked = decode_body(bytes(self._body), ", ".join(self._framing.codings), limit=self._body_limit)
        self._body = unpacked.body
        self._framing = msgspec.structs.replace(self._framing, codings=())
        return unpacked

    def _resolve_waiter(self, answer: Response | FailedRequest) -> None:
        waiter, self._waiter = self._waiter, None
        self._body = b""
        if waiter is not None and not waiter.done():
            waiter.set_result(answer)

    def _disconnect(self, *, at_once: bool) -> None:
        if self._transport is None:
            return
        if at_once:
            discard_unsent_on_abort(self._transport)
            self._transport.abort()
        else:
            self._transport.close()


_NONE = headers.ResponseHead(0, ())
# WARC's names for the cause of an incomplete body.
_TRUNCATED = {
    OutcomeReason.TIMEOUT: "time",
    OutcomeReason.TOO_SLOW: "time",
    OutcomeReason.CONNECTION_CLOSED: "disconnect",
}

_NAME_MISMATCHES = frozenset({62, 64})  # OpenSSL's numbers: a host's name, an address
_NAMES = "only names in its subjectAltName count"


def create_tls_context(
    *, verify: bool = True, ca_file: Path | None = None, protocol: str = "http/1.1"
) -> ssl.SSLContext:
    """Return the context for all TLS connections: the system's authorities and those of `ca_file`.

    `protocol` is announced to servers (ALPN); "" announces none. Without `verify` any certificate is
    accepted; the pages are then only as trustworthy as the network.
    """
    context = ssl.create_default_context()
    ignore_common_names(context)
    if ca_file is not None:
        try:
            context.load_verify_locations(cafile=ca_file)
        except (OSError, ssl.SSLError) as error:
            raise UsageError(
                f"`{ca_file}` cannot be read as certificates: {error}",
                hint="give a PEM file that holds the certificates of the authorities to trust",
            ) from None
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if protocol:
        context.set_alpn_protocols([protocol])
    return context


def ignore_common_names(context: ssl.SSLContext) -> None:
    """Ignore the CN of a certificate's subject, as RFC 9110 (4.3.4) and browsers do.

    OpenSSL checks it if a certificate has no subjectAltName.
    """
    context.hostname_checks_common_name = False


def tls_error_text(error: ssl.SSLError) -> str:
    """Return why a handshake failed, in plain words."""
    if not isinstance(error, ssl.SSLCertVerificationError):
        return (error.reason or "TLS error").replace("_", " ").lower()
    why = (error.verify_message or "the certificate is not trusted").rstrip(".")
    return f"{why} ({_NAMES})" if error.verify_code in _NAME_MISMATCHES else why


_NO_PORT_YET = getattr(socket, "IP_BIND_ADDRESS_NO_PORT", None)


class SourceAddress:
    """Connector that binds sockets to one local address."""

    def __init__(self, address: str):
        self.address = address
        self._family = _family_of(address)

    def check_is_local(self) -> None:
        """Raise `FieldmouseError` if it is not an address of this machine."""
        with socket.socket(self._family, socket.SOCK_STREAM) as sock:
            try:
                sock.bind((self.address, 0))
            except OSError as error:
                reason = error.strerror or str(error)
                raise FieldmouseError(
                    f"cannot connect from {self.address} (`network.source`): {reason.lower()}",
                    "name an address that this machine has (`ip address` lists them), or leave it out",
                ) from None

    def has_same_family(self, address: str) -> bool:
        """Tell whether a server's address is of the same family."""
        return _family_of(address) is self._family

    async def connect(self, address: str, port: int) -> socket.socket:
        """Return a connected non-blocking socket; raises `OSError`."""
        loop, sock = asyncio.get_running_loop(), socket.socket(self._family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            if _NO_PORT_YET is not None:
                # The port is chosen at connect time, per server: otherwise all connections would share 28,000
                # ports, including those that ended within the last minute.
                sock.setsockopt(socket.IPPROTO_IP, _NO_PORT_YET, 1)
            sock.bind((self.address, 0))
            await loop.sock_connect(sock, (address, port))
        except OSError as error:
            sock.close()
            # From 127.0.0.1 there is no route to other machines, which Linux reports as an invalid argument.
            number = EADDRNOTAVAIL if error.errno == EINVAL else error.errno or EADDRNOTAVAIL
            raise OSError(number, os.strerror(number)) from error
        except BaseException:
            sock.close()
            raise
        return sock


def _family_of(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
