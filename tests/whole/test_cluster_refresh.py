"""Agents of one crawl that keep its pages fresh, in virtual time, with a coordinator in memory.

Each agent polls its own pages; the coordinator grants it their hosts. The synthetic web knows the content
of every page at any time, and its log has every request.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from fieldmouse.clock import Clock
from fieldmouse.cluster.coordinator import CrawlTotals
from fieldmouse.doctor.check.examine import check_crawl
from fieldmouse.http.decoding import decode_body
from fieldmouse.reader.crawl_reader import MultiCrawlReader
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.testing import virtual_time
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.testing.meadow.responder import MeadowRequest
from fieldmouse.testing.meadow.server import Arrival
from fieldmouse.testing.memory_coordinator import MemoryCoordinator
from fieldmouse.types.reason import StoppedBy
from fieldmouse.types.stats import Summary
from fieldmouse.url import host_of, path_of

from .test_cluster_virtual_time import Band, charter, is_polite, pages_alone
from .virtual_time import outcomes

BUDGET = 1.0  # polls a second
MINUTES = 5
NAMES = "abc"


def garden(seed: int) -> Meadow:
    return Meadow(
        MeadowOptions(
            hosts=6,
            pages=40,
            seed=seed,
            page_kb=1.0,
            links=8,
            changing=0.7,
            change_every=200.0,
            rewriting=True,
            compression=False,
            duplicates=0.0,
        )
    )


def band_of(path: Path, meadow: Meadow, clock: Clock, servers: int = 1) -> Band:
    return Band(
        path,
        meadow,
        clock,
        servers,
        refresh__on=True,
        refresh__budget=f"{BUDGET * 3600:g}/h",
        refresh__policy="uniform",
        crawl__time=f"{MINUTES}m",
        storage__checkpoint="10s",
    )


class Upkeep:
    """Results of such a crawl."""

    def __init__(self, path: Path, meadow: Meadow, band: Band, books: CrawlTotals) -> None:
        self.path, self.meadow, self.band, self.books = path, meadow, band, books
        self.rows = {name: outcomes(path / name) for name in NAMES}

    def check(self, alone: set[str]) -> None:
        """Check the invariants that hold after any incident."""
        is_polite(self.band.arrivals)
        books = self.books
        assert (books.seen, books.waiting) == (books.settled, 0)
        assert sum(books.kinds.values()) == books.settled, "polls are not in the books of what was discovered"
        homes = [{row.url for row in rows if row.kind == "page" and not row.polled} for rows in self.rows.values()]
        assert set.union(*homes) == alone
        for rows, home in zip(self.rows.values(), homes, strict=True):
            polled = {row.url for row in rows if row.polled}
            assert home <= polled, "every known page was asked again, by who has it"
            assert {row.url for row in rows if row.polled and row.kind == "page"} <= home
        for name in NAMES:
            assert not [f for f in check_crawl(CrawlDir.open(self.path / name)) if not f.healthy]
        self.check_copies(alone)

    def check_copies(self, alone: set[str]) -> None:
        """All directories as one have each page once, as it was at its last request."""
        asked: dict[str, float] = {}
        for rows in self.rows.values():
            for row in rows:
                if row.kind in ("page", "unchanged"):
                    asked[row.url] = max(asked.get(row.url, 0.0), row.at)
        pages = list(MultiCrawlReader([self.path / name for name in NAMES]).pages())
        assert Counter(page.url for page in pages) == Counter(alone)
        for page in pages:
            site = self.meadow.site_of_host(host_of(page.url))
            assert site is not None
            # The revision is that of the request's arrival; the row has the time of the response.
            arrival = max(a.t for a in self.arrivals(page.url) if a.t <= asked[page.url])
            answer = self.meadow.responder.respond(site, MeadowRequest(path_of(page.url), "", "", ""), arrival)
            assert page.body == decode_body(answer.body, "").body, page.url

    def arrivals(self, url: str) -> Sequence[Arrival]:
        host, path = host_of(url).partition("://")[2], path_of(url)
        return [a for a in self.band.arrivals if (a.host, a.path) == (host, path)]

    def polls(self) -> list[float]:
        """Times at which known pages were requested: each request but the first."""
        known: set[tuple[str, str]] = set()
        times = []
        for arrival in sorted(self.band.arrivals, key=lambda arrival: arrival.t):
            page = (arrival.host, arrival.path)
            if page in known and arrival.path != "/robots.txt":
                times.append(arrival.t)
            known.add(page)
        return times


async def founded(band: Band) -> None:
    await band.board().create_crawl(charter(band.settings, band.meadow.seeds))
    for number, name in enumerate(NAMES):
        band.start(name, seeded=number == 0)


def test_each_agent_keeps_its_pages_fresh_and_all_keep_one_budget(tmp_path: Path) -> None:
    meadow = garden(3)
    alone = pages_alone(tmp_path / "alone", meadow)

    async def life(clock: Clock) -> tuple[Band, CrawlTotals]:
        band = band_of(tmp_path, meadow, clock)
        await founded(band)
        summaries = (await band.ended()).values()
        for summary in summaries:
            assert (summary.exit, summary.stopped_by, summary.lost) == (3, StoppedBy.TIME_LIMIT, 0)
        assert sum(summary.changed for summary in summaries) > 10, "who has how many pages is up to dice"
        return band, await band.board().totals()

    upkeep = Upkeep(tmp_path, meadow, *virtual_time.run_in_virtual_time(life))
    upkeep.check(alone)
    homes = Counter(row.url for rows in upkeep.rows.values() for row in rows if not row.polled)
    assert set(homes.values()) == {1}
    polls = upkeep.polls()
    assert keeps(polls, BUDGET, 5 * BUDGET + len(NAMES))
    assert len(polls) > 0.8 * BUDGET * (polls[-1] - polls[0]), "the budget is used"


def test_a_crawl_stopped_by_a_limit_continues_with_another_and_may_start_polling(tmp_path: Path) -> None:
    meadow = garden(5)

    async def life(clock: Clock) -> list[dict[str, Summary]]:
        told = []
        band = Band(tmp_path, meadow, clock, crawl__time="5s")
        await founded(band)
        told.append(await band.ended())
        for time in ("5s", "3m"):
            band.settings = band.settings.override(
                {"crawl.time": time, "refresh.on": True, "refresh.policy": "uniform"}
            )
            for name in NAMES:
                band.start(name)
            told.append(await band.ended())
        return told

    first, again, longer = virtual_time.run_in_virtual_time(life)
    assert all(summary.stopped_by is StoppedBy.TIME_LIMIT for told in (first, again) for summary in told.values())
    assert [first[name].pages for name in NAMES] == [again[name].pages for name in NAMES]
    whole = longer["a"].whole
    assert whole is not None
    assert (whole.waiting, whole.pages) == (0, sum(summary.pages for summary in longer.values()))
    assert sum(summary.polls for summary in longer.values()) > 60


def keeps(times: list[float], rate: float, burst: float) -> bool:
    """Whether there are at most `rate * t + burst` of them in any time t."""
    slack = lowest = 0.0
    for number, at in enumerate(times):
        lowest = min(lowest, number - rate * (at - times[0]))
        slack = max(slack, number + 1 - rate * (at - times[0]) - lowest)
    return slack <= burst + 1e-6


@pytest.mark.parametrize("servers", [1, 2])
def test_pages_stay_fresh_despite_dead_agents_and_lost_server_data(servers: int, tmp_path: Path) -> None:
    meadow = garden(10 + servers)
    alone = pages_alone(tmp_path / "alone", meadow)
    dice = random.Random(servers)

    async def life(clock: Clock) -> tuple[Band, CrawlTotals, int]:
        band = band_of(tmp_path, meadow, clock, servers)
        await founded(band)
        kills = 0
        for turn in range(8):
            await clock.sleep(dice.uniform(0.5, 20.0))
            if turn % 4 == 3:
                server = dice.choice(band.servers)
                memory = server.snapshot()
                await clock.sleep(1.0)
                server.restart(memory)
                continue
            name = dice.choice(NAMES)
            await band.kill(name)
            kills += 1
            await clock.sleep(dice.choice([0.0, 1.0, 30.0]))
            band.start(name)
        await band.ended()
        return band, await band.board().totals(), kills

    band, books, kills = virtual_time.run_in_virtual_time(life)
    upkeep = Upkeep(tmp_path, meadow, band, books)
    upkeep.check(alone)
    # Polls lost in a kill are repeated; at most some seconds of them.
    assert keeps(upkeep.polls(), BUDGET, 5 * BUDGET + len(NAMES) + 15 * BUDGET * kills)


def test_an_agent_that_does_not_poll_yields_hosts_to_those_that_do(tmp_path: Path) -> None:
    """An agent without `refresh.on` has work for all hosts, and should be the one to visit some of them."""
    meadow = Meadow(
        MeadowOptions(
            hosts=6, pages=1200, gamma=0.0, seed=6, page_kb=1.0, links=20, robots=0.0, sitemaps=0.0, compression=False
        )
    )

    async def life(clock: Clock) -> None:
        band = Band(tmp_path, meadow, clock, board__policy="hash")
        await band.board().create_crawl(charter(band.settings, meadow.seeds))
        band.start("a", seeded=True)
        await clock.sleep(12.0)
        await band.kill("a")
        band.start("b")
        await clock.sleep(25.0)
        band.settings = band.settings.override(
            {"refresh.on": True, "refresh.policy": "uniform", "refresh.budget": "10/s"}
        )
        band.start("a")
        await clock.sleep(60.0)
        board = MemoryCoordinator(band.servers[0])
        assert min(len(record.waiting) for record in board.crawl_state().hosts.values()) > 20, "all have work left"
        for name in "ab":
            await band.kill(name)

    virtual_time.run_in_virtual_time(life)
    rows = outcomes(tmp_path / "a")
    known = {host_of(row.url) for row in rows if row.kind == "page" and not row.polled}
    assert len(known) == 6
    assert {host_of(row.url) for row in rows if row.polled} == known
