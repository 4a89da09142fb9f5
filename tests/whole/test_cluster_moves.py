"""Page moved to one of another agent, in virtual time: only that agent knows that it is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from fieldmouse.clock import Clock
from fieldmouse.cluster.client.identity import read_identity
from fieldmouse.cluster.coordinator import CrawlSpec, LinkOffer, OfferResult, SiteBounds
from fieldmouse.config.settings_file import Settings, render
from fieldmouse.crawler.builder import BuiltCrawl, build_crawl
from fieldmouse.crawler.cluster_agent import CrawlToJoin
from fieldmouse.reader.crawl_reader import MultiCrawlReader
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.testing import virtual_time
from fieldmouse.testing.memory_coordinator import MemoryCoordinator, MemoryServer
from fieldmouse.types.request import Request, RequestKind
from fieldmouse.url import Url
from fieldmouse.workers.inline_worker import InlineWorker

from .changing import HOST, ChangingSite, Shown, Versions
from .virtual_time import CALM, outcomes

OTHER = "http://example.net"
OUT = "http://example.com"
SETTINGS = Settings().override(
    {
        "crawl.seeds": [f"{HOST}/"],
        "politeness.delay": "1s",
        "network.allow_private": True,
        "network.resolve": ["example.org=127.0.0.1", "example.net=127.0.0.2", "example.com=127.0.0.3"],
        **CALM,
        "scope.mode": "web",
        "scope.exclude_hosts": ["example.com"],
        "storage.checkpoint": "3s",
        "refresh.on": True,
        "refresh.policy": "uniform",
        "refresh.budget": "1/s",
    }
)


class Placing(MemoryCoordinator):
    """Hosts go to the agents that the test names."""

    places: ClassVar[dict[str, str]] = {}

    async def offer_links(self, offers: Sequence[LinkOffer], bounds: SiteBounds, *, seeds: bool = False) -> OfferResult:
        placed = [replace(one, agent=self.places.get(one.host, "")) for one in offers]
        return await super().offer_links(placed, bounds, seeds=seeds)


def test_a_page_moved_to_another_agent_leaves_search_after_a_delay(tmp_path: Path) -> None:
    pages = {f"/{n}": Shown(f"old{n}") for n in range(1, 6)}
    now = Versions({"/": Shown("home", links=tuple(pages)), **pages})

    async def life(clock: Clock) -> list[str]:
        server = MemoryServer(clock)
        await Placing(server).create_crawl(CrawlSpec(4711, render(SETTINGS), (f"{HOST}/",)))
        crews: list[BuiltCrawl] = []
        lives: list[asyncio.Future[object]] = []
        for name in "ab":
            home = CrawlDir.create(tmp_path / name, shards=1, settings=render(SETTINGS).encode(), key_seed=4711)
            crew = build_crawl(
                home,
                SETTINGS,
                clock=clock,
                fetcher=ChangingSite(clock, now),
                lane=InlineWorker,
                joining=CrawlToJoin(Placing(server), "fieldmouse", clock.now),
            )
            lives.append(asyncio.ensure_future(crew.crawler.crawl([])))
            crews.append(crew)
            await clock.sleep(5.0)  # until it has joined
        crews[0].stages.indexing.frontier.discover([Request(Url(f"{HOST}/"), kind=RequestKind.SEED)])
        await clock.sleep(60.0)
        home = next(name for name in "ab" if f"{HOST}/1" in known(tmp_path / name))
        other = read_identity(tmp_path / ("b" if home == "a" else "a"))
        assert other is not None
        Placing.places[OTHER] = other.agent
        now.pages["/there"] = Shown("moved here")
        now.pages["/1"] = Shown(status=301, location=f"{OTHER}/there")
        now.pages["/2"] = Shown(status=301, location=f"{OUT}/there")  # which no agent fetches
        await clock.sleep(120.0)
        for crew in crews:
            crew.crawler.stop_by_user()
        await asyncio.gather(*lives)
        for crew in crews:
            await crew.close()
        return [page.url for page in MultiCrawlReader([tmp_path / name for name in "ab"]).pages()]

    stored = virtual_time.run_in_virtual_time(life)
    kept = {f"{HOST}/", *(f"{HOST}/{n}" for n in range(2, 6)), f"{OTHER}/there"}
    assert sorted(stored) == sorted(kept)
    (home,) = (name for name in "ab" if f"{HOST}/1" in known(tmp_path / name))
    (there,) = (name for name in "ab" if f"{OTHER}/there" in known(tmp_path / name))
    assert home != there, "else it would prove nothing"


def known(path: Path) -> set[str]:
    return {str(row.url) for row in outcomes(path) if row.kind == "page"}
