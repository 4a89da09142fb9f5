"""A crawl never hangs and loses nothing while agents come and go, under every balance policy.

Agents join, are drained, terminated, killed and forgotten on a web whose hosts keep running dry. The long
version runs when FIELDMOUSE_SOAK gives its seed, for FIELDMOUSE_SOAK_MINUTES (10) a policy: `make soak`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cluster.coordinators import needs_server

from .soak import DELAY, EVENTS, a_soak
from .test_uproar import is_polite, judge

ASKED = os.environ.get("FIELDMOUSE_SOAK", "")
MINUTES = float(os.environ.get("FIELDMOUSE_SOAK_MINUTES", "10"))


def play(folder: Path, seed: int, policy: str, events: int, seconds: float = 0.0) -> dict[str, int]:
    with a_soak(seed, policy, folder) as (troop, web):
        troop.soak(web, events, seconds)
        judge(troop, web.pages())
    is_polite(web.arrivals_so_far, DELAY)
    print(f"{policy}: {troop.happened.total()} events, {len(web.arrivals_so_far)} requests")
    return dict(troop.happened)


@needs_server
@pytest.mark.timeout(1200)
def test_a_crawl_ends_while_agents_come_and_go(tmp_path: Path) -> None:
    happened = play(tmp_path, seed=41, policy="priced", events=12)
    assert len(happened) >= 4, "too few kinds of events to prove anything"


@needs_server
@pytest.mark.skipif(not ASKED, reason="runs when asked for: make soak")
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("policy", ["priced", "kalman", "hash"])
def test_a_crawl_ends_while_agents_come_and_go_for_long(tmp_path: Path, policy: str) -> None:
    happened = play(tmp_path, int(ASKED), policy, events=100, seconds=MINUTES * 60)
    assert set(happened) == set(EVENTS)
