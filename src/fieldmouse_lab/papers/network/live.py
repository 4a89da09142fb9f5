"""Balancing rules on live agents in four places, with each host near one of them.

The simulated web of the thesis (`network`) plays rules alone. Here they run in the crawler, with leases,
robots.txt, delays and the cost of moving a host. The web server counts pages per second.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import mean

from fieldmouse_lab.catalogue import Figure, Panel, Progress, Result, Row, Series, crawl_each, experiment, new_row
from fieldmouse_lab.network.live_trial import RegionSetup, RegionTrialResult, run_live_trial

RULES = ("priced", "kalman", "hash", "ipmicra", "shortest-delay", "two-choices")
#: Seeds that were not used for any choice of parameters.
SEEDS = (501, 502, 503)
_STRETCHES = 20  # parts of a crawl, in the figure

#: By rule and seed.
Crossings = Mapping[tuple[str, int], RegionTrialResult]


@dataclass(frozen=True, slots=True)
class NetworkExperiment:
    """One setup for all rules and seeds."""

    name: str
    region: RegionSetup
    rules: tuple[str, ...] = RULES
    seeds: tuple[int, ...] = SEEDS

    def run(self, progress: Progress) -> Result:
        return self.result(crawl_each(self.rules, self.seeds, progress, partial(run_live_trial, self.region)))

    def result(self, found: Crossings) -> Result:
        rows = [self._row(rule, found) for rule in self.rules]
        rows += [self._lead(rule, found) for rule in self.rules if rule != "priced"]
        return Result(tuple(rows), (self._figure(found),), tuple(self._remarks(found)))

    def _row(self, rule: str, found: Crossings) -> Row:
        each = [found[rule, seed] for seed in self.seeds]
        note = (
            f"{mean(one.near_share() for one in each):.0%} of the later requests from near by, "
            f"{mean(one.moves_a_request for one in each):.3f} moves a request"
        )
        return new_row(f"pages a second, {rule}", [one.pace for one in each], note)

    def _lead(self, rule: str, found: Crossings) -> Row:
        ratios = [found["priced", seed].pace / found[rule, seed].pace for seed in self.seeds]
        return new_row(f"priced over {rule}", ratios, f"at least {min(ratios):.2f}")

    def _remarks(self, found: Crossings) -> list[str]:
        land = self.region
        seen = [len(one.times) for one in found.values()]
        return [
            f"{land.places} agents in as many places, {land.robots} robots each; {land.hosts} hosts with "
            f"{land.pages:,} pages. An answer takes {1000 * land.near:g} ms more within a place and "
            f"{1000 * land.far:g} ms from one to another; a host rests {1000 * land.delay:g} ms after each.",
            f"Real processes and a real server: {min(seen):,} to {max(seen):,} requests; pages a second over "
            "the middle eight tenths of them, as the web server saw it.",
        ]

    def _figure(self, found: Crossings) -> Figure:
        seed = self.seeds[0]
        near, pace = [], []
        for rule in self.rules:
            one = found[rule, seed]
            ends = [len(one.times) * place // _STRETCHES for place in range(_STRETCHES + 1)]
            stretches = list(pairwise(ends))
            shares = [sum(one.near[first:last]) / (last - first) for first, last in stretches]
            near.append(Series(rule, ends[1:], shares))
            step = max(1, len(one.times) // 100)
            pace.append(Series(rule, one.times[::step], list(range(0, len(one.times), step))))
        return Figure(
            self.name,
            "Agents in four places, one web",
            (
                Panel("requests so far", "share from the host's own place", tuple(near)),
                Panel("seconds", "requests", tuple(pace)),
            ),
            f"Seed {seed}. Rules that learn the places of hosts assign them to near agents.",
        )


ABOUT = "Real agents with a real coordinator crawl a meadow whose answers take longer from one place to another. "

NETWORK_EXPERIMENTS = (
    (
        NetworkExperiment("live-network", RegionSetup()),
        "Six rules that assign hosts to agents, live",
        "Hosts are visited as fast as they allow, so only distance matters; takes half an hour.",
    ),
    (
        NetworkExperiment(
            "live-network-busy",
            RegionSetup(hosts=48, pages=2_400, near=0.05, far=0.3, delay=0.05, robots=1),
            rules=("priced", "ipmicra", "kalman", "hash", "shortest-delay"),
        ),
        "Five rules with few fetch workers, live",
        "Each agent has one fetch worker: hosts wait for it, so a rule must weigh distance against load.",
    ),
)

EXPERIMENTS = tuple(
    experiment(terrain.name, title, terrain.run, ABOUT + how, alone=True) for terrain, title, how in NETWORK_EXPERIMENTS
)
