"""Site in versions without a network: the test sets the content of each page."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha1

from fieldmouse.clock import Clock
from fieldmouse.types.outcome import Failed, Response
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.request import Request
from fieldmouse.url import Host, path_of

HOST = "http://example.org"


@dataclass
class Shown:
    """One page as the server has it."""

    text: str = "old"
    status: int = 200
    links: tuple[str, ...] = ()
    location: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    silent: bool = False  # no answer at all
    head: str = ""  # HTML


@dataclass
class Versions:
    """All pages by path, robots.txt, and every request that was made."""

    pages: dict[str, Shown] = field(default_factory=dict)
    robots_txt: str = ""
    validators: bool = True
    down_until: float = 0.0  # the server refuses connections
    asked: list[tuple[float, str, int]] = field(default_factory=list)  # when, path, status

    def times(self, path: str) -> int:
        return sum(1 for _, asked, _ in self.asked if asked == path)


class ChangingSite:
    """`Fetcher` of one host. With validators it answers 304 if the request describes the newest copy."""

    def __init__(self, clock: Clock, now: Versions):
        self._clock, self.now = clock, now

    async def fetch(
        self, link: Request, host: Host, address: str, *, body_limit: int | None = None
    ) -> Response | Failed:
        at = self._clock.now()
        await self._clock.sleep(0.01)
        path = path_of(link.url)
        if at < self.now.down_until:
            self.now.asked.append((at, path, 0))
            return Failed(link, OutcomeReason.NO_CONNECTION, self._clock.now(), "connection refused")
        shown = self.now.pages.get(path, Shown(status=404, text="none"))
        if path == "/robots.txt":
            shown = Shown(text=self.now.robots_txt, headers=(("cache-control", "max-age=60"),))
        if shown.silent:
            self.now.asked.append((at, path, 0))
            return Failed(link, OutcomeReason.TIMEOUT, self._clock.now(), "silence")
        body = shown.text.encode()
        kind = "text/plain"
        if path != "/robots.txt":
            kind = "text/html"
            links = "".join(f'<a href="{to}">n</a>' for to in shown.links)
            words = " ".join(f"{shown.text}{word}" for word in range(40))
            title = f"<title>{shown.text} {path}</title>"
            body = f"{title}{shown.head}<p>{shown.text} {words} mouse {path}</p>{links}".encode()
        etag = f'"{sha1(body).hexdigest()}"'
        status, headers = shown.status, [("content-type", kind), *shown.headers]
        if shown.location:
            headers.append(("location", shown.location))
        if status == 200 and self.now.validators:
            headers.append(("etag", etag))
            if link.etag == etag:
                status, body = 304, b""
        headers.append(("content-length", str(len(body))))
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
        self.now.asked.append((at, path, status))
        ended = self._clock.now()
        return Response(
            status,
            f"HTTP/1.1 {status} X\r\n{lines}\r\n".encode(),
            body,
            b"GET / HTTP/1.1\r\n\r\n",
            address,
            at,
            ended,
            ended,
            tuple(headers),
        )

    async def close(self) -> None:
        pass
