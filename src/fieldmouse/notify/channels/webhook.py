"""Channel that posts changes as JSON to a URL of the user.

The URL may be on a private network: the guard that keeps a crawl off such addresses is about links
written by strangers, and this URL is the user's. Redirects are not followed, since the data is meant
only for this URL. A 2xx response means that the notice has arrived; any other means another try.
"""

from __future__ import annotations

import asyncio
import socket
import ssl

from fieldmouse.aio import DaemonExecutor
from fieldmouse.clock import Clock
from fieldmouse.config.notify_section import NotifySection
from fieldmouse.errors import SettingsError
from fieldmouse.http.connection import Connection, ResponseLimits, tls_error_text
from fieldmouse.http.headers import parse_date, parse_seconds
from fieldmouse.notify.channel_interface import BatchingRules, ChangeBatch, Channel, FailedDelivery
from fieldmouse.policy.dns_and_header_options import check_header
from fieldmouse.types.outcome import Response
from fieldmouse.url import Url, host_of, hostname_of, path_of, port_of

LONGEST_ANSWER = 4 << 10
_LIMITS = ResponseLimits(header=16 << 10)


class WebhookChannel(Channel):
    name = "webhook"

    def __init__(
        self,
        url: Url,
        *,
        token: str,
        user_agent: str,
        settings: NotifySection,
        clock: Clock,
        tls: ssl.SSLContext | None,
    ):
        """`token` is sent as `Authorization: Bearer`, unless it is empty; `tls` is needed for https."""
        if not token.isascii():
            raise SettingsError("what `notify.webhook_token` names is not ASCII", "a token has letters and digits")
        check_header("User-Agent", user_agent)
        self._url, self._host, self._token, self._user_agent = url, host_of(url), token, user_agent
        self._timeout, self._clock, self._tls = settings.timeout, clock, tls
        self.mode = BatchingRules(max_changes=settings.batch)

    async def send(self, notice: ChangeBatch) -> FailedDelivery | None:
        try:
            async with asyncio.timeout(self._timeout):
                answer = await self._post(notice)
        except TimeoutError:
            return FailedDelivery(f"{self._host} did not answer within {self._timeout:g} s")
        except ssl.SSLError as trouble:
            return FailedDelivery(f"{self._host}: {tls_error_text(trouble)}")
        except OSError as trouble:
            return FailedDelivery(f"{self._host} cannot be reached: {(trouble.strerror or 'no connection').lower()}")
        if isinstance(answer, str):
            return FailedDelivery(f"{self._host}: {answer}")
        if 200 <= answer.status < 300:
            return None
        return FailedDelivery(f"{self._host} answered {answer.status}", self._retry_after_seconds(answer))

    async def _post(self, notice: ChangeBatch) -> Response | str:
        connection = await self._connect()
        try:
            answer = await connection.send(self._build_request(notice), LONGEST_ANSWER)
        finally:
            connection.abort()
        return answer if isinstance(answer, Response) else f"{answer.reason} ({answer.detail})"

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        name, port = hostname_of(self._host), port_of(self._host)
        # In a daemon thread: a silent nameserver must not delay the end of a run.
        addresses = await loop.run_in_executor(
            DaemonExecutor(), lambda: socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
        )
        trouble: OSError | None = None
        for *_, address in addresses:
            try:
                _, connection = await loop.create_connection(
                    lambda: Connection(self._host, name, _LIMITS, self._clock),
                    str(address[0]),
                    port,
                    ssl=self._tls,
                    server_hostname=name if self._tls else None,
                )
                return connection
            except ssl.SSLError:
                raise
            except OSError as refused:
                trouble = refused
        raise trouble or OSError()

    def _build_request(self, notice: ChangeBatch) -> bytes:
        body = notice.as_json(listed=self.mode.max_changes > 1)
        lines = [
            f"POST {path_of(self._url)} HTTP/1.1",
            f"Host: {self._host.partition('://')[2]}",
            f"User-Agent: {self._user_agent}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            f"Idempotency-Key: {notice.key}",
            "Accept-Encoding: identity",
            "Connection: close",
        ]
        if self._token:
            lines.append(f"Authorization: Bearer {self._token}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + body

    def _retry_after_seconds(self, answer: Response) -> float:
        asked, now = answer.header("retry-after"), self._clock.now()
        seconds = parse_seconds(asked)
        if seconds is None:
            seconds = (parse_date(asked, now) or now) - now
        return max(0.0, seconds)
