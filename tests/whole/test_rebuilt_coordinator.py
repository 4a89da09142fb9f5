"""Coordinator that lost everything: it stops its agents, and is rebuilt from their directories.

Whole agents in virtual time with a coordinator in memory, as in `test_network_in_a_bottle`. Waiting URLs
must be found again by their way into the crawl: links, redirects, sitemaps of robots.txt files, seeds.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cluster.memory_rebuilder import MemoryRebuilder
from fieldmouse.clock import Clock
from fieldmouse.cluster.client import coordinator_outbox
from fieldmouse.cluster.coordinator import AgentId, CrawlRebuilder, CrawlSpec
from fieldmouse.cluster.sharded.rebuild import ShardedRebuilder
from fieldmouse.doctor.repair.rebuild_coordinator import (
    AgentDirectory,
    RebuildSummary,
    open_agent_directory,
    rebuild_with_agents,
)
from fieldmouse.errors import CoordinatorDataLost
from fieldmouse.reader.crawl_reader import CrawlReader
from fieldmouse.storage import outcome_log_reader
from fieldmouse.storage.checkpoint import read_checkpoint, sealed_outcome_bytes
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.testing import virtual_time
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.testing.memory_coordinator import MemoryCoordinator
from fieldmouse.types.outcome import OutcomeRow
from fieldmouse.types.reason import OutcomeKind
from fieldmouse.url import Url, host_of, key_of

from .test_cluster_virtual_time import Band, charter, is_polite, pages_alone, pages_of

NAMES = "abc"
VARIED = {
    "page_kb": 1.0,
    "links": 10,
    "robots": 1.0,
    "sitemaps": 0.6,
    "sitemap_only": 0.2,
    "redirects": 0.1,
    "duplicates": 0.1,
    "traps": 0.3,
    "crawl_delay_share": 0.3,
    "crawl_delay": 3.0,
}


class ShortLived(MemoryRebuilder):
    """Killed after a number of calls."""

    left = 0

    def crawl_state(self) -> Any:
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        return super().crawl_state()


async def lose_all(band: Band) -> None:
    """The server forgets everything; each agent must end with the error that says so."""
    band.servers[0].crawls.clear()
    for name in list(band.living):
        crew, task, web = band.living.pop(name)
        with pytest.raises(CoordinatorDataLost, match="has lost the crawl `fieldmouse`") as told:
            await asyncio.wait_for(task, 60)
        assert "cluster rebuild" in told.value.hint
        await crew.close()
        band.arrivals += web.arrivals


async def rebuild(band: Band, builder: CrawlRebuilder) -> RebuildSummary:
    members = [open_agent_directory(band.path / name, "fieldmouse") for name in NAMES]
    return await rebuild_with_agents(builder, members, "fieldmouse", band.clock.now())


def rows_of(path: Path) -> list[OutcomeRow]:
    home = CrawlDir.open(path)
    last = read_checkpoint(home)
    return [*outcome_log_reader.outcome_rows(home, length=sealed_outcome_bytes(last))] if last is not None else []


def led_to(path: Path, known: Mapping[Url, OutcomeRow]) -> set[Url]:
    """Link targets of all pages that the agents stored, of those that a single crawl reaches."""
    found: set[Url] = set()
    for name in NAMES:
        rows = rows_of(path / name)
        hosts = {host_of(row.url) for row in rows if row.kind is OutcomeKind.PAGE}
        found |= {Url(row.target) for row in rows if row.target}
        found |= {Url(link) for page in CrawlReader(path / name).pages() for link in page.links}
        # An agent with a page of a host has read its robots.txt before.
        found |= {url for url, row in known.items() if row.found_as == "sitemap" and host_of(url) in hosts}
    return found & known.keys()


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_missing_after_the_coordinator_was_lost_and_rebuilt(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Agents keep recent reports for half a minute; here they must come from the archives.
    monkeypatch.setattr(coordinator_outbox, "KEEP_SENT_SECONDS", 0.0)
    meadow = Meadow(MeadowOptions(hosts=12, pages=200, seed=40 + seed, **VARIED))
    alone = pages_alone(tmp_path / "alone", meadow)
    known = {row.url: row for row in rows_of(tmp_path / "alone")}
    dice = random.Random(seed)

    async def life(clock: Clock) -> Band:
        band = Band(tmp_path, meadow, clock)
        begun_at = clock.now()
        founded = charter(band.settings, meadow.seeds)
        await MemoryCoordinator(band.servers[0]).create_crawl(founded)
        for number, name in enumerate(NAMES):
            band.start(name, seeded=number == 0)
        await clock.sleep(dice.uniform(8.0, 30.0))
        await lose_all(band)
        before = Counter(url for name in NAMES for url in pages_of(tmp_path / name))
        assert 0 < len(before) < len(alone), "it was lost in the middle"
        await clock.sleep(500.0)

        short = ShortLived(band.servers[0])
        short.left = dice.randrange(1, 8)
        with pytest.raises(KeyboardInterrupt):
            await rebuild(band, short)
        assert await MemoryCoordinator(band.servers[0]).crawl_spec() is None
        told = await rebuild(band, MemoryRebuilder(band.servers[0]))
        assert told.seen == told.booked + told.waiting
        assert told.booked >= len(before)
        assert told.unreadable == 0
        seen = MemoryCoordinator(band.servers[0]).crawl_state().seen
        missing = {url for url in led_to(tmp_path, known) if key_of(url, founded.key_seed) not in seen}
        assert not missing, "a page that is stored leads there"
        made = await MemoryCoordinator(band.servers[0]).crawl_spec()
        assert made is not None
        assert (made.key_seed, made.seeds) == (founded.key_seed, founded.seeds)
        assert made.settings == founded.settings
        age, lasted = (await MemoryCoordinator(band.servers[0]).totals()).age, clock.now() - begun_at
        assert lasted - 5.0 < age <= lasted, "--time counts from the beginning"

        for name in NAMES:
            band.start(name)
        for summary in (await band.ended()).values():
            assert summary.exit == 0
            assert summary.whole is not None
            assert summary.whole.again == 0, "nobody was late"
        return band

    band = virtual_time.run_in_virtual_time(life)
    stored = Counter(url for name in NAMES for url in pages_of(tmp_path / name))
    assert set(stored) == alone
    assert set(stored.values()) == {1}
    is_polite(band.arrivals)
    visits: dict[str, list[float]] = defaultdict(list)
    for arrival in band.arrivals:
        visits[arrival.host].append(arrival.t)
    slow = [site.authority for site in meadow.plan.sites if site.habits.crawl_delay]
    assert slow
    for host in slow:
        moments = sorted(visits[host])
        assert all(after - before >= 3.0 - 1e-6 for before, after in itertools.pairwise(moments)), host


@pytest.mark.parametrize("servers", [1, 2])
def test_a_coordinator_restored_from_an_old_copy_stops_its_agents_and_is_rebuilt(
    servers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drained agent gets the same error when it returns. Of two servers one has an old copy."""
    monkeypatch.setattr(coordinator_outbox, "KEEP_SENT_SECONDS", 3.0)
    meadow = Meadow(MeadowOptions(hosts=12, pages=200, seed=44, **VARIED))
    alone = pages_alone(tmp_path / "alone", meadow)

    async def is_told(band: Band, name: str) -> None:
        crew, task, web = band.living.pop(name)
        with pytest.raises(CoordinatorDataLost, match="old copy of its data") as told:
            await asyncio.wait_for(task, 60)
        assert "cluster rebuild" in told.value.hint
        await crew.close()
        band.arrivals += web.arrivals

    async def life(clock: Clock) -> Band:
        band = Band(tmp_path, meadow, clock, servers=servers, board__heartbeat="1s")
        await band.board().create_crawl(charter(band.settings, meadow.seeds))
        for number, name in enumerate(NAMES):
            band.start(name, seeded=number == 0)
        await clock.sleep(6.0)
        old = band.servers[-1].snapshot()
        await clock.sleep(9.0)
        (drained,) = [
            note.agent for note in await band.board().list_agents() if str(tmp_path / "c") in str(note.status)
        ]
        await band.board().request_drain(drained)
        crew, task, web = band.living.pop("c")
        assert (await task).exit == 130
        await crew.close()
        band.arrivals += web.arrivals
        await clock.sleep(2.0)
        assert (await band.board().totals()).waiting > 30, "it is in the middle"
        band.servers[-1].restart(old)
        for name in "ab":
            await is_told(band, name)
        band.start("c")
        await is_told(band, "c")

        boards = {f"server {number}": MemoryCoordinator(server) for number, server in enumerate(band.servers)}
        builders = {f"server {number}": MemoryRebuilder(server) for number, server in enumerate(band.servers)}
        told = await rebuild(band, ShardedRebuilder(builders, boards) if servers > 1 else builders["server 0"])
        assert told.unreadable == 0
        for name in NAMES:
            band.start(name)
        for summary in (await band.ended()).values():
            assert summary.exit == 0
        return band

    band = virtual_time.run_in_virtual_time(life)
    stored = Counter(url for name in NAMES for url in pages_of(tmp_path / name))
    assert set(stored) == alone
    is_polite(band.arrivals)
    if servers == 1:
        assert set(stored.values()) == {1}


