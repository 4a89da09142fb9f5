"""Experiments beyond the BUbiNG thesis: all policies under all laws of host size, and the cost at real sizes.

The thesis compares distinct hosts online. A crawler also pays their cost: draws, appends, reads and a
growing backlog. The same games are also played with a source whose probabilities are permuted every 50000
steps. The ratio of a policy's draws to the smallest possible number for its distinct hosts is the main
measure.

The thesis plays 1000 places and 100000 hosts. Here there are up to 10^6 and 10^7: the time per step must
not grow with the number of hosts, and memory must grow with hosts and places only. Times depend on the
machine; they are shown but not checked.
"""

from __future__ import annotations

import math
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from fieldmouse.policy.distribution.registry import POLICIES
from fieldmouse_lab import catalogue
from fieldmouse_lab.catalogue import Figure, Panel, Progress, Result, Row, Sample, Series, new_row
from fieldmouse_lab.papers.bubing.games import power_law
from fieldmouse_lab.papers.bubing.printed import GAMMAS, PLACES
from fieldmouse_lab.urn.exact import min_draws_per_step
from fieldmouse_lab.urn.game import Game, GameResult
from fieldmouse_lab.urn.play import play, play_many
from fieldmouse_lab.urn.sources import power
from fieldmouse_lab.urn.strategies import Strategy, strategy

STEPS = 200_000
PERMUTED_EVERY = 50_000
GAMES = 3

CAPTION = "dashes: the fewest draws with which any policy can keep K distinct hosts while the law stays"

SOURCES = {"stationary": 0, "changing": PERMUTED_EVERY}


def compared_strategies() -> dict[str, Strategy]:
    """Return the last strategies of the thesis and all policies that a crawl can use."""
    return {
        "alg11": strategy("alg11"),
        "alg12-adapted": strategy("alg12-adapted"),
        "alg12 with T*": strategy("alg12", stop_search=50_000),
        **{name: strategy(name) for name in sorted(POLICIES, reverse=True)},
    }


def _draws_over_bound(outcome: GameResult) -> float:
    return outcome.per_step(outcome.draws) / min_draws_per_step(outcome.p, outcome.distinct_mean)


MEASURES: dict[str, Callable[[GameResult], float]] = {
    "distinct / K": lambda outcome: outcome.distinct_mean / PLACES,
    "draws per step": lambda outcome: outcome.per_step(outcome.draws),
    "draws / fewest possible": _draws_over_bound,
    "backlog growth per step": lambda outcome: outcome.per_step(outcome.backlog),
    "appends per step": lambda outcome: outcome.per_step(outcome.appends),
    "reads per step": lambda outcome: outcome.per_step(outcome.reads),
}


@dataclass(frozen=True, slots=True)
class Score:
    """One measure of one policy at one law."""

    policy: str
    gamma: float
    source: str
    measure: str
    ours: Sample

    def row(self) -> Row:
        return new_row(f"{self.policy}, gamma {self.gamma}, {self.source}, {self.measure}", self.ours)


def scores(policies: dict[str, Strategy], gammas: tuple[float, ...], steps: int, progress: Progress) -> Iterator[Score]:
    rounds = [(name, gamma, source) for source in SOURCES for gamma in gammas for name in policies]
    for name, gamma, source in catalogue.with_progress(rounds, progress, lambda one: "{}, gamma {}, {}".format(*one)):
        every = SOURCES[source] * steps // STEPS
        game = Game(replace(power_law(gamma), permute_every=every), PLACES, steps, policies[name])
        outcomes = play_many([game], range(1, GAMES + 1))[0]
        for measure, of in MEASURES.items():
            yield Score(name, gamma, source, measure, Sample.of([of(outcome) for outcome in outcomes]))


def _panel(results: list[Score], source: str, measure: str, y_log: bool) -> Panel:
    chosen = [score for score in results if score.source == source and score.measure == measure]
    curves = []
    for name in dict.fromkeys(score.policy for score in chosen):
        of_policy = [score for score in chosen if score.policy == name]
        curves.append(Series(name, [score.gamma for score in of_policy], [score.ours.mean for score in of_policy]))
    if measure == "draws per step":
        bound = [min_draws_per_step(power_law(gamma).p, PLACES) for gamma in GAMMAS]
        curves.append(Series("", GAMMAS, bound, "dashes"))
    return Panel("gamma", measure, tuple(curves), source, y_log=y_log)


