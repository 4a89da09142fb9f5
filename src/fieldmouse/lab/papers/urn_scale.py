"""Cost of the urn game at the sizes of a real crawl (section 8.1): up to 10^6 places and 10^7 hosts.

The thesis plays 1000 places and 100000 hosts "to decrease the computation time". The time per step must
not grow with the number of hosts, and memory must grow with hosts and places only. Times depend on the
machine; they are shown but not checked.
"""

from __future__ import annotations

import math
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass

from fieldmouse.lab.catalogue import Experiment, Figure, Panel, Progress, Result, Row, Series
from fieldmouse.lab.papers.urn_agreement import only_ours
from fieldmouse.lab.urn import Game, play, power, strategy

GAMMA = 0.9
STEPS = 1_000_000
SIZES = ((10**3, 10**5), (10**4, 10**6), (10**5, 10**6), (10**5, 10**7), (10**6, 10**7))
POLICIES = ("neutral", "mice-and-elephants", "index")


@dataclass(frozen=True, slots=True)
class Bill:
    """Cost of one game: microseconds per step including the filling, peak megabytes, distinct colours / K."""

    policy: str
    places: int
    hosts: int
    microseconds: float
    megabytes: float
    distinct: float

    def rows(self) -> Iterator[Row]:
        label = f"{self.policy}, K/C {_power_of_ten(self.places)}/{_power_of_ten(self.hosts)}"
        yield only_ours(f"{label}, microseconds per step", self.microseconds)
        yield only_ours(f"{label}, megabytes", self.megabytes)
        yield only_ours(f"{label}, distinct / K", self.distinct)


def _power_of_ten(size: int) -> str:
    return f"10^{math.log10(size):g}"


def bill(policy: str, places: int, hosts: int, steps: int) -> Bill:
    tracemalloc.start()
    try:
        game = Game(power(hosts, GAMMA), places, steps, strategy(policy))
        started = time.perf_counter()
        outcome = play(game, 1)
        seconds = time.perf_counter() - started
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    played = places + steps
    return Bill(policy, places, hosts, 1e6 * seconds / played, peak / 2**20, outcome.distinct_mean / places)


def _cost_panel(bills: list[Bill], measure: str, label: str) -> Panel:
    curves = []
    for policy in POLICIES:
        of_policy = [one for one in bills if one.policy == policy]
        x = [float(one.hosts + one.places) for one in of_policy]
        curves.append(Series(policy, x, [float(getattr(one, measure)) for one in of_policy]))
    return Panel("hosts and places", label, tuple(curves), x_log=True, y_log=True)


def scale(progress: Progress) -> Result:
    play(Game(power(10, GAMMA), 1, 1, strategy("index")), 1)  # compiles the kernel before the clock starts
    bills = []
    rounds = [(policy, *size) for policy in POLICIES for size in SIZES]
    for done, (policy, places, hosts) in enumerate(rounds):
        progress(done / len(rounds), f"{policy}, K {places}, C {hosts}")
        bills.append(bill(policy, places, hosts, STEPS))
    panels = (
        _cost_panel(bills, "microseconds", "microseconds per step"),
        _cost_panel(bills, "megabytes", "megabytes at most"),
    )
    return Result(
        tuple(row for one in bills for row in one.rows()),
        (Figure("urn-scale", "Cost of a step at the sizes of a real crawl", panels),),
        (
            f"gamma {GAMMA}, {STEPS} steps after the filling, which counts as steps too",
            "time depends on the machine; memory is that of all arrays, including the source's",
        ),
    )


EXPERIMENTS = (
    Experiment(
        "urn-scale",
        "beyond",
        "Cost of a step as hosts and places grow to 10^7 and 10^6",
        "Microseconds per step and megabytes, at the sizes of section 8.1.",
        scale,
        alone=True,
    ),
)
