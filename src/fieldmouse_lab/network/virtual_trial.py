"""Trial of agents in several places, in virtual time.

Whole agents run with an in-memory coordinator and the synthetic web's fetcher. A trial takes seconds where
real processes take minutes. A seed determines the web, but not the course of the crawl, because agents
draw at random.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from fieldmouse.clock import Clock
from fieldmouse.cluster.coordinator import CrawlSpec
from fieldmouse.config.settings_file import Settings, render
from fieldmouse.crawler.builder import build_crawl
from fieldmouse.crawler.cluster_agent import CrawlToJoin
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.testing import virtual_time
from fieldmouse.testing.meadow.fetcher import MeadowFetcher
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.memory_coordinator import MemoryCoordinator, MemoryServer
from fieldmouse.url import Url
from fieldmouse.workers.inline_worker import InlineWorker
from fieldmouse_lab.network.live_trial import AGENT_ADDRESSES, RegionSetup, RegionTrialResult, result_from_arrivals


def run_virtual_trial(path: Path, land: RegionSetup, policy: str, seed: int) -> tuple[RegionTrialResult, list[bytes]]:
    """Crawl once into `path`, with an agent in every place; return the result and the learned data of each
    host."""
    meadow = Meadow(msgspec.structs.replace(land.options(seed, path), arrivals=None))
    settings = Settings().override(
        {
            "crawl.seeds": list(meadow.seeds),
            "politeness.delay": f"{land.delay * 1000:g}ms",
            "network.allow_private": True,
            "scope.mode": "web",
            "storage.checkpoint": "10m",
            "storage.min_free": "0B",
            "fetch.concurrency": str(land.robots),
            **land.settings(policy),
        }
    )

    async def life(clock: Clock) -> tuple[RegionTrialResult, list[bytes]]:
        server = MemoryServer(clock)
        await MemoryCoordinator(server).create_crawl(CrawlSpec(4711, render(settings), tuple(meadow.seeds)))
        crews, lives, webs = [], [], []
        for place in range(1, land.places + 1):
            written = render(settings).encode()
            home = CrawlDir.create(path / str(place), shards=1, settings=written, key_seed=4711)
            web = MeadowFetcher(meadow, clock, source=f"{AGENT_ADDRESSES}.{place}")
            crawl_parts = build_crawl(
                home,
                settings,
                clock=clock,
                fetcher=web,
                lane=InlineWorker,
                joining=CrawlToJoin(MemoryCoordinator(server), "fieldmouse", clock.now),
            )
            seeds = [Url(seed) for seed in meadow.seeds] if place == 1 else []
            lives.append(asyncio.ensure_future(crawl_parts.crawler.crawl(seeds)))
            crews.append(crawl_parts)
            webs.append(web)
        await asyncio.gather(*lives)
        for crawl_parts in crews:
            await crawl_parts.close()
        arrivals = sorted((one for web in webs for one in web.arrivals), key=lambda arrival: arrival.t)
        hosts = server.crawls["fieldmouse"].hosts.values()
        return result_from_arrivals(meadow.plan, arrivals), [record.payload.policy_data for record in hosts]

    return virtual_time.run_in_virtual_time(life)
