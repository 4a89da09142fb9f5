"""Comparison of all distribution policies under all laws of host size, stationary and changing.

The thesis compares distinct hosts online. A crawler also pays their cost: draws from the source, appends
to and reads from the disk, and a backlog that grows by the draws that are not used. Hosts also end and
begin, so the same games are played with a source whose probabilities are permuted every 50000 steps. A
policy with D distinct hosts needs at least a number of draws that follows from the law alone; the ratio of
its draws to this bound is the main measure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from fieldmouse.lab.catalogue import Experiment, Figure, Panel, Progress, Result, Row, Series
from fieldmouse.lab.exact import fewest_draws
from fieldmouse.lab.papers.urn_agreement import Throws, only_ours
from fieldmouse.lab.papers.urn_games import law
from fieldmouse.lab.papers.urn_printed import GAMMAS, PLACES
from fieldmouse.lab.urn import Game, Outcome, Strategy, many, strategy
from fieldmouse.policy.distribution import POLICIES

STEPS = 200_000
PERMUTED_EVERY = 50_000
GAMES = 3

CAPTION = "dashes: the fewest draws with which any policy can keep K distinct hosts while the law stays"

SOURCES = {"stationary": 0, "changing": PERMUTED_EVERY}


def contenders() -> dict[str, Strategy]:
    """Return the last strategies of the thesis and all policies that a crawl can use."""
    return {
        "alg11": strategy("alg11"),
        "alg12-adapted": strategy("alg12-adapted"),
        "alg12 with T*": strategy("alg12", stop_search=50_000),
        **{name: strategy(name) for name in sorted(POLICIES, reverse=True)},
    }


def _draws_over_bound(outcome: Outcome) -> float:
    return outcome.per_step(outcome.draws) / fewest_draws(outcome.p, outcome.distinct_mean)


MEASURES: dict[str, Callable[[Outcome], float]] = {
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
    ours: Throws

    def row(self) -> Row:
        return only_ours(f"{self.policy}, gamma {self.gamma}, {self.source}, {self.measure}", self.ours)


def scores(
    policies: dict[str, Strategy], gammas: tuple[float, ...], steps: int, progress: Progress
) -> Iterator[Score]:
    rounds = [(name, gamma, source) for source in SOURCES for gamma in gammas for name in policies]
    for done, (name, gamma, source) in enumerate(rounds):
        progress(done / len(rounds), f"{name}, gamma {gamma}, {source}")
        every = SOURCES[source] * steps // STEPS
        game = Game(replace(law(gamma), permute_every=every), PLACES, steps, policies[name])
        outcomes = many([game], range(1, GAMES + 1))[0]
        for measure, of in MEASURES.items():
            yield Score(name, gamma, source, measure, Throws.of([of(outcome) for outcome in outcomes]))


def _panel(results: list[Score], source: str, measure: str, y_log: bool) -> Panel:
    chosen = [score for score in results if score.source == source and score.measure == measure]
    curves = []
    for name in dict.fromkeys(score.policy for score in chosen):
        of_policy = [score for score in chosen if score.policy == name]
        curves.append(
            Series(name, [score.gamma for score in of_policy], [score.ours.mean for score in of_policy])
        )
    if measure == "draws per step":
        bound = [fewest_draws(law(gamma).p, PLACES) for gamma in GAMMAS]
        curves.append(Series("", GAMMAS, bound, "dashes"))
    return Panel("gamma", measure, tuple(curves), source, y_log=y_log)


def _index_guarantee(results: list[Score]) -> str:
    """Summarise the worst results of the index policy over all laws and both sources."""
    of_policy = [score for score in results if score.policy == "index"]
    least = min(score.ours.mean for score in of_policy if score.measure == "distinct / K")
    most = max(score.ours.mean for score in of_policy if score.measure == "draws / fewest possible")
    return (
        f"index keeps at least {least:.4f} K distinct hosts, with at most {most:.3f} times the fewest draws"
    )


def beyond(progress: Progress) -> Result:
    results = list(scores(contenders(), GAMMAS, STEPS, progress))
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


EXPERIMENTS = (
    Experiment(
        "urn-beyond",
        "beyond",
        "Every policy over every law of host size, stationary and changing",
        "Distinct hosts, draws against the fewest possible, backlog, appends and reads; gamma 0.3 to 1.7.",
        beyond,
    ),
)
