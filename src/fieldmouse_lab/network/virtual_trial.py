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
from fieldmouse.cluster.coordinator import Charter
from fieldmouse.config.settings_file import Settings
from fieldmouse.config.toml_format import render
from fieldmouse.crawler.builder import build
from fieldmouse.crawler.cluster import Joining
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.testing import virtual_time
from fieldmouse.testing.meadow.fetcher import MeadowFetcher
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.memory_coordinator import MemoryBoard, MemoryServer
from fieldmouse.url import Url
from fieldmouse.workers.inline_worker import InlineLane
from fieldmouse_lab.network.live_trial import VISITORS, Crossing, Region, crossing


def crossed(path: Path, land: Region, policy: str, seed: int) -> tuple[Crossing, list[bytes]]:
    """Crawl once into `path`, with an agent in every place; return the result and the learned data of each
    host."""
    meadow = Meadow(msgspec.structs.replace(land.options(seed, path), arrivals=None))
    settings = Settings().override(
        {
            "crawl.seeds": list(meadow.seeds), "politeness.delay": f"{land.delay * 1000:g}ms",
            "network.allow_private": True, "scope.mode": "web", "storage.checkpoint": "10m",
            "storage.min_free": "0B", "fetch.concurrency": str(land.robots), **land.settings(policy),
        }
    )  # fmt: skip

    async def life(clock: Clock) -> tuple[Crossing, list[bytes]]:
        server = MemoryServer(clock)
        await MemoryBoard(server).found(Charter(4711, render(settings), tuple(meadow.seeds)))
        crews, lives, webs = [], [], []
        for place in range(1, land.places + 1):
            written = render(settings).encode()
            home = CrawlDir.create(path / str(place), shards=1, settings=written, key_seed=4711)
            web = MeadowFetcher(meadow, clock, source=f"{VISITORS}.{place}")
            crew = build(
                home, settings, clock=clock, fetcher=web, lane=InlineLane,
                joining=Joining(MemoryBoard(server), "fieldmouse", clock.now),
            )  # fmt: skip
            seeds = [Url(seed) for seed in meadow.seeds] if place == 1 else []
            lives.append(asyncio.ensure_future(crew.agent.crawl(seeds)))
            crews.append(crew)
            webs.append(web)
        await asyncio.gather(*lives)
        for crew in crews:
            await crew.close()
        arrivals = sorted((one for web in webs for one in web.arrivals), key=lambda arrival: arrival.t)
        hosts = server.crawls["fieldmouse"].hosts.values()
        return crossing(meadow.plan, arrivals), [record.luggage.learned for record in hosts]

    return virtual_time.run(life)
