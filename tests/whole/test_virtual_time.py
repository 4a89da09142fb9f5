"""Hours of crawling in virtual time: real stages, checked against the synthetic web."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

from fieldmouse.clock import Clock
from fieldmouse.testing import virtual_time
from fieldmouse.testing.meadow.fetcher import MeadowFetcher
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.testing.meadow.server import Arrival
from fieldmouse.types.outcome import Failed, Response
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.request import Request
from fieldmouse.url import Host, path_of

from .crawling import check_warcs
from .virtual_time import bottled_crawl, outcomes

DELAY = 10.0
TROUBLED = MeadowOptions(
    hosts=10,
    pages=200,
    seed=6,
    page_kb=4.0,
    links=30,
    latency=0.3,
    robots=1.0,
    crawl_delay_share=0.5,
    crawl_delay=25.0,
    busy=0.5,
    busy_seconds=120,
    stalling=0.3,
    server_error=0.1,
    broken=0.1,
)
ROUNDING = 1e-6  # precision of epoch seconds


def by_host(arrivals: Iterable[Arrival]) -> dict[str, list[Arrival]]:
    hosts: dict[str, list[Arrival]] = defaultdict(list)
    for arrival in arrivals:
        hosts[arrival.host].append(arrival)
    return hosts


def gaps(arrivals: list[Arrival]) -> list[float]:
    return [later.t - sooner.t for sooner, later in itertools.pairwise(arrivals)]


def check_politeness(meadow: Meadow, arrivals: list[Arrival]) -> None:
    assert not any(arrival.busy for arrival in arrivals), "two requests overlap at one address"
    habits = {site.authority: site.habits for site in meadow.plan.sites}
    for host, visits in by_host(arrivals).items():
        wanted = max(DELAY, habits[host].crawl_delay)
        assert min(gaps(visits)) >= wanted - ROUNDING, host
        if habits[host].busy:
            # The first request for a page was answered with 429 and a Retry-After.
            asked = [visit for visit in visits if visit.path != "/robots.txt"]
            assert asked[1].t - asked[0].t >= meadow.options.busy_seconds - ROUNDING, host


@pytest.fixture(scope="module")
def afternoon(tmp_path_factory: pytest.TempPathFactory) -> tuple[Meadow, MeadowFetcher, Path]:
    """One crawl of a meadow with all its failures, ten seconds between two requests to a host."""
    meadow = Meadow(TROUBLED)
    path = tmp_path_factory.mktemp("bottle") / "c"
    summary, web = bottled_crawl(
        path,
        lambda clock: MeadowFetcher(meadow, clock),
        meadow.seeds,
        politeness__delay=f"{DELAY:g}s",
        network__allow_private=True,
    )
    assert summary.exit == summary.lost == summary.waiting == 0
    assert summary.seconds > 3600.0
    return meadow, web, path


def test_every_host_gets_its_delays_through_hours_of_failures(afternoon: tuple[Meadow, MeadowFetcher, Path]) -> None:
    meadow, web, _ = afternoon
    habits = [site.habits for site in meadow.plan.sites]
    assert any(habit.crawl_delay for habit in habits)
    assert any(habit.busy for habit in habits)
    check_politeness(meadow, web.arrivals)


def test_every_allowed_url_is_requested_and_every_page_stored(afternoon: tuple[Meadow, MeadowFetcher, Path]) -> None:
    meadow, web, path = afternoon
    truth = {fact.url: fact for fact in meadow.true_urls()}
    asked = {f"http://{a.host}{a.path}" for a in web.arrivals if a.path != "/robots.txt"}
    assert asked == {url for url, fact in truth.items() if fact.allowed}
    rows = outcomes(path)
    assert len({row.url for row in rows}) == len(rows)
    stored = {row.url for row in rows if row.kind == "page"}
    assert stored == {url for url, fact in truth.items() if fact.allowed and fact.status == 200}
    for row in rows:
        match truth[row.url].status:
            case _ if not truth[row.url].allowed:
                assert row.reason == OutcomeReason.ROBOTS_TXT_EXCLUDED.value
            case 0:
                assert row.reason == OutcomeReason.TIMEOUT.value
            case 404:
                assert row.reason == OutcomeReason.CLIENT_ERROR.value
            case 500:
                assert row.reason == OutcomeReason.SERVER_ERROR.value
    check_warcs(path)


def test_each_failure_is_retried_as_its_rule_says_and_nothing_else(
    afternoon: tuple[Meadow, MeadowFetcher, Path],
) -> None:
    meadow, web, _ = afternoon
    status = {fact.url: fact.status for fact in meadow.true_urls()}
    visits: dict[str, list[float]] = defaultdict(list)
    for arrival in web.arrivals:
        visits[f"http://{arrival.host}{arrival.path}"].append(arrival.t)
    busy = {site.origin for site in meadow.plan.sites if site.habits.busy}
    spared = {  # what a busy host was first asked for
        min((t[0], url) for url, t in visits.items() if url.startswith(origin + "/") and "robots" not in url)[1]
        for origin in busy
    }
    again: Counter[int] = Counter()
    for url, times in visits.items():
        if url.endswith("/robots.txt"):
            assert len(times) == 1, url
            continue
        tries = len(times) - (url in spared)
        match status[url]:
            case 0 | 500:
                assert tries == 3, url
            case 200:
                assert tries in (1, 2), url  # some fail when first asked
            case _:
                assert tries == 1, url
        again[status[url]] += tries > 1
        if status[url] == 0 and url not in spared:
            # Twenty seconds of silence, then ten to wait; twenty more, then two minutes.
            assert times[1] - times[0] >= 30.0 - ROUNDING
            assert times[2] - times[1] >= 140.0 - ROUNDING
    assert min(again[0], again[500], again[200]) > 0


def test_a_resumed_crawl_is_as_polite_and_complete(tmp_path: Path) -> None:
    options = MeadowOptions(
        hosts=8,
        pages=60,
        seed=3,
        page_kb=2.0,
        links=20,
        robots=1.0,
        crawl_delay_share=0.5,
        crawl_delay=25.0,
        busy=0.6,
        busy_seconds=300,
    )
    meadow = Meadow(options)
    arrivals: list[Arrival] = []
    now = virtual_time.EPOCH
    ends = []
    for seconds in (47, 31, 160, 0):
        summary, web = bottled_crawl(
            tmp_path / "c",
            lambda clock: MeadowFetcher(meadow, clock),
            meadow.seeds,
            epoch=now,
            politeness__delay=f"{DELAY:g}s",
            network__allow_private=True,
            crawl__time=f"{seconds}s",
        )
        arrivals += web.arrivals
        ends.append((summary.exit, summary.lost))
        now += summary.seconds
    assert ends == [(3, 0), (3, 0), (3, 0), (0, 0)]
    check_politeness(meadow, arrivals)
    stored = [row.url for row in outcomes(tmp_path / "c") if row.kind == "page"]
    assert sorted(stored) == sorted(f.url for f in meadow.true_urls() if f.allowed and f.status == 200)


def test_two_crawls_of_one_meadow_are_identical(tmp_path: Path) -> None:
    meadow_options = MeadowOptions(hosts=6, pages=30, seed=1, page_kb=2.0, links=20)

    def log(name: str) -> list[Arrival]:
        meadow = Meadow(meadow_options)
        _, web = bottled_crawl(
            tmp_path / name,
            lambda clock: MeadowFetcher(meadow, clock),
            meadow.seeds,
            politeness__delay="5s",
            network__allow_private=True,
        )
        return web.arrivals

    assert log("a") == log("b")


class Stumbling(MeadowFetcher):
    """A fetcher with a bug."""

    async def fetch(
        self, link: Request, host: Host, address: str, *, body_limit: int | None = None
    ) -> Response | Failed:
        if link.url.endswith(("-3.html", "-7.html")):
            raise KeyError("our own mistake")
        return await super().fetch(link, host, address, body_limit=body_limit)


def test_our_own_bugs_cost_only_the_current_page(tmp_path: Path) -> None:
    meadow = Meadow(MeadowOptions(hosts=3, pages=120, seed=2, page_kb=2.0, links=20, gamma=0.5))
    summary, _ = bottled_crawl(
        tmp_path / "c",
        lambda clock: Stumbling(meadow, clock),
        meadow.seeds,
        politeness__delay="0s",
        network__allow_private=True,
    )
    rows = {row.url: row for row in outcomes(tmp_path / "c")}
    crashed = {url for url, row in rows.items() if row.reason == OutcomeReason.CRASHED.value}
    assert crashed == {url for url in rows if url.endswith(("-3.html", "-7.html"))} != set()
    assert {rows[url].detail for url in crashed} == {"KeyError: 'our own mistake'"}
    assert summary.exit == summary.lost == summary.waiting == 0
    assert summary.seen == len(rows)
    assert sum(row.kind == "page" for row in rows.values()) > 80


class Pointer:
    """A public site with one page, whose links all redirect to private places.

    Its robots.txt redirects to one, too.
    """

    def __init__(self, clock: Clock, targets: list[str]):
        self._clock, self._targets = clock, targets
        self.asked: list[tuple[str, str]] = []

    async def fetch(
        self, link: Request, host: Host, address: str, *, body_limit: int | None = None
    ) -> Response | Failed:
        self.asked.append((host, address))
        await self._clock.sleep(0.1)
        path, now = path_of(link.url), self._clock.now()
        body, headers, status = b"", (("content-type", "text/html"),), 200
        if path == "/robots.txt":
            status, headers = 302, (("location", "http://127.0.0.1/robots.txt"),)
        elif path == "/":
            body = "".join(f'<a href="/to/{n}">x</a>' for n in range(len(self._targets))).encode()
        else:
            status = 302
            headers = (*headers, ("location", self._targets[int(path.rpartition("/")[2])]))
        head = "".join(f"{name}: {value}\r\n" for name, value in headers)
        head = f"HTTP/1.1 {status} OK\r\n{head}\r\n"
        return Response(
            status, head.encode("latin-1"), body, b"GET / HTTP/1.1\r\n\r\n", address, now, now, now, headers
        )

    async def close(self) -> None: ...


FORBIDDEN = {
    "http://127.0.0.1/admin": "127.0.0.1 is loopback",
    "http://2130706433/admin?number": "127.0.0.1 is loopback",
    "http://0x7f000001/admin?hex": "127.0.0.1 is loopback",
    "http://0177.0.0.01/admin?octal": "127.0.0.1 is loopback",
    "http://127.1/admin?short": "127.0.0.1 is loopback",
    "http://localhost/admin": "127.0.0.1 is loopback",
    "http://[::1]/admin": "::1 is loopback",
    "http://[::ffff:7f00:1]/admin": "::ffff:7f00:1 is loopback",
    "http://169.254.169.254/latest/meta-data/": "169.254.169.254 is cloud metadata",
    "http://10.1.2.3/": "10.1.2.3 is private",
    "http://192.168.0.1/": "192.168.0.1 is private",
    "http://0.0.0.0/": "0.0.0.0 is this network",
    "http://inside.mouse.test/": "10.9.8.7 is private",
}


def test_a_public_site_cannot_redirect_to_a_private_address(tmp_path: Path) -> None:
    """Server-side request forgery: the resolved address is judged, whatever its spelling."""
    _, web = bottled_crawl(
        tmp_path / "c",
        lambda clock: Pointer(clock, list(FORBIDDEN)),
        ["http://mouse.test/"],
        scope__mode="web",
        politeness__delay="0s",
        network__resolve=["mouse.test=93.184.216.34", "inside.mouse.test=10.9.8.7"],
    )
    assert {address for _, address in web.asked} == {"93.184.216.34"}
    rows = outcomes(tmp_path / "c")
    assert Counter(row.kind for row in rows) == {"page": 1, "moved": len(FORBIDDEN), "refused": len(FORBIDDEN)}
    refused = [row for row in rows if row.kind == "refused"]
    assert {row.reason for row in refused} == {OutcomeReason.PRIVATE_ADDRESS.value}
    assert Counter(row.detail for row in refused) == Counter(FORBIDDEN.values())


def test_a_host_is_not_abandoned_for_repeatedly_silent_pages(tmp_path: Path) -> None:
    """When only such pages are left, their second and third tries come in a row."""
    meadow = Meadow(MeadowOptions(hosts=1, pages=120, seed=4, page_kb=2.0, links=20, stalling=1.0))
    bottled_crawl(
        tmp_path / "c",
        lambda clock: MeadowFetcher(meadow, clock),
        meadow.seeds,
        politeness__delay="10s",
        network__allow_private=True,
    )
    truth = {fact.url: fact for fact in meadow.true_urls() if fact.allowed}
    assert sum(fact.status == 0 for fact in truth.values()) > 10
    stored = {row.url for row in outcomes(tmp_path / "c") if row.kind == "page"}
    assert stored == {url for url, fact in truth.items() if fact.status == 200}
