"""The clock set back or forward between two runs: waits last as long as they should, and no longer."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from fieldmouse.lab import bottle
from fieldmouse.lab.meadow.fetcher import MeadowFetcher
from fieldmouse.lab.meadow.meadow import Meadow
from fieldmouse.lab.meadow.options import MeadowOptions

from .bottled import bottled_crawl, bottled_kill, outcomes

HOUR = 3600.0
# Every host answers the first request for a page with 429 and ten minutes to wait; some pages fail once.
OPTIONS = MeadowOptions(
    hosts=3, pages=40, seed=3, page_kb=1.0, links=15, busy=1.0, busy_seconds=600, server_error=0.2,
    stalling=0.5,
)  # fmt: skip


@pytest.mark.parametrize("jump", [-5 * HOUR, -300.0, 5 * HOUR])
@pytest.mark.parametrize("kills", [(100.0,), (100.0, 30.0)])
def test_a_crawl_goes_on_after_its_waits_and_not_after_the_jump(
    tmp_path: Path, jump: float, kills: tuple[float, ...]
) -> None:
    meadow = Meadow(OPTIONS)
    now, real = bottle.EPOCH, 0.0  # what the clock shows, and the time that has passed in truth
    visits: list[tuple[float, str, str]] = []
    for after in (*kills, None):
        run = {"epoch": now, "politeness__delay": "2s", "network__allow_private": True}
        if after is not None:
            summary, web = bottled_kill(
                tmp_path / "c", lambda clock: MeadowFetcher(meadow, clock), meadow.seeds,
                after=after, storage__checkpoint="20s", **run,
            )  # fmt: skip
            assert summary is None
            lasted = after
        else:
            summary, web = bottled_crawl(
                tmp_path / "c", lambda clock: MeadowFetcher(meadow, clock), meadow.seeds, **run
            )
            assert summary is not None
            lasted = summary.seconds
        visits += [(a.t - now + real, a.host, a.path) for a in web.arrivals]
        now, real = now + lasted + jump, real + lasted
    assert summary.lost == summary.waiting == 0
    assert lasted < 2 * HOUR
    for host in {host for _, host, _ in visits}:
        times = [t for t, name, _ in visits if name == host]
        assert min(later - sooner for sooner, later in itertools.pairwise(times)) >= 2.0 - 1e-6
        if jump <= 0:  # forward, the clock may say that the time is over
            asked = [t for t, name, path in visits if name == host and path != "/robots.txt"]
            assert asked[1] - asked[0] >= 600.0 - 1e-6
    stored = {row.url for row in outcomes(tmp_path / "c") if row.kind == "page"}
    assert stored == {fact.url for fact in meadow.truth() if fact.allowed and fact.status == 200}
