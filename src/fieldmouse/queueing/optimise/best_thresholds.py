"""Optimal threshold rules: the cheapest one, and the best within bounds.

Small models are solved for every rule. Larger ones are searched downhill, by exact solution or by simulation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations, combinations_with_replacement

import numpy as np

from fieldmouse.errors import FieldmouseError
from fieldmouse.queueing.model.model import CostWeights, Measures, Model, WorkersByLevel, cost_of, count_states
from fieldmouse.queueing.model.phase_type import PhaseType
from fieldmouse.queueing.model.validation import FloatArray, IntArray, ModelError
from fieldmouse.queueing.optimise.evaluated_rules import (
    EvaluatedRules,
    can_try_all_rules,
    check_modes,
    measure_all_rules,
)
from fieldmouse.queueing.simulate import SimulatedMeasures, simulate
from fieldmouse.queueing.solve.solve import solve

#: Of all modes but the smallest, the largest first; -1 is a mode that is not used.
Limits = tuple[int, ...]


def search_downhill(
    model: Model, weights: CostWeights, robots: tuple[int, ...], starts: Iterable[Limits]
) -> tuple[Limits, float, int]:
    """The best limits on any walk, their cost, and how many rules were looked at; `robots` never rises."""
    seen: dict[Limits, float] = {}

    def height(limits: Limits) -> float:
        if limits not in seen:
            rule = WorkersByLevel.from_limits(robots, limits, model.highest_level)
            seen[limits] = cost_of(solve(model, rule), weights)
        return seen[limits]

    def walk_downhill(here: Limits) -> Limits:
        while (
            there := next(
                (near for near in _neighbours(here, model.highest_level) if height(near) < height(here)), None
            )
        ) is not None:
            here = there
        return here

    best = min(map(walk_downhill, starts), key=lambda end: (height(end), end))
    return best, height(best), len(seen)


def _neighbours(limits: Limits, top: int) -> Iterator[Limits]:
    """Limits from `first` to `last` moved together, the others pushed aside where they are in the way."""
    step = 1 << (top.bit_length() - 1)
    while step:
        for first, last in combinations_with_replacement(range(len(limits)), 2):
            for move in (-step, step):
                shifted = [min(top, max(-1, limit + move)) for limit in limits]
                before = [min(limit, shifted[first]) for limit in limits[:first]]
                after = [max(limit, shifted[last]) for limit in limits[last + 1 :]]
                moved = (*before, *shifted[first : last + 1], *after)
                if moved != limits:
                    yield moved
        step //= 2


#: Costs that differ relatively by less are the same: the rule with fewer modes, then lower limits, wins.
TIE = 1e-12

#: States of a rule's chain up to which the rules of two modes are searched.
MOST_STATES_OF_RULE = 100_000

#: Number of the best pairs of modes from which local searches start.
STARTS = 3

#: Measures of which less is better, and what the paper calls them.
SCALES = {
    "loss": "P_loss",
    "obs": "P_obs",
    "star": "P_star",
    "robots": "N_act",
    "sojourn": "V",
    "sojourn_served": "V1",
    "loss_rate": "lambda P_loss",
    "obs_rate": "lambda P_obs",
}


@dataclass(frozen=True, slots=True)
class RuleWithCost:
    """`robots[0]` fetch workers run while the level is at most `limits[0]`, and so on; J is the cost."""

    robots: tuple[int, ...]
    limits: tuple[int, ...]
    J: float


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best rule, the best of each subset of modes, and how many rules were looked at.

    Where there are too many rules to try all, `exhaustive` is False: the rule was found by
    walking downhill, and `subsets` has single modes and pairs only.
    """

    robots: tuple[int, ...]
    limits: tuple[int, ...]
    J: float
    measures: Measures
    subsets: tuple[RuleWithCost, ...]
    rules: int
    exhaustive: bool = True


@dataclass(frozen=True, eq=False)
class ConstrainedOptimum:
    """The rule with least of a measure within bounds.

    `multipliers` say how fast the measure would fall if a bound were loosened, rules
    taken in turn; `floor` is what taking rules in turn could reach, never more than `value`.
    """

    robots: tuple[int, ...]
    limits: tuple[int, ...]
    value: float
    measures: Measures
    multipliers: dict[str, float]
    floor: float


class BoundsUnreachable(FieldmouseError):
    """No rule keeps within all the bounds."""


