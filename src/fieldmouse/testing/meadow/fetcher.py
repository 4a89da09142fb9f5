"""In-process `Fetcher` for the synthetic web, without sockets and in the clock's time.

It serves crawls in virtual time. Content, errors, delays and the arrival log are those of the server.
"""

from __future__ import annotations

from fieldmouse.clock import Clock
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.responder import MeadowRequest, MeadowResponse
from fieldmouse.testing.meadow.server import Arrival
from fieldmouse.types.outcome import Failed, Response
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.request import Request
from fieldmouse.url import Host, path_of


class MeadowFetcher:
    """Fetcher that reads from a `Meadow` in the same process. `arrivals` grows with every request."""

    def __init__(
        self,
        meadow: Meadow,
        clock: Clock,
        *,
        user_agent: str = "fieldmouse",
        patience: float = 20.0,
        source: str = "127.0.0.1",
    ):
        self.arrivals: list[Arrival] = []
        self._meadow = meadow
        self._clock = clock
        self._user_agent = user_agent
        self._patience = patience  # timeout in seconds
        self._source = source  # the client address the meadow sees
        self._answering: dict[str, int] = {}

    async def fetch(
        self, link: Request, host: Host, address: str, *, body_limit: int | None = None
    ) -> Response | Failed:
        site = self._meadow.site_of_host(host)
        if site is None or site.address != address:
            return Failed(link, OutcomeReason.NO_CONNECTION, self._clock.now(), f"no such host at {address}")
        path = path_of(link.url)
        started_at = self._clock.now()
        busy = self._answering.get(address, 0)
        self.arrivals.append(Arrival(started_at, site.authority, address, path, busy, self._user_agent, self._source))
        self._answering[address] = busy + 1
        try:
            ask = MeadowRequest(path, "gzip, br, zstd", link.etag, link.last_modified, self._source)
            answer = self._meadow.responder.respond(site, ask, started_at)
            if answer.stall or answer.delay > self._patience:
                await self._clock.sleep(self._patience)
                return Failed(link, OutcomeReason.TIMEOUT, self._clock.now(), f"no answer in {self._patience:g} s")
            await self._clock.sleep(answer.delay)
            answered_at = self._clock.now()
            if answer.drip:
                await self._clock.sleep(answer.drip)
        finally:
            self._answering[address] -= 1
        head = _response_head(answer)
        return Response(
            status=answer.status,
            head=head,
            body=answer.body[:body_limit],
            request=self._request_head(link, site.authority, path),
            address=address,
            started_at=started_at,
            answered_at=answered_at,
            ended_at=self._clock.now(),
            headers=_parse_headers(head),
            truncated="length" if len(answer.body[:body_limit]) < len(answer.body) else "",
        )

    async def close(self) -> None:
        """Do nothing: nothing is open."""

    def _request_head(self, link: Request, authority: str, path: str) -> bytes:
        lines = [f"GET {path} HTTP/1.1", f"Host: {authority}", f"User-Agent: {self._user_agent}"]
        lines.append("Accept-Encoding: gzip, br, zstd")
        if link.etag:
            lines.append(f"If-None-Match: {link.etag}")
        if link.last_modified:
            lines.append(f"If-Modified-Since: {link.last_modified}")
        return "\r\n".join([*lines, "", ""]).encode()


def _response_head(answer: MeadowResponse) -> bytes:
    return b"HTTP/1.1 %d Meadow\r\n%sContent-Length: %d\r\n\r\n" % (answer.status, answer.headers, len(answer.body))


def _parse_headers(head: bytes) -> tuple[tuple[str, str], ...]:
    lines = head.decode("latin-1").split("\r\n")[1:-2]
    pairs = (line.partition(": ") for line in lines)
    return tuple((name.lower(), value) for name, _, value in pairs)
