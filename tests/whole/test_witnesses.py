"""Network checks: witnesses are asked seldom, and no crawl waits long for the result.

In virtual time, with hosts that respond as the test says.
"""

from __future__ import annotations

import errno
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from fieldmouse.clock import Clock
from fieldmouse.fetch import outage
from fieldmouse.testing import virtual_time
from fieldmouse.types.outcome import Failed, Response
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.request import Request
from fieldmouse.url import Host, path_of

from .virtual_time import bottled_crawl, outcomes

Said = int | tuple[int, dict[str, str], str]
"""Error number of the connection; or status, headers and body."""


class Village:
    """Responds as `says` does, given the second, the host and the path; keeps a log of the requests."""

    def __init__(self, clock: Clock, says: Callable[[float, Host, str], Said]):
        self._clock, self._says = clock, says
        self.asked: list[tuple[float, Host, str, int | None]] = []

    async def fetch(
        self, link: Request, host: Host, address: str, *, body_limit: int | None = None
    ) -> Response | Failed:
        began, path = self._clock.now(), path_of(link.url)
        self.asked.append((began - virtual_time.EPOCH, host, path, body_limit))
        said = self._says(began - virtual_time.EPOCH, host, path)
        await self._clock.sleep(0.001 if isinstance(said, int) else 0.1)
        now = self._clock.now()
        if isinstance(said, int):
            return Failed(link, OutcomeReason.NO_CONNECTION, now, "gone", errno=said)
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


def crawl(path: Path, says: Callable[[float, Host, str], Said], seeds: list[Host], **changes: object) -> Village:
    _, village = bottled_crawl(
        path,
        lambda clock: Village(clock, says),
        [host + "/" for host in seeds],
        **{"scope__mode": "web", "politeness__delay": "1s", "network__allow_private": True, **changes},
    )
    return village


def place(number: int) -> Host:
    return Host(f"http://10.0.0.{number}")


def test_a_robots_txt_redirected_to_a_slow_host_keeps_its_crawl_delay(tmp_path: Path) -> None:
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


def test_unroutable_hosts_cost_others_neither_requests_nor_time(tmp_path: Path) -> None:
    good = [place(number) for number in range(1, 5)]
    far = [f"http://[2606:4700::{number:x}]/" for number in range(1, 401)]

    def says(second: float, host: Host, path: str) -> Said:
        if host not in good:
            return errno.ENETUNREACH
        if path == "/robots.txt":
            return text("User-agent: *\nCrawl-delay: 20\n")
        return page(*(far if host == good[0] else ()), *(f"/{number}" for number in range(100)))

    village = crawl(tmp_path / "c", says, good)
    rows = outcomes(tmp_path / "c")
    assert sum(row.kind == "page" for row in rows) == 4 * 101
    assert sum(row.reason == OutcomeReason.NO_CONNECTION.value for row in rows) == len(far)
    seconds = max(at for at, *_ in village.asked)
    for host in good:
        witnessed = village.times(host, "/robots.txt")
        assert all(b - a >= 60.0 for a, b in itertools.pairwise(witnessed))
        assert len(witnessed) < seconds / 100
        pages = [at for at in village.times(host) if at not in witnessed]
        assert len(pages) == 101
        assert pages[-1] < 1.2 * 20.0 * len(pages)


def test_a_witness_that_asked_for_an_hours_rest_is_not_waited_for(tmp_path: Path) -> None:
    busy, others = place(1), [place(number) for number in range(2, 8)]

    def says(second: float, host: Host, path: str) -> Said:
        if host != busy and second < 10.0:
            return errno.ECONNREFUSED
        if path == "/robots.txt":
            return text()
        if host == busy and path != "/" and second < 3600.0:
            return 429, {"retry-after": "3600"}, ""
        return page("/a", "/b")

    village = crawl(tmp_path / "c", says, [busy, *others])
    assert sum(row.kind == "page" for row in outcomes(tmp_path / "c")) == 3 * 7
    assert all(village.times(host)[-1] < 120.0 for host in others)
    told = village.times(busy, "/a")[0]
    assert not [at for at in village.times(busy) if told < at < told + 3600.0]


NAMES = [Host(f"http://{name}.one.test") for name in "abcdefg"]


@pytest.mark.parametrize("back", [600.0, float("inf")], ids=["for ten minutes", "for good"])
def test_many_names_at_one_dead_address_are_no_outage(tmp_path: Path, back: float) -> None:
    def says(second: float, host: Host, path: str) -> Said:
        if 20.0 < second < back:
            return errno.ECONNREFUSED
        return text() if path == "/robots.txt" else page("/a", "/b", "/c")

    village = crawl(tmp_path / "c", says, NAMES, network__resolve=["*.one.test=10.0.0.1"])
    rows = outcomes(tmp_path / "c")
    pages = sum(row.kind == "page" for row in rows)
    assert max(at for at, *_ in village.asked) < 2 * 3600.0
    if back < 3600.0:
        assert pages == 4 * len(NAMES)
    else:
        assert 0 < pages < 4 * len(NAMES)
        assert {row.reason for row in rows if row.kind != "page"} <= {
            OutcomeReason.NO_CONNECTION.value,
            OutcomeReason.HOST_ABANDONED.value,
        }


def test_refused_connections_alone_count_as_an_outage_for_hours_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outage, "MAX_SILENT_OUTAGE", 1000.0)  # six hours take the test too long
    hosts = [place(number) for number in range(1, 8)]

    def says(second: float, host: Host, path: str) -> Said:
        if second > 3.0:
            return errno.ECONNREFUSED
        return text() if path == "/robots.txt" else page("/a", "/b", "/c")

    village = crawl(tmp_path / "c", says, hosts)
    assert 1000.0 < max(at for at, *_ in village.asked) < 3000.0


def test_an_outage_ends_with_a_host_that_was_never_a_witness(tmp_path: Path) -> None:
    dying, late = [place(number) for number in range(1, 8)], place(9)

    def says(second: float, host: Host, path: str) -> Said:
        if host == late:
            return errno.ECONNREFUSED if second < 100.0 else text() if path == "/robots.txt" else page()
        if second > 3.0:
            return errno.ECONNREFUSED
        if path == "/robots.txt":
            return text()
        return page("/a", "/b", late + "/") if second > 2.0 else page("/a", "/b", "/c")

    village = crawl(tmp_path / "c", says, dying)
    assert 100.0 < village.times(late)[-1] < 1000.0
    assert max(at for at, *_ in village.asked) < 3600.0