def optimise(model: Model, cost: CostWeights, modes: Sequence[int] | None = None) -> Optimum:
    """The best rule that uses some of the modes, limits of 0 and more, equal ones allowed."""
    if not can_try_all_rules(model, modes):
        return _optimise_by_search(model, cost, check_modes(model, modes))
    ground = measure_all_rules(model, modes)
    J = ground.costs(cost)
    best = {
        used: _plainest_best(ground, J, np.flatnonzero(ground.used_mode_bits == used))
        for used in set(ground.used_mode_bits.tolist())
    }
    subsets = []
    for size in range(1, len(ground.modes) + 1):
        for some in combinations(reversed(range(len(ground.modes))), size):
            # The largest works at least on the empty system; the others as they are worth it.
            bits = sum(1 << k for k in some)
            within = [rule for used, rule in best.items() if not used & ~bits and used >> some[0]]
            rule = _plainest_best(ground, J, np.array(within))
            robots = tuple(ground.modes[k] for k in some)
            subsets.append(RuleWithCost(robots, ground.limits_of_rule(rule, robots), float(J[rule])))
    rule = _plainest_best(ground, J, np.array(list(best.values())))
    winner = rule_from_table(ground, rule, J)
    measures = solve(model, ground.rule_by_level(rule))
    return Optimum(winner.robots, winner.limits, winner.J, measures, tuple(subsets), len(ground))


def _optimise_by_search(model: Model, cost: CostWeights, modes: tuple[int, ...]) -> Optimum:
    """Downhill from the best pairs, or with two modes from the best limits among powers of two; for other
    lifetimes, from where exponential ones would lead."""
    robots, top = tuple(reversed(modes)), model.highest_level
    if model.lifetime.is_exponential:
        if len(modes) == 1 or (len(modes) == 2 and count_states(model, 1) > MOST_STATES_OF_RULE):
            measure_all_rules(model, modes)  # says that there are too many rules
        smaller = [optimise(model, cost, some) for some in combinations(modes, min(2, len(modes) - 1))]
        found = {one.robots: one for some in smaller for one in some.subsets}
        if len(modes) == 2:
            rules = {1 << k: WorkersByLevel.from_limits(robots, (1 << k,), top) for k in range(top.bit_length())}
            tried = [RuleWithCost(robots, (at,), cost_of(solve(model, rule), cost)) for at, rule in rules.items()]
            found[robots] = min(tried, key=lambda one: one.J)
        best = sorted(found.values(), key=lambda one: one.J)[:STARTS]
    else:
        found = {}
        guess = optimise(_with_exponential_lifetime(model), cost, modes)
        best = [RuleWithCost(guess.robots, guess.limits, guess.J)]
    starts = [_limits_among_modes(one, robots, top) for one in best]
    limits, J, seen = search_downhill(model, cost, robots, starts)
    rule = WorkersByLevel.from_limits(robots, limits, top)
    used = sorted({rule.concurrency_at(level) for level in range(top + 1)}, reverse=True)
    winner = tuple(max(k for k, mode in enumerate(rule.robots) if mode == one) for one in used[:-1])
    if found and len(used) == 2:
        found[tuple(used)] = RuleWithCost(tuple(used), winner, J)
    subsets = tuple(sorted(found.values(), key=lambda one: (len(one.robots), [-r for r in one.robots])))
    return Optimum(tuple(used), winner, J, solve(model, rule), subsets, seen, exhaustive=False)


def _limits_among_modes(one: RuleWithCost, robots: tuple[int, ...], top: int) -> tuple[int, ...]:
    """Limits of a choice among all the modes."""
    ends = dict(zip(one.robots, (*one.limits, top), strict=True))
    return tuple(accumulate((ends.get(mode, -1) for mode in robots[:-1]), max))


def rule_from_table(ground: EvaluatedRules, rule: int, J: FloatArray) -> RuleWithCost:
    """A rule of the landscape, told by the modes it uses."""
    peaks = zip(reversed(ground.modes), ground.peaks[rule, ::-1], strict=True)
    robots = tuple(mode for mode, peak in peaks if peak >= 0)
    return RuleWithCost(robots, ground.limits_of_rule(rule, robots), float(J[rule]))


def table_column(ground: EvaluatedRules, name: str) -> FloatArray:
    """A measure of every rule, by name; `loss_rate` and `obs_rate` count pages in a unit of time."""
    if name not in SCALES:
        raise ModelError(f"there is no measure `{name}` to hold down", f"there are {', '.join(SCALES)}")
    if name.endswith("_rate"):
        return np.asarray(ground.rate * table_column(ground, name.removesuffix("_rate")))
    return np.asarray(getattr(ground, name))


