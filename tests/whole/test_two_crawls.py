"""Two whole crawls of one meadow that exchange hosts while they run, and together have every page once.

Both run in one virtual time, with the real stages. A courier checks in now and then: it releases hosts,
carries parcels and brings receipts. A crawl without work ends, and the next round resumes it.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import random
import shutil
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from fieldmouse.agent.build import Crew, build
from fieldmouse.clock import Clock
from fieldmouse.crawldir import CrawlDir, outcomes, read_checkpoint, sealed_outcomes
from fieldmouse.frontier.exchange import Exchange, Exchanging
from fieldmouse.indexer.inline import InlineLane
from fieldmouse.lab import bottle
from fieldmouse.lab.meadow.arrivals import Arrival
from fieldmouse.lab.meadow.fetcher import MeadowFetcher
from fieldmouse.lab.meadow.meadow import Meadow
from fieldmouse.lab.meadow.options import MeadowOptions
from fieldmouse.reading import ReadingRoom
from fieldmouse.reading.examination import examine
from fieldmouse.reading.status import Standing
from fieldmouse.records import Link
from fieldmouse.repair import repair
from fieldmouse.settings import Settings, render
from fieldmouse.url import Host, Url, host_of

from .bottled import CALM, bottled_crawl

DELAY = 1.0
NAMES = ("a", "b")


class Courier:
    """Carries hosts to and fro; knows both crawls."""

    def __init__(self, hosts: list[Host], rng: random.Random) -> None:
        self.hosts, self.rng, self.moves = hosts, rng, 0
        self.busy = False  # whether there was anything to carry in this round

    def go_round(self, exchanges: dict[str, Exchange], crews: dict[str, Crew], *, moving: bool) -> None:
        for name, other in (NAMES, NAMES[::-1]):
            mine, theirs = exchanges[name], exchanges[other]
            for serial, path in list(mine.parcels.items()):
                self.busy = True
                if theirs.has_adopted(name, serial):
                    mine.released(serial)
                else:
                    crews[other].stages.frontier.adopt(path)
                    self.moves += 1
            for host, _ in list(mine.undelivered()):
                self.busy = True
                mine.release(host, other)
            if moving:
                mine.release(self.rng.choice(self.hosts), other)


def live(
    path: Path, meadow: Meadow, courier: Courier, epoch: float, *, seeded: bool, moving: bool, kill: float
) -> float:
    """One round: both crawls until one has nothing to do, or until both are killed; returns when that was."""
    settings = Settings().override(
        {
            "crawl.seeds": list(meadow.seeds),
            "politeness.delay": f"{DELAY:g}s",
            "network.allow_private": True,
            "scope.mode": "web",
            **CALM,
            "storage.checkpoint": "20s",
        }
    )

    async def life(clock: Clock) -> float:
        crews, tasks, webs = {}, [], []
        for number, name in enumerate(NAMES):
            home = CrawlDir.open(path / name)
            ours = frozenset(courier.hosts[number::2])
            webs.append(MeadowFetcher(meadow, clock))
            crews[name] = build(
                home,
                settings,
                clock=clock,
                fetcher=webs[-1],
                lane=InlineLane,
                exchanging=Exchanging(name, ours=ours.__contains__),
            )
        exchanges = {name: crew.stages.frontier.exchange for name, crew in crews.items()}
        try:
            for crew in crews.values():
                begin_at = [Url(seed) for seed in meadow.seeds] if seeded else []
                tasks.append(asyncio.ensure_future(crew.agent.crawl(begin_at)))
            await clock.sleep(0.05)
            while not any(task.done() for task in tasks):
                courier.go_round(exchanges, crews, moving=moving)
                pause = min(7.0, max(0.0, epoch + kill - clock.now()))
                await asyncio.wait(tasks, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
                if clock.now() >= epoch + kill:
                    courier.busy = True
                    return clock.now()
            for summary in await asyncio.gather(*tasks):
                assert summary.lost == 0
        finally:
            ARRIVALS.extend(arrival for web in webs for arrival in web.arrivals)
            for crew in crews.values():
                await crew.close()
        return clock.now()

    return bottle.run(life, epoch=epoch)


ARRIVALS: list[Arrival] = []


def pages(path: Path) -> set[str]:
    home = CrawlDir.open(path)
    last = read_checkpoint(home)
    assert last is not None
    return {str(row.url) for row in outcomes.pages(home, length=sealed_outcomes(last))}


@pytest.mark.parametrize("kills", [0, 12])
def test_two_crawls_that_exchange_hosts_fetch_the_same_pages_as_one(kills: int, tmp_path: Path) -> None:
    meadow = Meadow(MeadowOptions(hosts=8, pages=160, seed=3, page_kb=1.0, links=10, robots=0.5))
    bottled_crawl(
        tmp_path / "alone",
        lambda clock: MeadowFetcher(meadow, clock),
        meadow.seeds,
        scope__mode="web",
        politeness__delay=f"{DELAY:g}s",
        network__allow_private=True,
    )
    CrawlDir.create(
        tmp_path / "a",
        shards=1,
        settings=render(Settings().override({"crawl.seeds": list(meadow.seeds)})).encode(),
    )
    shutil.copytree(tmp_path / "a", tmp_path / "b")  # so that both have one key secret
    courier = Courier([Host(f"http://{site.authority}") for site in meadow.plan.sites], random.Random(5))
    ARRIVALS.clear()
    epoch, rounds = bottle.EPOCH, 0
    while rounds == 0 or courier.busy:
        courier.busy = False
        kill = courier.rng.uniform(1.0, 90.0) if rounds < kills else math.inf
        moving = rounds < kills + 6
        epoch = 10.0 + live(tmp_path, meadow, courier, epoch, seeded=not rounds, moving=moving, kill=kill)
        rounds += 1
        assert rounds < 60, "they do not come to an end"
    have = [pages(tmp_path / name) for name in NAMES]
    assert have[0] | have[1] == pages(tmp_path / "alone")
    assert not have[0] & have[1]
    assert min(map(len, have)) > 10
    assert courier.moves > 20
    for name in NAMES:
        findings = {finding.what: finding for finding in examine(CrawlDir.open(tmp_path / name))}
        assert [finding for finding in findings.values() if not finding.healthy] == []
        assert "the crawl is done" in findings["journal"].says
        status = ReadingRoom(tmp_path / name).status()
        assert status.standing is Standing.DONE
        assert status.seen == sum((status.pages, status.moved, status.failed, status.refused))
    visits: dict[str, list[float]] = defaultdict(list)
    for arrival in ARRIVALS:
        visits[arrival.host].append(arrival.t)
    for host, times in visits.items():
        times.sort()
        assert all(b - a >= DELAY - 1e-6 for a, b in itertools.pairwise(times)), host
    asked = Counter((arrival.host, arrival.path) for arrival in ARRIVALS if arrival.path != "/robots.txt")
    assert kills or max(asked.values()) <= 2, "500 at first, then the page"
    for name, other in (NAMES, NAMES[::-1]):
        mine, theirs = (ReadingRoom(tmp_path / room) for room in (name, other))
        told = {url: mine.explain(url) for url in have[NAMES.index(other)]}
        gone = [url for url, story in told.items() if "with another crawl" in story.place]
        assert gone
        assert all(theirs.explain(url).place == "done" for url in gone)
        assert not any("bug" in says for story in told.values() for says in story.says)
    for name in NAMES:
        for run in (tmp_path / name / "frontier").glob("keys-*.log"):
            run.write_bytes(b"")
        home = CrawlDir.open(tmp_path / name)
        assert not all(finding.healthy for finding in examine(home))
        assert list(repair(home))
        assert all(finding.healthy for finding in examine(home))


def test_a_crawl_waiting_for_others_does_not_checkpoint_in_a_loop(tmp_path: Path) -> None:
    meadow = Meadow(MeadowOptions(hosts=1, pages=3, seed=3, page_kb=1.0))
    settings = Settings().override(
        {
            "crawl.seeds": list(meadow.seeds),
            "network.allow_private": True,
            **CALM,
            "storage.checkpoint": "20s",
        }
    )
    home = CrawlDir.create(tmp_path / "c", shards=1, settings=render(settings).encode())
    elsewhere = Url("http://127.9.9.9:8000/")
    moments: set[float] = set()

    async def life(clock: Clock) -> None:
        crew = build(
            home,
            settings,
            clock=clock,
            fetcher=MeadowFetcher(meadow, clock),
            lane=InlineLane,
            exchanging=Exchanging("a", ours=lambda host: host != host_of(elsewhere)),
        )
        crew.stages.frontier.poll([Link(elsewhere)])
        crawling = asyncio.ensure_future(crew.agent.crawl([Url(seed) for seed in meadow.seeds]))
        await clock.sleep(30.0)
        for _ in range(50):
            await clock.sleep(0.1)
            last = read_checkpoint(home)
            assert last is not None
            moments.add(last.at)
        assert not crawling.done(), "what it owes has not left"
        await crew.close()

    bottle.run(life)
    assert 4 <= len(moments) <= 7
