"""A web whose hosts ask for quiet that lasts longer than a restart: so that a kill cannot hide a gap.

Its hosts have a Crawl-delay, and one request at a time takes them long enough that a
crawl outlives many kills. Whoever forgets over a kill when a host was asked last
comes too soon, and the meadow's log of arrivals shows it.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.testing.meadow.plan import MeadowPlan
from fieldmouse.testing.meadow.server import Arrival
from meadowland import running_meadow

from .scene import MEADOW, SETTINGS, Scene

QUIET = 3.0  # seconds: a restart takes one
PATIENT: dict[str, Any] = MEADOW | {
    "hosts": 30,
    "pages": 240,
    "gamma": 0.4,
    "seed": 11,
    "robots": 1.0,
    "crawl_delay_share": 0.3,
    "crawl_delay": QUIET,
    "latency": 0.05,
}
DELAY = 0.5


@dataclass
class PatientScene(Scene):
    def gaps_to_patient_hosts(self) -> dict[str, int]:
        """Requests that came sooner than the delay, or sooner than their host's robots.txt asks for."""
        options = MeadowOptions(**PATIENT)
        asks = {
            site.origin.removeprefix("http://"): site.habits.crawl_delay
            for site in MeadowPlan(options, self.meadow.port).sites
        }
        visits: dict[tuple[str, str], list[Arrival]] = defaultdict(list)
        for arrival in self.meadow.arrivals():
            visits[arrival.agent, arrival.host].append(arrival)
        short: dict[str, int] = {}
        for (agent, host), each in visits.items():
            too_soon = sum(
                later.t - sooner.t < _least(sooner, later, asks[host]) for sooner, later in itertools.pairwise(each)
            )
            if too_soon:
                short[f"{agent} {host}"] = too_soon
        return short


def _least(sooner: Arrival, later: Arrival, asked: float) -> float:
    """What a host asks for is known when its robots.txt is durable.

    If a kill came before that, nobody knows that it was asked at all: then it is asked for the same once
    more, no sooner than any host.
    """
    if sooner.path == later.path == "/robots.txt":
        return DELAY
    return max(DELAY, asked)


@contextmanager
def patient_scene(scratch: Path) -> Iterator[PatientScene]:
    with running_meadow(**PATIENT) as running:
        made = PatientScene(running, scratch, SETTINGS | {"politeness.delay": f"{DELAY}s"})
        made.learn()
        yield made
