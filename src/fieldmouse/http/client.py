"""HTTP fetcher: one GET of one URL from one given address.

`fetch` returns a `Response` or a `Failed` and raises nothing for errors of servers. It connects to the
given address and resolves nothing itself: the SSRF guard has checked that address, and a second look-up
could return another one. The URL's host is still used for the request, the SNI and the certificate check.

Responses that exceed a limit: - a body longer than the limit is cut: a `Response` with
`truncated="length"`; - a body not complete after `ResponseLimits.total` is cut: `truncated="time"`; - silence,
too low a speed, a lost connection or invalid HTTP: `Failed`, whose `response` has the data received, if
the head was complete: `truncated` is "time", "disconnect" or "unspecified".

There is one connection per address: after a response it may be kept for a few seconds for the same host,
and it is closed before another host at that address is visited. Requests are stored with secret headers
blanked.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from errno import EMFILE, ENETUNREACH, ENFILE
from functools import partial
from typing import Any, Protocol

from msgspec.structs import replace

from fieldmouse.clock import Clock
from fieldmouse.errors import UsageError
from fieldmouse.http.connection import (
    Connection,
    FailedRequest,
    ResponseLimits,
    SourceAddress,
    create_tls_context,
    tls_error_text,
)
from fieldmouse.policy.dns_and_header_options import check_headers, redact_headers
from fieldmouse.types.outcome import Failed, Response
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.request import Request
from fieldmouse.url import Host, hostname_of, path_of, port_of


@dataclass(frozen=True, slots=True)
class SentAndStoredHeaders:
    """Header lines as sent, and as stored in the archive."""

    sent: bytes
    stored: bytes

    @classmethod
    def encode(cls, headers: Mapping[str, str], shown: Mapping[str, str]) -> SentAndStoredHeaders:
        """Encode `headers` to send and `shown` for the archive; characters outside latin-1 become `?`."""
        return cls(_encode_header_lines(headers), _encode_header_lines(shown))


def _encode_header_lines(headers: Mapping[str, str]) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("latin-1", "replace")


#: Signs a request to a host: returns header lines, None for none, or the reason not to send it.
RequestSigner = Callable[[Request, Host], Awaitable[SentAndStoredHeaders | str | None]]


ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


class Fetcher(Protocol):
    """Interface between fetch workers and the web, real or synthetic."""

    async def fetch(
        self, link: Request, host: Host, address: str, *, body_limit: int | None = None
    ) -> Response | Failed:
        """Send a GET of `link` to `address`; `body_limit` lowers the limit on its body."""
        ...

    async def close(self) -> None: ...


class HttpFetcher:
    """Fetcher for HTTP/1.1 over sockets."""

    def __init__(
        self,
        *,
        user_agent: str,
        clock: Clock,
        limits: ResponseLimits | None = None,
        contact: str = "",
        port: Callable[[str], int | None] | None = None,
        tls: ssl.SSLContext | None = None,
        keep_alive: float = 5.0,
        idle_connections: int = 256,
        most_connections: int = sys.maxsize,
        headers: Mapping[str, str] | None = None,
        sign: RequestSigner | None = None,
        source: SourceAddress | None = None,
        may_ask: Callable[[], bool] | None = None,
        keep_secrets: bool = False,
    ):
        """`contact` is sent as `From` if it contains an @; `port` returns the port that the user mapped a
        name to.

        Beyond `most_connections` a fetch fails as without descriptors (`EMFILE`). If `may_ask` returns
        False, a request is not sent, and the fetch fails as without a network. Secret ones of `headers`
        (`policy.request_headers`) are blanked in the requests stored with responses, unless `keep_secrets`.
        """
        self._limits, self._clock, self._port, self._tls = limits or ResponseLimits(), clock, port, tls
        self._keep_alive, self._idle_connections = keep_alive, idle_connections
        self._most_connections = most_connections
        self._common_headers = _build_headers(user_agent, contact, headers or {}, keep=keep_secrets)
        self._sign, self._source, self._may_ask = sign, source, may_ask
        self._idle: dict[str, Connection] = {}  # by address, oldest first
        self._busy: set[Connection] = set()
        self._connecting: dict[asyncio.Task[Connection], float] = {}  # with their deadlines
        self._tick: asyncio.TimerHandle | None = None

    async def fetch(
        self, link: Request, host: Host, address: str, *, body_limit: int | None = None
    ) -> Response | Failed:
        limit = self._limits.body if body_limit is None else min(body_limit, self._limits.body)
        signature = await self._sign(link, host) if self._sign is not None else None
        if isinstance(signature, str):
            return Failed(link, OutcomeReason.NOT_SIGNED, self._clock.now(), signature)
        lines = self._common_headers
        if signature is not None:
            lines = SentAndStoredHeaders(signature.sent + lines.sent, signature.stored + lines.stored)
        answer = await self._fetch_reusing_connection(
            link, host, address, self._encode_request(link, host, lines.sent), limit
        )
        response = answer if isinstance(answer, Response) else answer.response
        if lines.sent == lines.stored or response is None:
            return answer
        response = replace(response, request=self._encode_request(link, host, lines.stored))
        return response if isinstance(answer, Response) else replace(answer, response=response)

    async def _fetch_reusing_connection(
        self, link: Request, host: Host, address: str, request: bytes, limit: int
    ) -> Response | Failed:
        connection = self._idle.pop(address, None)
        if connection is not None:
            if connection.host == host and connection.has_no_unread_data():
                answer = await self._exchange(connection, request, limit)
                if isinstance(answer, Response):
                    return answer
                if not answer.unanswered:
                    return self._as_failed(link, answer)
                # The server closed an idle connection: that is not a failure of the page.
            else:
                connection.close()
        fresh = await self._connect(host, address)
        if isinstance(fresh, FailedRequest):
            return self._as_failed(link, fresh)
        answer = await self._exchange(fresh, request, limit)
        return answer if isinstance(answer, Response) else self._as_failed(link, answer)

    async def close(self) -> None:
        """Close every connection; running fetches return `Failed`."""
        for task in self._connecting:
            task.cancel()
        self._close_all_idle()
        for connection in self._busy:
            connection.abort()
        if self._tick is not None:
            self._tick.cancel()
            self._tick = None
        await asyncio.sleep(0)  # let the transports run

    async def _exchange(self, connection: Connection, request: bytes, limit: int) -> Response | FailedRequest:
        if self._may_ask is not None and not self._may_ask():
            connection.close()
            return FailedRequest(OutcomeReason.NO_CONNECTION, "our lease is over", errno=ENETUNREACH)
        self._busy.add(connection)
        if self._tick is None:
            self._start_ticking()
        try:
            answer = await connection.send(request, limit)
        except asyncio.CancelledError:
            connection.abort()
            raise
        finally:
            self._busy.discard(connection)
        if connection.reusable:
            self._keep_idle(connection)
        return answer

    def _keep_idle(self, connection: Connection) -> None:
        if self._keep_alive <= 0 or self._idle_connections <= 0:
            connection.close()
            return
        former = self._idle.pop(connection.address, None)
        if former is not None:
            former.close()
        if len(self._idle) >= self._idle_connections:
            self._idle.pop(next(iter(self._idle))).close()
        self._idle[connection.address] = connection

    def _close_all_idle(self) -> None:
        for connection in self._idle.values():
            connection.close()
        self._idle.clear()

    async def _connect(self, host: Host, address: str) -> Connection | FailedRequest:
        if len(self._busy) + len(self._connecting) + len(self._idle) >= self._most_connections:
            self._close_all_idle()
            if len(self._busy) + len(self._connecting) >= self._most_connections:
                return FailedRequest(
                    OutcomeReason.NO_CONNECTION, "the limit on our connections is reached", errno=EMFILE
                )
        task = asyncio.get_running_loop().create_task(self._open_connection(host, address))
        self._connecting[task] = self._clock.now() + self._limits.connect
        if self._tick is None:
            self._start_ticking()
        try:
            return await task
        except asyncio.CancelledError:
            if _is_fetch_cancelled():
                task.add_done_callback(_abort_when_connected)
                task.cancel()
                raise
            return FailedRequest(OutcomeReason.NO_CONNECTION, f"no connection within {self._limits.connect:g} s")
        except ssl.SSLError as error:
            return FailedRequest(OutcomeReason.TLS, tls_error_text(error))
        except ValueError as error:  # a name that no certificate can have, such as `.example`
            return FailedRequest(OutcomeReason.TLS, str(error))
        except OSError as error:
            number = error.errno or 0
            if number in (EMFILE, ENFILE):
                self._close_all_idle()
            return FailedRequest(OutcomeReason.NO_CONNECTION, (error.strerror or str(error)).lower(), errno=number)
        finally:
            del self._connecting[task]

    async def _open_connection(self, host: Host, address: str) -> Connection:
        name = hostname_of(host)
        port = self._port(name) if self._port is not None else None
        port = port_of(host) if port is None else port
        secured: dict[str, Any] = {}
        if host.startswith("https"):
            self._tls = self._tls or create_tls_context()
            secured = {
                "ssl": self._tls,
                "server_hostname": name,
                "ssl_handshake_timeout": self._limits.connect,
                "ssl_shutdown_timeout": 2.0,
            }
        loop = asyncio.get_running_loop()
        make = partial(Connection, host, address, self._limits, self._clock)
        if self._source is not None and self._source.has_same_family(address):
            sock = await self._source.connect(address, port)
            _, connection = await loop.create_connection(make, sock=sock, **secured)
        else:
            _, connection = await loop.create_connection(make, address, port, **secured)
        return connection

    def _start_ticking(self) -> None:
        self._tick = asyncio.get_running_loop().call_later(self._limits.tick, self._enforce_time_limits)

    def _enforce_time_limits(self) -> None:
        """Enforce the time limits once a tick: connecting, responding, idle."""
        now = self._clock.now()
        for task, due_at in self._connecting.items():
            if now > due_at:
                task.cancel()
        for connection in tuple(self._busy):
            connection.enforce_limits(now)
        for address, connection in tuple(self._idle.items()):
            if not connection.reusable or now - connection.idle_since > self._keep_alive:
                connection.close()
                del self._idle[address]
        self._tick = None
        if self._busy or self._connecting or self._idle:
            self._start_ticking()

    def _encode_request(self, link: Request, host: Host, lines: bytes) -> bytes:
        url = link.url
        ask = f"GET {path_of(url)} HTTP/1.1\r\nHost: {host[host.index('/') + 2 :]}\r\n"
        if link.etag or link.last_modified:
            ask += _header_line("If-None-Match", link.etag) + _header_line("If-Modified-Since", link.last_modified)
        return ask.encode("latin-1", "replace") + lines + b"\r\n"

    def _as_failed(self, link: Request, trouble: FailedRequest) -> Failed:
        return Failed(link, trouble.reason, self._clock.now(), trouble.detail, trouble.response, errno=trouble.errno)


def _is_fetch_cancelled() -> bool:
    """Tell whether the whole fetch is cancelled, and not only its attempt to connect."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _abort_when_connected(task: asyncio.Task[Connection]) -> None:
    if not task.cancelled() and task.exception() is None:
        task.result().abort()


def _header_line(name: str, value: str) -> str:
    """Return a header line, or "" if the value is empty or would begin another line."""
    return f"{name}: {value}\r\n" if value and value.isprintable() else ""


def _build_headers(user_agent: str, contact: str, extra: Mapping[str, str], *, keep: bool) -> SentAndStoredHeaders:
    """Return the header lines of every request."""
    headers = {
        "User-Agent": user_agent,
        "From": contact if "@" in contact else "",
        "Accept": ACCEPT,
        # We can decode br and zstd too, but bodies are archived as received, and other tools cannot (0005).
        "Accept-Encoding": "gzip",
        "Connection": "keep-alive",
    }
    check_headers(extra)
    for name, value in extra.items():
        headers = {existing: text for existing, text in headers.items() if existing.lower() != name.lower()}
        headers[name] = value
    if not user_agent.isprintable():
        raise UsageError("the user agent must be one line of text")
    sendable = {name: value for name, value in headers.items() if value and value.isprintable()}
    return SentAndStoredHeaders.encode(sendable, sendable if keep else redact_headers(sendable))
