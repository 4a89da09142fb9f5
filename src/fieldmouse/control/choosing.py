"""Choice of the cheapest rule for a model fitted to the recent trace.

Pure computation that takes a moment, so it may run in a thread beside the crawl.
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
"""Phases of a service time: more fit better, take several times as long, and hardly change the rule."""


@dataclass(frozen=True, slots=True)
class Chosen:
    rule: Thresholds
    predicted: Fare
    cost: float
    arrivals: int  # pages in the fitted trace
    seconds: float  # duration of the fitted trace
    says: tuple[str, ...]  # caveats to read before trusting the fit
    rates: dict[int, float]  # pages per second, by number of active fetch workers


def choose(
    rows: Rows,
    since: float,
    *,
    capacity: int,
    modes: Sequence[int],
    weights: Cost,
    remembered: Mapping[int, float] | None = None,
) -> Chosen:
    """The cheapest rule for the rows after `since`; raises the errors of `fit` if there are too few.

    `remembered` are rates of earlier choices, for numbers of fetch workers not seen since.

    Lifetimes are always fitted as exponential: others cannot be
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