def _index_guarantee(results: list[Score]) -> str:
    """Summarise the worst results of the index policy over all laws and both sources."""
    of_policy = [score for score in results if score.policy == "index"]
    least = min(score.ours.mean for score in of_policy if score.measure == "distinct / K")
    most = max(score.ours.mean for score in of_policy if score.measure == "draws / fewest possible")
    return f"index keeps at least {least:.4f} K distinct hosts, with at most {most:.3f} times the fewest draws"


def compare_policies(progress: Progress) -> Result:
    """Distinct hosts, draws against the fewest possible, backlog, appends and reads; gamma 0.3 to 1.7."""
    results = list(scores(compared_strategies(), GAMMAS, STEPS, progress))
    shown = (("distinct / K", False), ("draws per step", True), ("backlog growth per step", False))
    panels = tuple(_panel(results, source, measure, log) for source in SOURCES for measure, log in shown)
    return Result(
        tuple(score.row() for score in results),
        (Figure("urn-beyond", "Every policy over every law of host size", panels, CAPTION),),
        (
            f"C = 100000, K = 1000, T = {STEPS}, the last half of it; {GAMES} games each",
            f"a changing source deals its probabilities anew every {PERMUTED_EVERY} steps",
            "mice-and-elephants is Algorithm 12 with delta 5; with T* it names no elephant after 50000 steps",
            "fewest possible holds for a constant law and the mean of D: just after a change of the law a "
            "backlog can replace draws, and where D is small and varies much the bound is too high",
            _index_guarantee(results),
        ),
    )


GAMMA = 0.9
SCALE_STEPS = 1_000_000
SIZES = ((10**3, 10**5), (10**4, 10**6), (10**5, 10**6), (10**5, 10**7), (10**6, 10**7))
SCALE_POLICIES = ("neutral", "mice-and-elephants", "index")


@dataclass(frozen=True, slots=True)
class GameCost:
    """Cost of one game: microseconds per step including the filling, peak megabytes, distinct colours / K."""

    policy: str
    places: int
    hosts: int
    microseconds: float
    megabytes: float
    distinct: float

    def rows(self) -> Iterator[Row]:
        label = f"{self.policy}, K/C {_power_of_ten(self.places)}/{_power_of_ten(self.hosts)}"
        yield new_row(f"{label}, microseconds per step", self.microseconds)
        yield new_row(f"{label}, megabytes", self.megabytes)
        yield new_row(f"{label}, distinct / K", self.distinct)


def _power_of_ten(size: int) -> str:
    return f"10^{math.log10(size):g}"


def measure_cost(policy: str, places: int, hosts: int, steps: int) -> GameCost:
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
    return GameCost(policy, places, hosts, 1e6 * seconds / played, peak / 2**20, outcome.distinct_mean / places)


def _cost_panel(bills: list[GameCost], measure: str, label: str) -> Panel:
    curves = []
    for policy in SCALE_POLICIES:
        of_policy = [one for one in bills if one.policy == policy]
        x = [float(one.hosts + one.places) for one in of_policy]
        curves.append(Series(policy, x, [float(getattr(one, measure)) for one in of_policy]))
    return Panel("hosts and places", label, tuple(curves), x_log=True, y_log=True)


def measure_scale(progress: Progress) -> Result:
    """Microseconds per step and megabytes, at the sizes of section 8.1."""
    play(Game(power(10, GAMMA), 1, 1, strategy("index")), 1)  # compiles the kernel before the clock starts
    rounds = [(policy, *size) for policy in SCALE_POLICIES for size in SIZES]
    steps = catalogue.with_progress(rounds, progress, lambda one: "{}, K {}, C {}".format(*one))
    bills = [measure_cost(policy, places, hosts, SCALE_STEPS) for policy, places, hosts in steps]
    panels = (
        _cost_panel(bills, "microseconds", "microseconds per step"),
        _cost_panel(bills, "megabytes", "megabytes at most"),
    )
    return Result(
        tuple(row for one in bills for row in one.rows()),
        (Figure("urn-scale", "Cost of a step at the sizes of a real crawl", panels),),
        (
            f"gamma {GAMMA}, {SCALE_STEPS} steps after the filling, which counts as steps too",
            "time depends on the machine; memory is that of all arrays, including the source's",
        ),
    )


_POLICIES_TITLE = "Every policy over every law of host size, stationary and changing"
_SCALE_TITLE = "Cost of a step as hosts and places grow to 10^7 and 10^6"

EXPERIMENTS = (
    catalogue.experiment("urn-beyond", _POLICIES_TITLE, compare_policies, group="beyond"),
    catalogue.experiment("urn-scale", _SCALE_TITLE, measure_scale, group="beyond", alone=True),
)
