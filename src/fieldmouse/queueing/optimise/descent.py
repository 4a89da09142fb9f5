"""Local search by simulation, for models that no exact method can solve.

A lifetime with phases and a large buffer leave only simulation, which is too slow
to try every rule. So the search begins at the limits for an exponential lifetime of the same
mean, and moves one limit by one level while that
lowers the cost. All rules are simulated with the same seed, so that they differ by their
effect and not by luck. The result is good, not proven best.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from fieldmouse.queueing.model.entries import ModelError
from fieldmouse.queueing.model.measures import cost as cost_of
from fieldmouse.queueing.model.model import Cost, Model
from fieldmouse.queueing.model.ph import PhaseType
from fieldmouse.queueing.optimise.landscape import ByLevel
from fieldmouse.queueing.optimise.optimum import Choice, Optimum, optimise
from fieldmouse.queueing.simulate.simulate import Simulated, simulate

Limits = tuple[int, ...]


def descend(model: Model, cost: Cost, events: int, seed: int, modes: Sequence[int] | None = None) -> Optimum:
    """Like `optimise`, by simulations of `events` events each."""
    played: dict[ByLevel, Simulated] = {}

    def J(robots: tuple[int, ...], limits: Limits) -> float:
        rule = _by_level(robots, limits, model.top)
        if rule not in played:
            played[rule] = simulate(model, rule, events, np.random.default_rng(seed))
        return cost_of(played[rule], cost)

    found = []
    for start in optimise(_forgetful(model), cost, modes).subsets:
        here, value = start.limits, J(start.robots, start.limits)
        while True:
            ways = {limits: J(start.robots, limits) for limits in _next_to(here, model.top)}
            best = min(ways, key=ways.__getitem__, default=here)
            if not ways or ways[best] >= value:
                break
            here, value = best, ways[best]
        found.append(Choice(start.robots, here, value))
    worth = [choice for choice in found if not np.isnan(choice.J)]
    if not worth:
        raise ModelError("no page was served in any run", "check the model, or play more events")
    winner = min(worth, key=lambda choice: choice.J)
    measures = played[_by_level(winner.robots, winner.limits, model.top)]
    return Optimum(
        winner.robots, winner.limits, winner.J, measures, tuple(found), len(played), exhaustive=False
    )


def _forgetful(model: Model) -> Model:
    """The model with an exponential lifetime of the same mean."""
    if model.lifetime.is_exponential:
        return model
    return dataclasses.replace(model, lifetime=PhaseType.exponential(model.lifetime.rate))


def _next_to(limits: Limits, top: int) -> Iterator[Limits]:
    for i, limit in enumerate(limits):
        for moved in (limit - 1, limit + 1):
            way = (*limits[:i], moved, *limits[i + 1 :])
            if 0 <= moved <= top and list(way) == sorted(way):
                yield way


def _by_level(robots: tuple[int, ...], limits: Limits, top: int) -> ByLevel:
    return ByLevel(tuple(robots[sum(limit < level for limit in limits)] for level in range(top + 1)))
