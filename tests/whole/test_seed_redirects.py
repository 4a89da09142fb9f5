"""Seeds that redirect: the page at the end counts as a seed, whatever else happens to the crawl."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.damaging import DAMAGES, is_healthy, troubles
from fieldmouse.clock import Clock
from fieldmouse.cluster.coordinator import CrawlSpec
from fieldmouse.config.settings_file import Settings, render
from fieldmouse.crawler.builder import BuiltCrawl, build_crawl
from fieldmouse.crawler.cluster_agent import CrawlToJoin
from fieldmouse.errors import DamagedFile
from fieldmouse.http.dns import DnsAnswer
from fieldmouse.policy.scope import SavedScope
from fieldmouse.reader.explain import explain
from fieldmouse.storage.checkpoint import read_checkpoint, sealed_scope
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.testing import virtual_time
from fieldmouse.testing.memory_coordinator import MemoryCoordinator, MemoryServer
from fieldmouse.types.outcome import Failed, Response
from fieldmouse.types.reason import OutcomeKind
from fieldmouse.types.request import Request
from fieldmouse.url import Host, Url
from fieldmouse.workers.inline_worker import InlineWorker

from .virtual_time import bottled_crawl, bottled_kill, outcomes

Web = Mapping[str, str | tuple[str, ...]]
"""Pages by URL: a redirect target, or the hrefs of the page; `robots.txt` may be there, as text."""


class ScriptedWeb:
    """Responds after a delay by host: seeds may be slow, so that other pages are read before."""

    def __init__(self, clock: Clock, pages: Web, slow: Mapping[str, float] | None = None):
        self._clock, self._pages, self._slow = clock, pages, slow or {}
        self.asked: list[str] = []

    async def fetch(
        self, link: Request, host: Host, address: str, *, body_limit: int | None = None
    ) -> Response | Failed:
        self.asked.append(link.url)
        await self._clock.sleep(self._slow.get(host, 0.01))
        status, headers, body = 404, [("content-type", "text/html")], b"none"
        page = self._pages.get(link.url)
        if isinstance(page, str) and link.url.endswith("/robots.txt"):
            status, headers, body = 200, [("content-type", "text/plain")], page.encode()
        elif isinstance(page, str):
            status, headers, body = 301, [("location", page)], b""
        elif page is not None:
            links = "".join(f"<a href='{href}'>x</a>" for href in page)
            status, body = 200, f"<title>{link.url}</title>{links}".encode()
        head = "".join(f"{name}: {value}\r\n" for name, value in headers)
        now = self._clock.now()
        start = f"HTTP/1.1 {status} X\r\n{head}\r\n".encode()
        request = b"GET / HTTP/1.1\r\n\r\n"
        return Response(status, start, body, request, address, now, now, now, tuple(headers))

    async def close(self) -> None:
        """Nothing is open."""


class AnyName:
    """Every name has a different address."""

    def __init__(self, clock: Clock):
        self._known: dict[str, str] = {}

    async def query(self, name: str, kind: str) -> DnsAnswer:
        if kind != "A":
            return DnsAnswer(error="the name has no address")
        return DnsAnswer((self._known.setdefault(name, f"10.0.0.{len(self._known) + 1}"),), 3600.0)

    async def close(self) -> None:
        """Nothing is open."""


QUICK: dict[str, object] = {"network__allow_private": True, "politeness__delay": "0s", "dns": AnyName}
SEED, WWW = "http://e.test/", "https://www.e.test/"
HOP: Web = {SEED: "https://e.test/", "https://e.test/": WWW}
SITE: Web = HOP | {
    WWW: ("/a", "https://e.test/b", "http://other.e.test/", "http://new.test/"),
    WWW + "a": ("http://www.e.test:8080/c",),
    **dict.fromkeys("http://www.e.test:8080/c https://e.test/b http://other.e.test/ http://new.test/".split(), ()),
}
MOVED: Web = {
    SEED: "https://new.test/",
    "https://new.test/": ("/a", "http://www.new.test/b", SEED + "c"),
    **dict.fromkeys(("https://new.test/a", "http://www.new.test/b", SEED + "c"), ()),
}
B = "https://www.b.test/"
CROSS: Web = {
    "http://a.test/": ("/deep",),
    "http://a.test/deep": (B + "hidden", "http://x.b.test/"),
    "http://b.test/": B,
    B: ("/seen",),
    B + "hidden": ("/deeper",),
    B + "robots.txt": f"Sitemap: {B}map.txt",
    **dict.fromkeys((B + "seen", B + "deeper", "http://x.b.test/", B + "mapped"), ()),
}
"""One seed is slow and redirects; before, the other one links to pages that only it links to."""
CROSSED = {"http://a.test/", "http://a.test/deep", B, B + "seen", B + "hidden", B + "deeper"}


def web(pages: Web, slow: Mapping[str, float] | None = None) -> Callable[[Clock], ScriptedWeb]:
    return lambda clock: ScriptedWeb(clock, pages, slow)


def stored(path: Path) -> set[str]:
    return {row.url for row in outcomes(path) if row.kind is OutcomeKind.PAGE}


def crawled(path: Path, pages: Web, seeds: Sequence[str] = (SEED,), **asked: object) -> set[str]:
    summary, _ = bottled_crawl(path, web(pages), seeds, **QUICK, **asked)
    assert summary.lost == summary.waiting == 0
    return stored(path)


def test_a_host_scope_ignores_scheme_and_port(tmp_path: Path) -> None:
    links = ("http://e.test:81/x", "http://sub.e.test/")
    pages: Web = {SEED: "https://e.test/", "https://e.test/": links} | dict.fromkeys(links, ())
    assert crawled(tmp_path / "c", pages, scope__mode="host") == {"https://e.test/", "http://e.test:81/x"}


def test_the_end_of_a_redirect_chain_joins_the_scope_and_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "fieldmouse.crawler.growing_scope")
    found = crawled(tmp_path / "c", SITE, scope__mode="host")
    assert found == {WWW, WWW + "a", "http://www.e.test:8080/c", "https://e.test/b"}
    assert f"seed {SEED} redirects to {WWW}: its host is in scope" in caplog.messages


def test_in_page_scope_only_the_redirect_target_is_stored(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "fieldmouse.crawler.growing_scope")
    assert crawled(tmp_path / "c", SITE, scope__mode="page") == {WWW}
    assert f"seed {SEED} redirects to {WWW}: that page is in scope" in caplog.messages


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [
        ("page", {"https://new.test/"}),
        ("host", {"https://new.test/", "https://new.test/a", SEED + "c"}),
        ("site", {"https://new.test/", "https://new.test/a", SEED + "c", "http://www.new.test/b"}),
    ],
)
def test_another_registered_domain_joins_only_on_request(
    tmp_path: Path, mode: str, wanted: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert crawled(tmp_path / "without", MOVED, scope__mode=mode) == set()
    (told,) = [message for message in caplog.messages if "redirects to" in message]
    assert told.startswith(f"seed {SEED} redirects to https://new.test/, which is out of scope")
    found = crawled(tmp_path / "with", MOVED, scope__mode=mode, scope__follow_seed_redirects=True)
    assert found == wanted


def test_an_excluded_redirect_target_does_not_join(tmp_path: Path) -> None:
    exclusions = {"exclude_hosts": ["www.e.test"], "exclude_prefixes": [WWW], "include_regex": ["^http:"]}
    for number, rule in enumerate({f"scope__{key}": value} for key, value in exclusions.items()):
        asked = {"scope__mode": "host", "scope__follow_seed_redirects": True} | rule
        assert crawled(tmp_path / str(number), SITE, **asked) == set()


def test_redirects_of_other_pages_do_not_widen_the_scope(tmp_path: Path) -> None:
    pages = SITE | {WWW + "a": "http://other.e.test/"}
    found = crawled(tmp_path / "c", pages, scope__mode="host", scope__follow_seed_redirects=True)
    assert found == {WWW, "https://e.test/b"}


@pytest.mark.parametrize("asked", [{}, {"scope__follow_seed_redirects": True}], ids=["same site", "any"])
def test_links_read_before_the_redirect_was_known_are_followed(tmp_path: Path, asked: dict[str, object]) -> None:
    pages = CROSS | {"https://www.b.test/map.txt": ()}
    summary, fetcher = bottled_crawl(
        tmp_path / "c",
        web(pages, {"http://b.test": 60.0}),
        ["http://a.test/", "http://b.test/"],
        **QUICK,
        scope__mode="host",
        **asked,
    )
    assert summary.lost == summary.waiting == 0
    assert fetcher.asked.index("http://a.test/deep") < fetcher.asked.index("https://www.b.test/")
    assert stored(tmp_path / "c") == CROSSED | {"https://www.b.test/map.txt"}
    state = scope_state(tmp_path / "c")
    assert (state.joined, state.open) == (("https://www.b.test/",), False)


def scope_state(path: Path) -> SavedScope:
    return sealed_scope(read_checkpoint(CrawlDir.open(path)))


@given(st.lists(st.floats(0.5, 30.0), min_size=1, max_size=4))
@settings(max_examples=8, deadline=None)
def test_a_resumed_crawl_has_the_same_scope_after_a_kill(
    tmp_path_factory: pytest.TempPathFactory, kills: list[float]
) -> None:
    path = tmp_path_factory.mktemp("killed") / "c"
    pages = CROSS | {"https://www.b.test/map.txt": ()}
    seeds = ["http://a.test/", "http://b.test/"]
    asked: dict[str, object] = QUICK | {"scope__mode": "host", "storage__checkpoint": "1s"}
    slow = {"http://b.test": 7.0, "https://www.b.test": 5.0}
    for after in kills:
        bottled_kill(path, web(pages, slow), seeds, after=after, **asked)
    summary, _ = bottled_crawl(path, web(pages, slow), seeds, **asked)
    assert summary.lost == summary.waiting == 0
    assert stored(path) == CROSSED | {"https://www.b.test/map.txt"}
    assert scope_state(path).joined == ("https://www.b.test/",)


@pytest.mark.parametrize("damage", ["first byte", "flip", "cut", "delete"])
def test_doctor_detects_damage_in_the_log_of_held_links(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "c"
    seeds = ["http://a.test/", "http://b.test/"]
    asked: dict[str, object] = QUICK | {"scope__mode": "host", "storage__checkpoint": "1s"}
    bottled_kill(path, web(CROSS, {"http://b.test": 60.0}), seeds, after=20.0, **asked)
    assert scope_state(path).open
    assert is_healthy(path)
    DAMAGES[damage](path / "held.log")
    assert "`held.log` is damaged" in " ".join(finding.says for finding in troubles(path))
    with pytest.raises(DamagedFile, match=r"held\.log"):
        bottled_crawl(path, web(CROSS), seeds, **asked)


@pytest.mark.parametrize("damage", ["first byte", "flip"])
def test_a_damaged_held_log_is_fine_once_all_seeds_have_outcomes(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "c"
    seeds = ["http://a.test/", "http://b.test/"]
    asked: dict[str, object] = QUICK | {"scope__mode": "host"}
    bottled_crawl(path, web(CROSS, {"http://b.test": 60.0}), seeds, **asked)
    assert not scope_state(path).open
    DAMAGES[damage](path / "held.log")
    assert is_healthy(path)
    summary, _ = bottled_crawl(path, web(CROSS), seeds, **asked)
    assert summary.lost == summary.waiting == 0
    assert stored(path) == CROSSED


def test_explain_knows_additions_to_the_scope(tmp_path: Path) -> None:
    crawled(tmp_path / "c", SITE, scope__mode="host")
    home = CrawlDir.open(tmp_path / "c")
    assert not any("out of scope" in says for says in explain(home, Url(WWW + "never")).says)
    (says,) = [says for says in explain(home, Url("http://other.e.test/")).says if "out of scope" in says]
    assert says == f'it is out of scope, which is "host" around {SEED}, {WWW}'


def test_any_agent_of_a_cluster_crawls_the_redirect_target_of_a_seed(tmp_path: Path) -> None:
    """The agent that saw the redirect leaves, so that most pages are read by one that did not see it."""
    count = 40
    pages: dict[str, str | tuple[str, ...]] = {SEED: WWW, WWW: (f"{WWW}0",)}
    pages |= {f"{WWW}{number}": (f"{WWW}{number + 1}", "http://other.e.test/") for number in range(count)}
    asked = Settings().override(
        {
            "crawl.seeds": [SEED],
            "politeness.delay": "1s",
            "network.allow_private": True,
            "scope.mode": "host",
            "storage.checkpoint": "3s",
            "storage.min_free": "0B",
        }
    )
    read: dict[str, int] = {}

    async def together(clock: Clock) -> None:
        server = MemoryServer(clock)
        await MemoryCoordinator(server).create_crawl(CrawlSpec(4711, render(asked), (SEED,)))
        crews, lives = [], []

        def start(name: str) -> BuiltCrawl:
            home = CrawlDir.create(tmp_path / name, shards=1, settings=render(asked).encode(), key_seed=4711)
            return build_crawl(
                home,
                asked,
                clock=clock,
                fetcher=ScriptedWeb(clock, pages),
                lane=InlineWorker,
                dns=AnyName(clock),
                joining=CrawlToJoin(MemoryCoordinator(server), "fieldmouse", clock.now),
            )

        crews.append(start("a"))
        lives.append(asyncio.ensure_future(crews[0].crawler.crawl([Url(SEED)])))
        await clock.sleep(15.0)
        # The agent that followed the redirect leaves: another agent gets the rest of the host.
        crews.append(start("b"))
        lives.append(asyncio.ensure_future(crews[1].crawler.crawl([])))
        await clock.sleep(5.0)
        crews[0].crawler.stop_by_user()
        await asyncio.gather(*lives)
        for crew in crews:
            await crew.close()

    virtual_time.run_in_virtual_time(together)
    for name in "ab":
        for url in stored(tmp_path / name):
            read[url] = read.get(url, 0) + 1
    assert set(read) == {WWW, *(f"{WWW}{number}" for number in range(count))}
    assert len(stored(tmp_path / "b")) > 5


def test_an_agent_follows_links_to_a_host_that_another_agent_added(tmp_path: Path) -> None:
    """It reads its pages before the other agent reaches the end of the seed's redirects."""
    first, second = "http://one.e.test/", "http://two.e.test/"
    late = [f"{WWW}late{number}" for number in range(6)]
    pages: dict[str, str | tuple[str, ...]] = {first: "http://one.e.test/a"}
    hops = [f"http://one.e.test/{letter}" for letter in "abcdef"]
    pages |= dict(zip(hops, [*hops[1:], WWW], strict=True))
    pages |= {WWW: (), second: (f"{second}0",)}
    pages |= {f"{second}{n}": (f"{second}{n + 1}", late[n]) for n in range(len(late))}
    pages |= {f"{second}{len(late)}": ()} | dict.fromkeys(late, ())
    asked = Settings().override(
        {
            "crawl.seeds": [first, second],
            "politeness.delay": "4s",
            "network.allow_private": True,
            "scope.mode": "host",
            "storage.checkpoint": "2s",
            "storage.min_free": "0B",
        }
    )

    async def together(clock: Clock) -> None:
        server = MemoryServer(clock)
        await MemoryCoordinator(server).create_crawl(CrawlSpec(4711, render(asked), (first, second)))
        crews, lives = [], []
        for name, seeds in (("a", [first]), ("b", [second])):
            home = CrawlDir.create(tmp_path / name, shards=1, settings=render(asked).encode(), key_seed=4711)
            crews.append(
                build_crawl(
                    home,
                    asked,
                    clock=clock,
                    fetcher=ScriptedWeb(clock, pages),
                    lane=InlineWorker,
                    dns=AnyName(clock),
                    joining=CrawlToJoin(MemoryCoordinator(server), "fieldmouse", clock.now),
                )
            )
            lives.append(asyncio.ensure_future(crews[-1].crawler.crawl([Url(seed) for seed in seeds])))
            await clock.sleep(0.5)
        await asyncio.gather(*lives)
        for crew in crews:
            await crew.close()

    virtual_time.run_in_virtual_time(together)
    read = {url for name in "ab" for url in stored(tmp_path / name)}
    assert read == {WWW, second, *(f"{second}{n}" for n in range(len(late) + 1)), *late}
