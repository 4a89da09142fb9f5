"""Which rule to follow next: what was seen, fitted, and the cheapest rule for it.

Takes a moment of computing and touches nothing, so it may run in a thread beside the
crawl.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fieldmouse.control.gauge import Fare
from fieldmouse.control.pagetrace import Rows
from fieldmouse.control.tracing import trace_of
from fieldmouse.policy.thresholds import Thresholds
from fieldmouse.queueing.fit.fit import fit
from fieldmouse.queueing.model.model import Cost
from fieldmouse.queueing.optimise.optimum import optimise

PHASES = 3
"""Of a service time: more tell it better, take several times as long, and hardly change the rule."""


@dataclass(frozen=True, slots=True)
class Chosen:
    rule: Thresholds
    predicted: Fare
    cost: float
    arrivals: int  # pages it was learned from
    seconds: float  # in which they came
    says: tuple[str, ...]  # what a reader should know before trusting it
    rates: dict[int, float]  # pages in a second, by the numbers of robots that were at work


def choose(
    rows: Rows,
    since: float,
    *,
    capacity: int,
    modes: Sequence[int],
    weights: Cost,
    remembered: Mapping[int, float] | None = None,
) -> Chosen:
    """The cheapest rule for what happened after `since`; raises what `fit` raises when that is too little.

    `remembered` are rates of earlier choices, for numbers of robots not seen since.

    Lifetimes are fitted as exponential ones, whatever they are: others cannot be
    solved for more than a few pages.
    """
    trace = trace_of(rows, since)
    fitted = fit(trace, capacity, modes=modes, lifetime="exponential", phases=PHASES, remembered=remembered)
    best = optimise(fitted.model, weights)
    return Chosen(
        Thresholds(best.robots, best.limits),
        Fare.predicted(best.measures),
        best.J,
        len(trace.arrived),
        trace.span,
        tuple(fitted.report.sentences()),
        fitted.rates,
    )
