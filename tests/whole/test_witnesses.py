"""Whoever is asked whether the network is there is asked seldom, and nobody waits long for the answer.

In virtual time, in a village of hosts that say what a test makes them say.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

from fieldmouse.clock import Clock
from fieldmouse.lab import bottle
from fieldmouse.records import Failed, Link, Reason, Response
from fieldmouse.url import Host, path_of

from .bottled import bottled_crawl, outcomes

Said = int | tuple[int, dict[str, str], str]
"""The number of what went wrong with the connection; or status, headers and body."""


class Village:
    """Answers as `says` does, given the second, the host and the path; keeps a log of what was asked."""

    def __init__(self, clock: Clock, says: Callable[[float, Host, str], Said]):
        self._clock, self._says = clock, says
        self.asked: list[tuple[float, Host, str, int | None]] = []

    async def fetch(
        self, link: Link, host: Host, address: str, *, body_limit: int | None = None
    ) -> Response | Failed:
        began, path = self._clock.now(), path_of(link.url)
        self.asked.append((began - bottle.EPOCH, host, path, body_limit))
        said = self._says(began - bottle.EPOCH, host, path)
        await self._clock.sleep(0.001 if isinstance(said, int) else 0.1)
        now = self._clock.now()
        if isinstance(said, int):
            return Failed(link, Reason.NO_CONNECTION, now, "gone", errno=said)
        status, headers, body = said
        lines = [f"HTTP/1.1 {status} So", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        head = "\r\n".join(lines).encode()
        return Response(status, head, body.encode(), b"", address, began, now, now, tuple(headers.items()))

    async def close(self) -> None:
        """Nothing is open."""

    def times(self, host: Host, path: str = "") -> list[float]:
        return [at for at, whom, what, _ in self.asked if whom == host and (not path or what == path)]


def page(*links: str) -> Said:
    body = "".join(f'<a href="{link}">{link}</a> ' for link in links)
    return 200, {"content-type": "text/html"}, f"<title>A page</title>{body}"


def text(body: str = "") -> Said:
    return 200, {"content-type": "text/plain"}, body


def crawl(
    path: Path, says: Callable[[float, Host, str], Said], seeds: list[Host], **changes: object
) -> Village:
    _, village = bottled_crawl(
        path, lambda clock: Village(clock, says), [host + "/" for host in seeds],
        **{"politeness__delay": "1s", "network__allow_private": True, **changes},
    )  # fmt: skip
    return village


def place(number: int) -> Host:
    return Host(f"http://10.0.0.{number}")


def test_a_robots_txt_that_was_moved_to_a_slow_host_keeps_that_hosts_pauses(tmp_path: Path) -> None:
    slow, others = place(1), [place(number) for number in range(2, 8)]

    def says(second: float, host: Host, path: str) -> Said:
        if path == "/robots.txt":
            moved = (301, {"location": slow + "/robots.txt"}, "")
            return text("User-agent: *\nCrawl-delay: 10\n") if host == slow else moved
        return page(*(f"/{number}" for number in range(4)))

    village = crawl(tmp_path / "c", says, [slow, *others])
    times = village.times(slow)
    assert len(times) >= 5 + len(others)
    assert min(b - a for a, b in itertools.pairwise(times)) >= 10.0
    assert sum(row.kind == "page" for row in outcomes(tmp_path / "c")) == 5 * 7
