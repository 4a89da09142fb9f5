"""Cost of thresholds compared with the best rule by level and with the best policy that sees all state.

The paper conjectures that thresholds are nearly optimal among all policies. For exponential lifetimes both
comparisons can be computed: all rules that depend on the level alone, in any order, and the best policy
that also sees the phases of arrivals and service (`queueing.optimise.decision`).
"""

from __future__ import annotations

from itertools import product

from fieldmouse.queueing.model.arrivals import BatchArrivals
from fieldmouse.queueing.model.model import Model, WorkersByLevel, cost_of
from fieldmouse.queueing.optimise.best_thresholds import optimise
from fieldmouse.queueing.optimise.policy_iteration import optimal_state_policy
from fieldmouse.queueing.solve.solve import solve
from fieldmouse_lab.catalogue import Figure, Panel, Progress, Result, Row, Series, experiment, new_row
from fieldmouse_lab.papers.thresholds.printed import COST, INRIA_COST, MODES, example_model, inria_model

SIZES = (1, 2, 3, 5, 10, 20, 30)
#: Buffer small enough to try all 4^5 rules by level.
SMALL_BUFFER = 4


def gap_percent(best: float, least: float) -> float:
    """Return the extra cost in percent; rounding errors count as 0."""
    return round((best / least - 1) * 100, 10) + 0.0


def _poisson(K: int) -> Model:
    """Return the example with Poisson arrivals of the same rates and exponential service, which has no
    phases."""
    modes = {robots: BatchArrivals.poisson(stream.rate) for robots, stream in MODES.items()}
    given = example_model(K)
    return Model(K, modes, type(given.service).exponential(given.service.rate), given.lifetime)


def run(progress: Progress) -> Result:
    """Dynamic programming over all states, against the best limits."""
    rows: list[Row] = []
    gaps: dict[str, list[float]] = {"as printed": [], "Poisson arrivals": []}
    for step, K in enumerate(SIZES):
        progress(step / (len(SIZES) + 2), f"K {K}")
        for name, model in (("as printed", example_model(K)), ("Poisson arrivals", _poisson(K))):
            thresholds, policy = optimise(model, COST), optimal_state_policy(model, COST)
            gaps[name].append(gap_percent(thresholds.J, policy.J))
            for column, value in (("thresholds", thresholds.J), ("policy", policy.J), ("gap %", gaps[name][-1])):
                rows.append(new_row(f"{name}, K {K}, {column}", value))
    progress(len(SIZES) / (len(SIZES) + 2), "every rule of a small buffer")
    every = min(
        cost_of(solve(example_model(SMALL_BUFFER), WorkersByLevel(robots)), COST)
        for robots in product(MODES, repeat=SMALL_BUFFER + 1)
    )
    thresholds = optimise(example_model(SMALL_BUFFER), COST)
    rows.append(new_row(f"best of all {4 ** (SMALL_BUFFER + 1)} rules by level, K = {SMALL_BUFFER}", every))
    rows.append(new_row(f"best thresholds, K = {SMALL_BUFFER}", thresholds.J))
    progress(0.9, "INRIA's crawler")
    found, policy = optimise(inria_model(), INRIA_COST), optimal_state_policy(inria_model(), INRIA_COST)
    rows.append(new_row("INRIA's crawler, gap %", gap_percent(found.J, policy.J)))
    seen = optimal_state_policy(example_model(5), COST).robots[0, :, 0]
    remarks = (
        f"on the empty system the best policy for K = 5 sends {seen[0]} in the first phase of arrivals and "
        f"{seen[1]} in the second: in the first, one robot brings more pages than three do, as the matrices "
        "have it, and no rule by level can know the phase",
        "where there is no phase to be seen, thresholds lose nothing; and no other rule by level is better",
    )
    series = tuple(Series(name, list(SIZES), values, "points") for name, values in gaps.items())
    panel = Panel("K", "gap, %", series)
    figure = Figure("thresholds-policy", "What thresholds cost more than the best policy", (panel,))
    return Result(tuple(rows), (figure,), remarks)


_TITLE = "Beyond the paper: how near thresholds come to the best policy"
EXPERIMENTS = (experiment("thresholds-policy", _TITLE, run, shares="thresholds"),)
