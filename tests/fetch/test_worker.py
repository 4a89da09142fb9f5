"""Host visits of a fetch worker against a scripted server: its requests, unused tickets and reports."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from fieldmouse.clock import Clock
from fieldmouse.fetch.politeness_gate import FetchServices, PolitenessGate
from fieldmouse.fetch.worker import FetchSettings, FetchWorker, VisitReport
from fieldmouse.http.dns import DnsAnswer, Resolver
from fieldmouse.policy.dns_and_header_options import NameOverrides
from fieldmouse.policy.politeness import Politeness
from fieldmouse.robotstxt.parser import RobotsTxtCache
from fieldmouse.testing import virtual_time
from fieldmouse.types.host_state import HostState
from fieldmouse.types.outcome import Failed, Moved, Outcome, Page, Refused, Response
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.request import HostVisit, NumberedRequest, Request
from fieldmouse.url import Host, Url, path_of

HOST = Host("http://mouse.test")
Script = Callable[[str, int], tuple[int, dict[str, str], bytes] | OutcomeReason]


@dataclass
class ScriptedWeb:
    """Responds by a function of the path and of its number of requests; records the times."""

    script: Script
    clock: Clock
    asked: list[tuple[float, str]] = field(default_factory=list)

    async def fetch(
        self, link: Request, host: Host, address: str, *, body_limit: int | None = None
    ) -> Response | Failed:
        path = path_of(link.url)
        times = sum(1 for _, before in self.asked if before == path)
        self.asked.append((self.clock.now(), path))
        answer = self.script(path, times)
        started = self.clock.now()
        await self.clock.sleep(0.05)
        now = self.clock.now()
        if isinstance(answer, OutcomeReason):
            return Failed(link, answer, now)
        status, headers, body = answer
        return Response(
            status, b"HTTP/1.1 %d\r\n\r\n" % status, body, b"GET", address, started, now, now, tuple(headers.items())
        )

    async def close(self) -> None: ...


@dataclass
class ScriptedDns:
    """Answers from a list for each name, in order; the last answer is repeated."""

    zone: dict[str, list[DnsAnswer]]

    async def query(self, name: str, kind: str) -> DnsAnswer:
        answers = self.zone.get(name, [DnsAnswer(error="no such name")])
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def close(self) -> None: ...


@dataclass
class Outbox:
    delivered: list[Outcome] = field(default_factory=list)
    retried: list[Request] = field(default_factory=list)
    kept: list[Url] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    allowance: int = 1000

    async def deliver(self, ticket: NumberedRequest, outcome: Outcome) -> None:
        self.delivered.append(outcome)

    async def archive_robots_txt(self, link: Request, response: Response) -> None:
        self.kept.append(link.url)

    def requeue_failed_request(self, ticket: NumberedRequest, link: Request) -> None:
        self.retried.append(link)

    def queue_sitemaps(self, host: Host, found: Sequence[str]) -> None:
        self.named.extend(found)

    def try_start_fetch(self, ticket: NumberedRequest) -> bool:
        self.allowance -= 1
        return self.allowance >= 0


@dataclass
class Visit:
    report: VisitReport
    web: ScriptedWeb
    outbox: Outbox
    began: float


def errand(*paths: str, address: str = "127.0.0.9", state: HostState | None = None) -> HostVisit:
    tickets = tuple(NumberedRequest(n + 1, Request(Url(HOST + path))) for n, path in enumerate(paths))
    return HostVisit(HOST, address, tickets, state or HostState(address=address))


def run(
    script: Script,
    todo: HostVisit,
    *,
    delay: float = 0.0,
    manners: dict[str, object] | None = None,
    allowance: int = 1000,
    allow_private: bool = True,
    zone: dict[str, list[DnsAnswer]] | None = None,
) -> Visit:
    async def life(clock: Clock) -> Visit:
        web, outbox, began = ScriptedWeb(script, clock), Outbox(allowance=allowance), clock.now()
        names = NameOverrides(["mouse.test=127.0.0.9", "other.test=127.0.0.8"])
        dns = ScriptedDns(zone or {})
        resolver = Resolver(clock=clock, allow_private=allow_private, names=names, dns=dns)
        told = FetchSettings(Politeness(delay=delay, address_delay=delay), **(manners or {}))  # type: ignore[arg-type]
        exclusions = RobotsTxtCache(clock, product="fieldmouse")
        robot = FetchWorker(FetchServices(web, resolver, PolitenessGate(clock), exclusions, clock), told, outbox)
        return Visit(await robot.visit_host(todo), web, outbox, began)

    return virtual_time.run_in_virtual_time(life)


def plain(path: str, times: int) -> tuple[int, dict[str, str], bytes]:
    return (404, {}, b"") if path == "/robots.txt" else (200, {}, b"hello")


def test_without_a_delay_one_visit_fetches_everything_after_robots_txt() -> None:
    visit = run(plain, errand("/a", "/b", "/c"))
    assert [path for _, path in visit.web.asked] == ["/robots.txt", "/a", "/b", "/c"]
    assert [type(outcome) for outcome in visit.outbox.delivered] == [Page] * 3
    state, unused = visit.report
    assert not unused
    assert state.pages == 3
    assert visit.outbox.kept == [HOST + "/robots.txt"]


def test_with_a_delay_a_visit_is_one_request_and_the_rest_is_given_back() -> None:
    visit = run(plain, errand("/a", "/b"), delay=2.0)
    assert [path for _, path in visit.web.asked] == ["/robots.txt"]
    state, unused = visit.report
    assert [ticket.number for ticket in unused] == [1, 2]
    assert state.ready_at == pytest.approx(visit.began + 0.05 + 2.0)
    assert state.address_ready_at == pytest.approx(visit.began + 0.05 + 2.0)


def test_an_unresolved_host_is_looked_up_and_given_back_unvisited() -> None:
    visit = run(plain, errand("/a", address=""))
    assert not visit.web.asked
    state, unused = visit.report
    assert state.address == "127.0.0.9"
    assert len(unused) == 1


def test_a_private_address_gets_no_request_and_every_url_is_refused() -> None:
    first = run(plain, errand("/a", "/b"), allow_private=False)
    assert not first.web.asked
    state, _ = first.report
    assert state.verdict == OutcomeReason.PRIVATE_ADDRESS.value
    second = run(plain, errand("/a", "/b", state=state), allow_private=False)
    assert not second.web.asked
    reasons = [outcome.reason for outcome in second.outbox.delivered if isinstance(outcome, Refused)]
    assert reasons == [OutcomeReason.PRIVATE_ADDRESS] * 2


def test_excluded_urls_are_refused_without_a_request_and_crawl_delay_is_learned() -> None:
    rules = b"User-agent: *\nDisallow: /private/\nCrawl-delay: 7\nSitemap: /map.xml\n"

    def script(path: str, times: int) -> tuple[int, dict[str, str], bytes]:
        return (200, {}, rules) if path == "/robots.txt" else (200, {}, b"")

    visit = run(script, errand("/private/x", "/a"))
    state, unused = visit.report
    assert state.crawl_delay == 7.0
    assert state.ready_at == pytest.approx(visit.began + 0.05 + 7.0)
    assert len(unused) == 2  # the delay counts from fetch.txt on
    assert visit.outbox.named == ["/map.xml"]
    rules = rules.replace(b"Crawl-delay: 7\n", b"")
    visit = run(script, errand("/private/x", "/a"))
    assert [path for _, path in visit.web.asked] == ["/robots.txt", "/a"]
    first, second = visit.outbox.delivered
    assert isinstance(first, Refused)
    assert first.reason is OutcomeReason.ROBOTS_TXT_EXCLUDED
    assert isinstance(second, Page)


def test_an_unreachable_robots_txt_blocks_the_host_and_finally_abandons_it() -> None:
    def script(path: str, times: int) -> tuple[int, dict[str, str], bytes]:
        return (503, {"retry-after": "40"}, b"") if path == "/robots.txt" else (200, {}, b"")

    state = HostState(address="127.0.0.9")
    for attempt in range(1, 5):
        visit = run(script, errand("/a", state=state))
        assert [path for _, path in visit.web.asked] == ["/robots.txt"]
        state, unused = visit.report
        assert len(unused) == 1
        assert state.failures == attempt
        assert state.ready_at >= visit.began + 40
    assert state.verdict == OutcomeReason.ROBOTS_TXT_UNREACHABLE.value


def test_robots_txt_redirected_to_another_host_applies_to_the_first() -> None:
    def script(path: str, times: int) -> tuple[int, dict[str, str], bytes]:
        if path == "/robots.txt":
            return 301, {"location": "http://other.test/rules"}, b""
        if path == "/rules":
            return 200, {}, b"User-agent: *\nDisallow: /a"
        return 200, {}, b""

    visit = run(script, errand("/a", "/b"))
    assert [path for _, path in visit.web.asked] == ["/robots.txt", "/rules", "/b"]


def moved_rules(path: str, times: int) -> tuple[int, dict[str, str], bytes]:
    if path == "/robots.txt":
        return 301, {"location": "http://rules.test/rules"}, b""
    if path == "/rules":
        return 200, {}, b"User-agent: *\nDisallow: /a"
    return 200, {}, b""


@pytest.mark.parametrize("trouble", ["server failure", "timeout while contacting dns servers"])
def test_robots_txt_redirected_to_a_failing_name_blocks_until_it_is_read(trouble: str) -> None:
    there = DnsAnswer(("127.0.0.7",), 60.0)
    zone = {"rules.test": [DnsAnswer(error=trouble, temporary=True), there]}
    first = run(moved_rules, errand("/a", "/b"), zone=zone)
    assert [path for _, path in first.web.asked] == ["/robots.txt"]
    state, unused = first.report
    assert [ticket.number for ticket in unused] == [1, 2]
    assert state.ready_at > first.began
    assert not state.verdict
    assert not first.outbox.delivered
    second = run(moved_rules, errand("/a", "/b", state=state), zone=zone)
    assert [path for _, path in second.web.asked] == ["/robots.txt", "/rules", "/b"]


@pytest.mark.parametrize(
    ("zone", "allow_private"),
    [({}, True), ({"rules.test": [DnsAnswer(("10.1.2.3",), 60.0)]}, False)],
    ids=["no such name", "a forbidden address"],
)
def test_robots_txt_redirected_to_an_unreadable_place_counts_as_none(
    zone: dict[str, list[DnsAnswer]], allow_private: bool
) -> None:
    todo = errand("/a", "/b")
    if not allow_private:
        zone = {**zone, "mouse.example": [DnsAnswer(("93.184.216.34",), 60.0)]}
        host = Host("http://mouse.example")
        tickets = tuple(NumberedRequest(n, Request(Url(f"{host}/{n}"))) for n in (1, 2))
        todo = HostVisit(host, "93.184.216.34", tickets, HostState("93.184.216.34"))
    visit = run(moved_rules, todo, zone=zone, allow_private=allow_private)
    assert [path for _, path in visit.web.asked][:1] == ["/robots.txt"]
    assert len(visit.outbox.delivered) == 2
    assert all(isinstance(outcome, Page) for outcome in visit.outbox.delivered)


@pytest.mark.parametrize("asked", ["inf", "Infinity", "9" * 400, "1e400", "1e308"])
def test_an_infinite_crawl_delay_is_capped(asked: str) -> None:
    def script(path: str, times: int) -> tuple[int, dict[str, str], bytes]:
        rules = f"User-agent: *\nCrawl-delay: {asked}  # please\nDisallow: /private\n"
        return (200, {}, rules.encode()) if path == "/robots.txt" else (200, {}, b"")

    visit = run(script, errand("/a"))
    state, unused = visit.report
    assert len(unused) == 1
    assert math.isfinite(state.crawl_delay)
    assert state.ready_at == pytest.approx(visit.began + 0.05 + Politeness().crawl_delay_cap)


@pytest.mark.parametrize("asked", ["nan", "-inf", "-1", "soon", ""])
def test_an_invalid_crawl_delay_is_ignored(asked: str) -> None:
    def script(path: str, times: int) -> tuple[int, dict[str, str], bytes]:
        rules = f"User-agent: *\nCrawl-delay: {asked}\n"
        return (200, {}, rules.encode()) if path == "/robots.txt" else (200, {}, b"")

    visit = run(script, errand("/a"))
    assert visit.report[0].crawl_delay == 0.0
    assert len(visit.outbox.delivered) == 1


def test_retry_after_rests_the_host_and_retries_the_url() -> None:
    def script(path: str, times: int) -> tuple[int, dict[str, str], bytes]:
        return (429, {"retry-after": "90"}, b"") if path == "/a" else plain(path, times)

    visit = run(script, errand("/a", "/b"))
    state, unused = visit.report
    assert [ticket.link.url for ticket in unused] == [HOST + "/b"]
    assert [link.tries for link in visit.outbox.retried] == [1]
    assert state.ready_at >= visit.began + 90
    assert not visit.outbox.delivered


def test_a_server_error_is_retried_and_finally_given_up() -> None:
    def script(path: str, times: int) -> tuple[int, dict[str, str], bytes]:
        return (500, {}, b"oops") if path == "/a" else plain(path, times)

    visit = run(script, errand("/a", "/b"))
    assert [link.tries for link in visit.outbox.retried] == [1]
    assert visit.outbox.retried[0].not_before > visit.began
    assert [type(outcome) for outcome in visit.outbox.delivered] == [Page]
    tired = HostVisit(
        HOST, "127.0.0.9", (NumberedRequest(1, Request(Url(HOST + "/a"), tries=2)),), HostState("127.0.0.9")
    )
    visit = run(script, tired)
    (outcome,) = visit.outbox.delivered
    assert isinstance(outcome, Failed)
    assert outcome.reason is OutcomeReason.SERVER_ERROR
    assert not visit.outbox.retried


def test_an_unreachable_host_is_abandoned_and_all_its_urls_fail() -> None:
    def script(path: str, times: int) -> tuple[int, dict[str, str], bytes] | OutcomeReason:
        return plain(path, times) if path == "/robots.txt" else OutcomeReason.NO_CONNECTION

    state = HostState(address="127.0.0.9", failures=5)
    # robots.txt responds, so the host counts as healthy again; from here it takes six failures in a row
    state = run(script, errand("/a", state=state)).report[0]
    assert state.failures == 1
    for _ in range(5):
        state = run(script, errand("/a", state=state), manners={"obey_robots_txt": False}).report[0]
    assert state.verdict == OutcomeReason.HOST_ABANDONED.value
    visit = run(script, errand("/a", "/b", state=state))
    assert not visit.web.asked
    assert [o.reason for o in visit.outbox.delivered if isinstance(o, Failed)] == [OutcomeReason.HOST_ABANDONED] * 2


def test_redirects_become_links_until_there_are_too_many() -> None:
    def script(path: str, times: int) -> tuple[int, dict[str, str], bytes]:
        return (302, {"location": "next"}, b"") if path != "/robots.txt" else (404, {}, b"")

    (outcome,) = run(script, errand("/dir/a")).outbox.delivered
    assert isinstance(outcome, Moved)
    assert outcome.target == HOST + "/dir/next"
    far = HostVisit(
        HOST, "127.0.0.9", (NumberedRequest(1, Request(Url(HOST + "/a"), redirects=10)),), HostState("127.0.0.9")
    )
    (outcome,) = run(script, far).outbox.delivered
    assert isinstance(outcome, Failed)
    assert outcome.reason is OutcomeReason.TOO_MANY_REDIRECTS


def test_a_visit_stops_at_the_page_limit_and_gives_the_rest_back() -> None:
    visit = run(plain, errand("/a", "/b", "/c"), allowance=2)
    assert len(visit.outbox.delivered) == 2
    assert [ticket.number for ticket in visit.report[1]] == [3]
    visit = run(plain, errand("/a", "/b", "/c"), manners={"pages_per_host": 1})
    assert len(visit.outbox.delivered) == 1
    assert visit.report[0].verdict == OutcomeReason.HOST_FULL.value


def test_a_cancelled_visit_still_rests_host_and_address() -> None:
    async def life(clock: Clock) -> float:
        gate = PolitenessGate(clock)
        web = ScriptedWeb(plain, clock)
        resolver = Resolver(clock=clock, allow_private=True, names=NameOverrides(["mouse.test=127.0.0.9"]))
        transport = FetchServices(web, resolver, gate, RobotsTxtCache(clock, product="fieldmouse"), clock)
        robot = FetchWorker(transport, FetchSettings(Politeness(delay=3.0, address_delay=3.0)), Outbox())
        going = asyncio.ensure_future(robot.visit_host(errand("/a")))
        await clock.sleep(0.01)
        going.cancel()
        await asyncio.wait([going])
        began = clock.now()
        await gate.enter(HOST, "127.0.0.9")
        return clock.now() - began

    assert virtual_time.run_in_virtual_time(life) > 2.9
