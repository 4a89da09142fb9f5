"""Measures from the request log of a crawl by agents in several places, as in `lab run live-network`."""

from __future__ import annotations

from itertools import cycle, islice
from pathlib import Path

import pytest

from cluster.coordinators import needs_server
from fieldmouse.testing.meadow.plan import MeadowPlan
from fieldmouse.testing.meadow.server import Arrival
from fieldmouse_lab import findings
from fieldmouse_lab.network.live_trial import (
    AGENT_ADDRESSES,
    RegionSetup,
    RegionTrialResult,
    result_from_arrivals,
    run_live_trial,
)
from fieldmouse_lab.papers.network.live import NetworkExperiment

REGION = RegionSetup(hosts=8, pages=80)


def arrival(plan: MeadowPlan, t: float, host: int, place: int) -> Arrival:
    site = plan.sites[host]
    return Arrival(t, str(site.address), site.address, "/", 0, "fieldmouse", f"{AGENT_ADDRESSES}.{place}")


def test_near_requests_and_moves_are_counted_by_host(tmp_path: Path) -> None:
    plan = MeadowPlan(REGION.options(3, tmp_path), 80)
    home = [site.place for site in plan.sites]
    away = [place % REGION.places + 1 for place in home]
    # Host 0 is asked from far, then twice from near; host 1 from near, far and near again.
    places = [(0, away[0]), (1, home[1]), (0, home[0]), (1, away[1]), (0, home[0]), (1, home[1])]
    seen = result_from_arrivals(plan, [arrival(plan, 10 + n, *each) for n, each in enumerate(places)])
    assert seen.near == [False, True, True, False, True, True]
    assert (seen.moves, seen.hosts) == (3, 2)
    assert seen.moves_a_request == 0.5
    assert seen.times == [0, 1, 2, 3, 4, 5]
    assert seen.near_share(0.0) == pytest.approx(4 / 6)
    assert seen.near_share(0.5) == pytest.approx(2 / 3)


def steady(pace: float, near: list[bool]) -> RegionTrialResult:
    return RegionTrialResult([n / pace for n in range(200)], list(islice(cycle(near), 200)), 20, 8)


def test_the_pace_excludes_the_start_and_the_end_of_a_crawl() -> None:
    slow_ends = [-50.0] * 10 + [n / 40 for n in range(180)] + [90.0] * 10
    assert RegionTrialResult(slow_ends, [True] * 200, 0, 8).pace == pytest.approx(40)


def test_leads_report_the_worst_seed() -> None:
    terrain = NetworkExperiment("t", REGION, rules=("priced", "hash"), seeds=(1, 2))
    found = {
        ("priced", 1): steady(60, [True]),
        ("priced", 2): steady(50, [True]),
        ("hash", 1): steady(30, [True, False]),
        ("hash", 2): steady(40, [True, False]),
    }
    result = terrain.result(found)
    rows = {row.label: row for row in result.rows}
    assert rows["pages a second, priced"].ours == pytest.approx(55)
    assert rows["priced over hash"].ours == pytest.approx((2 + 1.25) / 2)
    assert rows["priced over hash"].note == "at least 1.25"
    assert findings.encode_findings([findings.LabFinding("t", "live", "", "", result, 1.0)]), "it can be kept"
    assert rows["pages a second, hash"].note.startswith("50% of the later requests from near by, 0.100 moves")


@needs_server
def test_agents_in_two_places_crawl_the_whole_meadow(tmp_path: Path) -> None:
    region = RegionSetup(hosts=4, pages=40, places=2, far=0.05, delay=0.02)
    seen = run_live_trial(region, "priced", tmp_path / "room", 5)
    assert seen.hosts == 4
    assert len(seen.times) >= 40