def minimise_within_bounds(ground: EvaluatedRules, measure: str, at_most: Mapping[str, float]) -> ConstrainedOptimum:
    """The rule with the least of a measure while others stay within bounds."""
    values = table_column(ground, measure)
    held = {name: table_column(ground, name) for name in at_most}
    within = np.ones(len(ground), dtype=bool)
    for name, bound in at_most.items():
        allowed = held[name] <= bound
        if not (within & allowed).any():
            others = " with the other bounds" if within.sum() < len(ground) else ""
            raise BoundsUnreachable(
                f"no rule keeps {SCALES[name]} at most {bound:g}{others}",
                f"the least that can be had is {held[name][within].min():.6g}",
            )
        within &= allowed
    rule = _plainest_best(ground, values, np.flatnonzero(within))
    winner = rule_from_table(ground, rule, values)
    floor, multipliers = _solve_dual(values, held, at_most)
    measures = solve(ground.model, ground.rule_by_level(rule))
    return ConstrainedOptimum(winner.robots, winner.limits, winner.J, measures, multipliers, floor)


def _solve_dual(
    values: FloatArray, held: Mapping[str, FloatArray], at_most: Mapping[str, float]
) -> tuple[float, dict[str, float]]:
    """The linear programme that takes rules in turn, and the prices of its bounds."""
    if not held:
        return float(values.min()), {}
    try:
        from scipy.optimize import linprog
    except ImportError:
        raise ModelError("bounds need scipy, which is not installed", "install `fieldmouse[lab]`") from None
    axes = np.stack([values, *held.values()])
    worthy = pareto_front(axes)
    solved = linprog(
        axes[0, worthy],
        A_ub=axes[1:, worthy],
        b_ub=list(at_most.values()),
        A_eq=np.ones((1, len(worthy))),
        b_eq=[1.0],
        method="highs",
    )
    prices = np.maximum(0.0, -solved.ineqlin.marginals).tolist()
    return float(solved.fun), dict(zip(held, prices, strict=True))


def pareto_front(axes: FloatArray) -> IntArray:
    """Columns to which no other is at least as good in every row and better in one; of equals, the first."""
    order = np.lexsort(axes[::-1])
    kept: list[int] = []
    best = np.empty((len(axes), 0))
    for column in order:
        point = axes[:, column]
        if best.shape[1] and (best <= point[:, None]).all(axis=0).any():
            continue
        kept.append(int(column))
        best = np.column_stack([best, point])
    return np.array(kept, dtype=np.int64)


def _plainest_best(ground: EvaluatedRules, values: FloatArray, among: IntArray) -> int:
    """The least; of rules that tie, the one with the fewest modes and then the lowest limits."""
    if np.isnan(values[among]).all():
        raise ModelError(
            "no rule has a measure that can be told: rates differ too much, or no page is ever served",
            "look at the rates of modes, service and lifetime",
        )
    lowest = np.nanmin(values[among])
    tied = among[values[among] <= lowest + TIE * abs(lowest)]
    peaks = ground.peaks
    return int(min(tied, key=lambda rule: ((peaks[rule] >= 0).sum(), peaks[rule, ::-1].tolist())))


def optimise_by_simulation(
    model: Model, cost: CostWeights, events: int, seed: int, modes: Sequence[int] | None = None
) -> Optimum:
    """Like `optimise`, by simulations of `events` events each."""
    played: dict[WorkersByLevel, SimulatedMeasures] = {}

    def J(robots: tuple[int, ...], limits: Limits) -> float:
        rule = WorkersByLevel.from_limits(robots, limits, model.highest_level)
        if rule not in played:
            played[rule] = simulate(model, rule, events, np.random.default_rng(seed))
        return cost_of(played[rule], cost)

    found = []
    for start in optimise(_with_exponential_lifetime(model), cost, modes).subsets:
        here, value = start.limits, J(start.robots, start.limits)
        while True:
            ways = {limits: J(start.robots, limits) for limits in _one_step_neighbours(here, model.highest_level)}
            best = min(ways, key=ways.__getitem__, default=here)
            if not ways or ways[best] >= value:
                break
            here, value = best, ways[best]
        found.append(RuleWithCost(start.robots, here, value))
    worth = [choice for choice in found if not np.isnan(choice.J)]
    if not worth:
        raise ModelError("no page was served in any run", "check the model, or play more events")
    winner = min(worth, key=lambda choice: choice.J)
    measures = played[WorkersByLevel.from_limits(winner.robots, winner.limits, model.highest_level)]
    return Optimum(winner.robots, winner.limits, winner.J, measures, tuple(found), len(played), exhaustive=False)


def _with_exponential_lifetime(model: Model) -> Model:
    """The model with an exponential lifetime of the same mean."""
    return dataclasses.replace(model, lifetime=PhaseType.exponential(model.lifetime.rate))


def _one_step_neighbours(limits: Limits, top: int) -> Iterator[Limits]:
    for i, limit in enumerate(limits):
        for moved in (limit - 1, limit + 1):
            way = (*limits[:i], moved, *limits[i + 1 :])
            if 0 <= moved <= top and list(way) == sorted(way):
                yield way
