"""Nothing is lost and no site is visited too often, whatever happens to agents and their coordinator.

Real processes on a real server: agents are killed, paused for longer than their lease, drained and added,
cut off from all others in network namespaces, and the server is stopped and killed. The long version, with
four agents, 42 events and 20,000 pages, runs when FIELDMOUSE_UPROAR gives its seed: `make uproar`.
"""

from __future__ import annotations

import itertools
import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cluster.audits import audit_of_server
from cluster.coordinators import needs_server
from fieldmouse.testing.meadow.server import Arrival
from meadowland import running_meadow
from whole.crawling import run

from .namespaces import HOSTS, Rooms, needs_namespaces, rooms
from .uproar import Troop, Uproar, a_troop

ASKED = os.environ.get("FIELDMOUSE_UPROAR", "")  # a seed
SHORT = Uproar(seed=12)
SMALL = {"hosts": 16, "pages": 300, "hosts_per_address": 2, "page_kb": 2.0, "links": 12, "busy": 0.0}
APART = Uproar(seed=13, kills=1, pauses=0, drains=1, joins=0, cuts=5)
SMALL_APART = {"hosts": 16, "pages": 300, "page_kb": 2.0, "links": 12, "busy": 0.0}
LONG = Uproar(seed=int(ASKED or 0), agents=4, kills=15, pauses=12, drains=9, joins=4)
LARGE = {"hosts": 400, "pages": 20_000, "hosts_per_address": 2, "page_kb": 4.0, "links": 20}


@needs_server
@pytest.mark.timeout(1200)
def test_nothing_is_lost_under_random_faults(tmp_path: Path) -> None:
    play(tmp_path, SHORT, SMALL, seed=31)


@needs_server
@needs_namespaces
@pytest.mark.timeout(1200)
def test_nothing_is_lost_when_agents_are_cut_off(tmp_path: Path) -> None:
    with rooms(APART.agents) as places:
        play(tmp_path, APART, SMALL_APART, seed=32, places=places)


@needs_server
@pytest.mark.skipif(not ASKED, reason="played when asked for: make uproar")
@pytest.mark.timeout(7200)
def test_nothing_is_lost_under_random_faults_for_long(tmp_path: Path) -> None:
    play(tmp_path, LONG, LARGE, seed=31)


def play(folder: Path, uproar: Uproar, options: dict[str, Any], *, seed: int, places: Rooms | None = None) -> None:
    apart = {"before": places.servers.words([]), "listen": HOSTS} if places else {}
    with running_meadow(seed=seed, **options, **apart) as meadow:
        truth = meadow.pages()
        with a_troop(uproar, meadow, folder, places) as troop:
            troop.run(len(truth))
            judge(troop, truth)
        meadow.stop()
        arrivals = meadow.arrivals()
        print(f"{len(arrivals)} requests")
        is_polite(arrivals, uproar.delay)


def judge(troop: Troop, truth: set[str]) -> None:
    seen, settled = troop.books()
    assert seen == settled, "something waits"
    audit = audit_of_server(troop.server.client())
    audit.check()
    assert not audit.queued
    assert not audit.owed
    assert troop.fetched() == truth
    twice = troop.fetched_twice()
    print(
        f"{len(truth)} pages, {dict(troop.happened)}; leased at events {dict(troop.held)}; "
        f"fetched twice {len(twice)}; leases lost without an event {troop.starved()}"
    )
    if not troop.starved():
        strange = [url for url, key in troop.keys(twice).items() if key not in troop.leased]
        assert not strange, "fetched twice, though whoever had it was not hurt"
    for member in troop.members:
        assert run("doctor", member.home)["healthy"], member.home.name


def is_polite(arrivals: Sequence[Arrival], delay: float) -> None:
    assert not [arrival for arrival in arrivals if arrival.busy], "two requests at once"
    for kind in ("host", "address"):
        visits: dict[str, list[Arrival]] = defaultdict(list)
        for arrival in arrivals:
            visits[getattr(arrival, kind)].append(arrival)
        for name, each in visits.items():
            for before, after in itertools.pairwise(each):
                assert after.t - before.t >= delay, f"{kind} {name}: {before} {after}"
