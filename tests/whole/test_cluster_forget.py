"""Forgotten agents that return with their directory after their URLs were queued again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from fieldmouse.clock import Clock
from fieldmouse.cluster.client.identity import read_original_identity
from fieldmouse.doctor.check.examine import check_crawl
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.testing import virtual_time
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.testing.memory_coordinator import MemoryCoordinator

from .test_cluster_virtual_time import Band, charter, is_polite, pages_alone, pages_of


@pytest.mark.parametrize("ahead", [0.0, 12.0, 4000.0])
def test_outcomes_of_a_forgotten_agent_count_unless_others_were_first(ahead: float, tmp_path: Path) -> None:
    """A new agent is `ahead` by this many seconds when the forgotten one returns."""
    meadow = Meadow(MeadowOptions(hosts=12, pages=200, seed=13, page_kb=1.0, links=10, robots=0.5, broken=0.02))
    alone = pages_alone(tmp_path / "alone", meadow)

    async def life(clock: Clock) -> Band:
        band = Band(tmp_path, meadow, clock)
        board = MemoryCoordinator(band.servers[0])
        await board.create_crawl(charter(band.settings, meadow.seeds))
        for number, name in enumerate("ab"):
            band.start(name, seeded=not number)
        await band.ended()
        before, had = await board.totals(), pages_of(tmp_path / "a")
        assert before.kinds["page"] == len(alone) == len(had) + len(pages_of(tmp_path / "b"))
        who = read_original_identity(tmp_path / "a")
        assert who is not None
        again = await board.forget_agent(who.agent, again=True)
        assert again >= len(had) > 0
        assert (await board.totals()).kinds["page"] == len(alone) - len(had)
        if ahead:
            band.start("c")
            await clock.sleep(ahead)
        band.start("a")
        for summary in (await band.ended()).values():
            assert (summary.exit, summary.lost) == (0, 0)
        after = await board.totals()
        assert (after.seen, after.settled, after.kinds) == (before.seen, before.settled, before.kinds)
        # Its present pages may be requested once more, at most.
        kept = await board.forget_agent(who.agent, again=True)
        assert kept == again if not ahead else kept < again
        return band

    band = virtual_time.run_in_virtual_time(life)
    names = "abc" if ahead else "ab"
    copies = {name: pages_of(tmp_path / name) for name in names}
    stored = Counter(url for urls in copies.values() for url in urls)
    assert set(stored) == alone, "nothing is missing in what is still there"
    twice = {url for url, times in stored.items() if times > 1}
    assert twice == set(copies.get("c", ())), "nothing was fetched but what came to others before"
    if ahead > 1000:
        assert twice == set(copies["a"])
    is_polite(band.arrivals)
    for name in names:
        assert not [finding for finding in check_crawl(CrawlDir.open(tmp_path / name)) if not finding.healthy]
