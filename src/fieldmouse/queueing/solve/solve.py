"""Solver of a model under a rule, with a choice of methods.

`banded` needs an exponential lifetime (or none) and takes any buffer; `ordered`
takes any lifetime and grows with the number of its phases to the power of the
buffer; `simulate` takes everything and gives confidence intervals. `auto`
takes the first that fits.
"""

from __future__ import annotations

import numpy as np

from fieldmouse.queueing.model.model import (
    METHODS,
    Chain,
    Measures,
    Method,
    Model,
    PageSojournTotals,
    WorkerCountRule,
    build_chain,
    compute_measures,
)
from fieldmouse.queueing.model.validation import FloatArray, ModelError
from fieldmouse.queueing.simulate import simulate
from fieldmouse.queueing.solve import exponential_lifetimes, page_sojourn
from fieldmouse.queueing.solve.page_sojourn import value_of_admitted_pages, waiting_moments
from fieldmouse.queueing.solve.phase_type_lifetimes import LifetimePhaseChain

#: How long a simulation is unless told otherwise.
EVENTS = 2_000_000


def solve(
    model: Model,
    rule: WorkerCountRule,
    method: Method = "auto",
    *,
    events: int = EVENTS,
    rng: np.random.Generator | None = None,
) -> Measures:
    """The measures of a model under a rule.

    `ordered` (and `auto` with it) refuses with `ModelTooLarge`. `events` and `rng` are
    for simulation, which starts from the same seed each time unless given dice.
    """
    match method:
        case "auto":
            return solve(model, rule, "banded" if model.lifetime.is_exponential else "ordered")
        case "banded":
            return _solve_banded(build_chain(model, rule))
        case "ordered":
            return _solve_ordered(build_chain(model, rule))
        case "simulate":
            return simulate(model, rule, events, rng or np.random.default_rng(0))
        case _:
            raise ModelError(f"there is no method `{method}`", f"it is one of {', '.join(METHODS)}")


def _solve_ordered(found: Chain) -> Measures:
    ordered = LifetimePhaseChain(found)
    share, fades, x = ordered.solve()
    served, obsolete = page_sojourn.phase_type_sojourns(ordered, x)
    return compute_measures(found, share, fades, served, obsolete, "ordered")


def _solve_banded(found: Chain) -> Measures:
    model = found.model
    if not model.lifetime.is_exponential:
        raise ModelError(
            "the lifetime is not exponential, so a waiting page's past matters and the banded chain is wrong",
            'use the method "ordered", or "simulate" for a large buffer',
        )
    fades = exponential_lifetimes.obsolescence_rates(found, model.lifetime.rate)
    share = exponential_lifetimes.banded_distribution(found, fades)
    served, obsolete = exponential_sojourns(found, share)
    return compute_measures(found, share, fades, served, obsolete, "banded")


def exponential_sojourns(found: Chain, share: FloatArray) -> tuple[PageSojournTotals, PageSojournTotals]:
    """Of pages served and of pages grown obsolete, when lifetimes are exponential."""
    model = found.model
    ways = waiting_moments(model.service, model.lifetime.rate, found.highest_level)
    worth = np.concatenate([ways.served, ways.obsolete], axis=2)
    total = value_of_admitted_pages(found.arrivals.up, model.service.alpha, worth)
    sums = [float(s) for s in np.tensordot(share, total, axes=3)]
    return PageSojournTotals(sums[0], sums[1], sums[2]), PageSojournTotals(sums[3], sums[4], sums[5])