def test_agents_do_not_join_another_crawl_of_the_same_name(tmp_path: Path) -> None:
    """A new crawl begins before the agents have noticed: they end, and touch nothing of it."""
    meadow = Meadow(MeadowOptions(hosts=6, pages=80, seed=50, page_kb=1.0, links=10))

    async def life(clock: Clock) -> None:
        band = Band(tmp_path, meadow, clock)
        await MemoryCoordinator(band.servers[0]).create_crawl(charter(band.settings, meadow.seeds))
        band.start("a", seeded=True)
        await clock.sleep(10.0)
        band.servers[0].crawls.clear()
        await MemoryCoordinator(band.servers[0]).create_crawl(CrawlSpec(1, "", ()))
        crew, task, _ = band.living.pop("a")
        with pytest.raises(CoordinatorDataLost, match="another crawl of that name"):
            await asyncio.wait_for(task, 60)
        await crew.close()
        books = await MemoryCoordinator(band.servers[0]).totals()
        assert books.seen == 0

    virtual_time.run_in_virtual_time(life)


@pytest.mark.parametrize("seed", [41, 42])
def test_links_in_the_archive_of_a_finished_crawl_are_exactly_its_seen_urls(seed: int, tmp_path: Path) -> None:
    meadow = Meadow(MeadowOptions(hosts=12, pages=200, seed=seed, **VARIED))
    pages_alone(tmp_path / "alone", meadow)
    home = CrawlDir.open(tmp_path / "alone")
    crawl = AgentDirectory(AgentId("a", 1), home, read_checkpoint(home))
    by_links = {link.url for links in crawl.archived_links() for link in links}
    by_robots_txt = {
        link.url
        for host, _, rules in crawl.archived_robots_txt()
        for link in crawl.build_sitemap_requests(host, rules, 0.0)
    }
    rows = rows_of(tmp_path / "alone")
    assert {*meadow.seeds} | by_links | by_robots_txt == {row.url for row in rows}
    assert by_robots_txt == {row.url for row in rows if row.found_as == "sitemap" and "robots.txt" in row.via}
    assert {row.target for row in rows if row.kind is OutcomeKind.MOVED} <= by_links | {*meadow.seeds}
    assert crawl.unreadable == 0
