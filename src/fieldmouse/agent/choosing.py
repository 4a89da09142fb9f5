"""Which rule to follow next: what was seen, fitted, and the cheapest rule for it.

Takes a moment of computing and touches nothing, so it may run in a thread beside the
crawl.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from fieldmouse.agent.gauge import Fare
from fieldmouse.agent.pagetrace import Rows
from fieldmouse.agent.tracing import trace_of
from fieldmouse.policy.thresholds import Thresholds
from fieldmouse.queueing.fit import fit
from fieldmouse.queueing.landscape import rules
from fieldmouse.queueing.model import Cost, Model
from fieldmouse.queueing.optimum import Optimum, optimise

MOST_WORK = 4_000_000
"""Rules compared, times the cube of phases on a level: about a second, compiled."""


@dataclass(frozen=True, slots=True)
class Chosen:
    rule: Thresholds
    predicted: Fare
    cost: float
    arrivals: int  # pages it was learned from
    seconds: float  # in which they came
    says: tuple[str, ...]  # what a reader should know before trusting it


def choose(rows: Rows, since: float, *, capacity: int, modes: Sequence[int], weights: Cost) -> Chosen:
    """The cheapest rule for what happened after `since`; raises what `fit` raises when that is too little.

    Lifetimes are fitted as exponential ones, whatever they are: others cannot be
    solved for more than a few pages.
    """
    trace = trace_of(rows, since)
    fitted = fit(trace, capacity, modes=modes, lifetime="exponential")
    best = cheapest(fitted.model, weights)
    return Chosen(
        Thresholds(best.robots, best.limits),
        Fare.predicted(best.measures),
        best.J,
        len(trace.arrived),
        trace.span,
        tuple(fitted.report.sentences()),
    )


def cheapest(model: Model, weights: Cost) -> Optimum:
    """The cheapest rule; in a large buffer, among those that use as many numbers of robots as can be tried.

    With n numbers there are about K^(n-1) rules, and the best one seldom uses more than two.
    """
    modes = tuple(model.modes)
    size, phases = len(modes), model.phases * model.service.order
    while size > 2 and (
        math.comb(len(modes), size) * rules(size, model.capacity + 1) * phases**3 > MOST_WORK
    ):
        size -= 1
    tried = (optimise(model, weights, some) for some in combinations(modes, size))
    return min(tried, key=lambda found: found.J)
