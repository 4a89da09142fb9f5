"""Explanations of a URL: free of contradictions, also for a robots.txt."""

from __future__ import annotations

from datetime import datetime
from email.utils import formatdate
from functools import partial
from pathlib import Path

import msgspec
import pytest

from fieldmouse.clock import Clock
from fieldmouse.reader.crawl_reader import CrawlReader
from fieldmouse.reader.explain import Explanation, explain
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.testing import virtual_time
from fieldmouse.testing.meadow.fetcher import MeadowFetcher
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.types.outcome import Failed, Response
from fieldmouse.types.request import Request
from fieldmouse.url import Host, Url, path_of
from whole.virtual_time import bottled_crawl, bottled_kill

from .conftest import QUICK
from .smallweb import HOME, SmallWeb

MEADOW = Meadow(MeadowOptions(hosts=4, pages=60, seed=5, page_kb=1.0, links=10, busy=0.5, busy_seconds=300))
KILLED_AFTER = 70.0


@pytest.fixture(scope="module")
def resting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A crawl killed while hosts rest, some at the request of the server."""
    path = tmp_path_factory.mktemp("resting") / "c"
    settings = {"politeness__delay": "10s", "network__allow_private": True, "storage__checkpoint": "5s"}
    fetcher = partial(MeadowFetcher, MEADOW)
    summary, _ = bottled_kill(path, fetcher, MEADOW.seeds, after=KILLED_AFTER, **settings)
    assert summary is None
    return path


def said(told: Explanation, *words: str) -> list[str]:
    return [sentence for sentence in told.says if any(word in sentence for word in words)]


def test_explanation_names_at_most_one_time_of_the_next_request(resting: Path) -> None:
    home = CrawlDir.open(resting)
    urls = [Url(fact.url) for fact in MEADOW.true_urls()]
    places, rests = set(), 0
    for after in (KILLED_AFTER - 5.0, KILLED_AFTER + 1000.0):
        for url in urls:
            told = explain(home, url, virtual_time.EPOCH + after)
            places.add(told.place)
            times = said(told, "asked again in", "tried again in")
            assert len(times) <= 1, told.says
            if times:
                rests += 1
                assert not said(told, "may be visited", "answered without asking"), told.says
            if told.waiting is not None:
                assert len(said(told, "waiting:")) == 1
    assert rests
    assert len(places) > 2, places


def test_no_host_is_said_to_rest_after_its_rest_time(resting: Path) -> None:
    home = CrawlDir.open(resting)
    for fact in MEADOW.true_urls():
        told = explain(home, Url(fact.url), virtual_time.EPOCH + 1e7)
        assert not said(told, "rests", "tried again in"), told.says


class BusyWeb(SmallWeb):
    """Site with one path that answers with Retry-After."""

    def __init__(self, clock: Clock, busy: str, asked: str):
        super().__init__(clock)
        self._busy, self._asked = busy, asked

    async def fetch(
        self, link: Request, host: Host, address: str, *, body_limit: int | None = None
    ) -> Response | Failed:
        answer = await super().fetch(link, host, address, body_limit=body_limit)
        if not isinstance(answer, Response) or path_of(link.url) != self._busy:
            return answer
        headers = (*answer.headers, ("retry-after", self._asked))
        return msgspec.structs.replace(answer, status=429, headers=headers)


WAITS = [
    ("120", 120.0, ""),
    (formatdate(virtual_time.EPOCH + 3600.0, usegmt=True), 3600.0, ""),
    ("864000", 864000.0, ", which is longer than `politeness.retry_after_cap`"),
]


@pytest.mark.parametrize("busy", ["/twin-1.html", "/robots.txt"])
@pytest.mark.parametrize(("asked", "until", "more"), WAITS)
def test_a_wait_requested_by_the_server_is_named_while_it_lasts(
    tmp_path: Path, busy: str, asked: str, until: float, more: str
) -> None:
    settings = QUICK | {"storage__checkpoint": "5s"}
    fetcher = partial(BusyWeb, busy=busy, asked=asked)
    bottled_kill(tmp_path / "c", fetcher, [HOME + "/"], after=60.0, **settings)
    home, url = CrawlDir.open(tmp_path / "c"), Url(HOME + ("/" if busy == "/robots.txt" else busy))
    (sentence,) = said(explain(home, url, virtual_time.EPOCH + 60.0), "the server asked")
    words, _, rest = sentence.partition(" (")
    assert rest == f"status 429, Retry-After: {asked}){more}"
    at = datetime.fromisoformat(words.removeprefix("the server asked to wait until ")).timestamp()
    assert at == pytest.approx(virtual_time.EPOCH + until, abs=2.0)
    assert not said(explain(home, url, virtual_time.EPOCH + 1e7), "the server asked")


def test_a_robots_txt_is_explained_from_the_archive(small_crawl: Path) -> None:
    told = CrawlReader(small_crawl).explain(HOME + "/robots.txt")
    assert told.place == "robots.txt"
    (fetched,) = said(told, "fetched ")
    assert "with status 200, kept in archive/" in fetched
    assert not said(told, "never seen", "has a link to it")
    assert not said(CrawlReader(small_crawl).explain("http://elsewhere.example/robots.txt"), "fetched")


def test_explanation_uses_the_singular_for_one_link(small_crawl: Path) -> None:
    room = CrawlReader(small_crawl)
    assert said(room.explain(HOME + "/plain.txt"), "1 link away from a seed")
    assert str(room.explain(HOME + "/")).splitlines()[0] == HOME + "/"


def test_explanation_says_that_a_plugin_may_have_rejected_a_link(tmp_path: Path) -> None:
    readers = {"application/x-vole": "builtins:str"}
    settings = QUICK | {"plugins__admit": "operator:not_", "plugins__readers": readers}
    summary, _ = bottled_crawl(tmp_path / "c", SmallWeb, [HOME + "/"], **settings)
    assert summary.pages == 2, "the seed, and the sitemap that robots.txt names"
    room = CrawlReader(tmp_path / "c")
    (why,) = said(room.explain(HOME + "/plain.txt"), "links to it")
    assert why == f"{HOME}/ links to it: `operator:not_` (`plugins.admit`) may have rejected it"
    (none,) = said(room.explain(HOME + "/nowhere.html"), "has a link to it")
    assert "; documents that only your `plugins.readers` understand were not looked into" in none


def test_a_reader_fixed_before_the_first_checkpoint_stays_empty(tmp_path: Path) -> None:
    CrawlDir.create(tmp_path / "c", shards=1, settings=b"")
    room = CrawlReader(tmp_path / "c")
    still = room.pinned()
    bottled_crawl(tmp_path / "c", SmallWeb, [HOME + "/"], **QUICK)
    assert list(room.pages())
    assert list(still.pages()) == list(still.rows()) == [], "a table is read twice, and must be the same"


def test_explanation_before_the_first_checkpoint_knows_nothing(tmp_path: Path) -> None:
    CrawlDir.create(tmp_path / "c", shards=1, settings=b"")
    room = CrawlReader(tmp_path / "c")
    assert room.explain(HOME + "/").place == "unknown"
    assert list(room.pages()) == list(room.rows()) == list(room.live_stats()) == room.search("mouse") == []
    assert room.status().pages == 0
