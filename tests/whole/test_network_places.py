"""Whole agents in several places, in virtual time: what they learn of hosts, and who visits these."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fieldmouse.agent.build import build
from fieldmouse.agent.network import Joining
from fieldmouse.balancer.board.contract import Charter
from fieldmouse.balancer.board.memory.board import MemoryBoard, MemoryServer
from fieldmouse.balancer.choice import UNIT
from fieldmouse.clock import Clock
from fieldmouse.crawldir import CrawlDir
from fieldmouse.indexer.inline import InlineLane
from fieldmouse.lab import bottle
from fieldmouse.lab.meadow.fetcher import MeadowFetcher
from fieldmouse.lab.meadow.meadow import Meadow
from fieldmouse.lab.meadow.options import MeadowOptions
from fieldmouse.lab.network.places import VISITORS, Crossing, crossing
from fieldmouse.policy.balance.triprow import TripRow
from fieldmouse.settings import Settings, render
from fieldmouse.url import Url

from .bottled import CALM

PLACES, NEAR, FAR = 3, 0.005, 0.5


def crossed(path: Path, policy: str) -> tuple[Crossing, list[TripRow]]:
    """A small web crawled from three places; what its hosts saw, and what was learned of each."""
    meadow = Meadow(
        MeadowOptions(
            hosts=6, pages=240, gamma=0.0, seed=9, page_kb=1.0, links=10, places=PLACES, near=NEAR, far=FAR,
            busy=0.0, server_error=0.0,
        )
    )  # fmt: skip
    settings = Settings().override(
        {
            "crawl.seeds": list(meadow.seeds), "politeness.delay": "200ms", "network.allow_private": True,
            "scope.mode": "web", "board.policy": policy, "board.heartbeat": "1s", **CALM,
        }
    )  # fmt: skip

    async def life(clock: Clock) -> tuple[Crossing, list[TripRow]]:
        server = MemoryServer(clock)
        await MemoryBoard(server).found(Charter(4711, render(settings), tuple(meadow.seeds)))
        crews, lives, webs = [], [], []
        for place in range(1, PLACES + 1):
            home = CrawlDir.create(
                path / str(place), shards=1, settings=render(settings).encode(), key_seed=4711
            )
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
        kind = "delays" if policy == "kalman" else "trips"
        return (
            crossing(meadow.plan, arrivals),
            [TripRow.from_row(record.luggage.learned, kind) for record in hosts],
        )

    return bottle.run(life)


def test_no_host_is_learned_to_wait_longer_than_it_did(tmp_path: Path) -> None:
    """A host that comes to an agent waits there from then on; robots are free all the time here."""
    seen, rows = crossed(tmp_path, "kalman")
    assert len(rows) == seen.hosts
    means = [mean * UNIT for row in rows for mean in row.mean]
    assert len(means) > len(rows), "some hosts were visited from several places"
    assert max(means) < 10.0, "seconds, not the age of the epoch"
