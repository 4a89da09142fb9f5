"""Tables 1 to 5 and the numbers in the running text of the threshold paper, about its example and INRIA's
crawler.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from fieldmouse.queueing.model.model import CostWeights, Model, count_states
from fieldmouse_lab.catalogue import Progress, Result, experiment
from fieldmouse_lab.papers.thresholds import printed
from fieldmouse_lab.papers.thresholds.printed import COST, LIFETIME, MODES, SERVICE, OptimalRules, example_model

CONVENTIONS = (
    "K counts the page in service, and so do limits: robots[0] work while at most j1 pages are in the system",
    "a printed number agrees when ours is within one step of its last digit (costs are mostly cut off)",
)


def _subsets(number: str, model: Callable[[], Model], cost: CostWeights, progress: Progress) -> Result:
    """Compare tables 1 and 5: the best limits and the cost of each subset of modes."""
    progress(0.0, "solving")
    found = OptimalRules(model(), cost)

    def ours(cell: printed.PrintedCell) -> float:
        choice = found.for_modes(cell.key)
        return choice.J if cell.column == "cost" else choice.limits[int(cell.column[1:]) - 1]

    best = found.optimum
    remarks = [
        *CONVENTIONS,
        f"best of {best.rules} rules: robots {best.robots}, limits {best.limits}, cost {best.J:.4f}",
    ]
    return Result(
        tuple(printed.compare(number, cell, ours(cell)) for cell in printed.table_cells(number)), remarks=tuple(remarks)
    )


def _varied(number: str, model: Callable[[str], Model], progress: Progress) -> Result:
    """Compare tables 2 to 4: the optimum as one parameter varies."""
    solved: dict[str, tuple[Model, OptimalRules]] = {}
    rows = []
    keys = {cell.key for cell in printed.table_cells(number)}
    for cell in printed.table_cells(number):
        if cell.key not in solved:
            progress(len(solved) / len(keys), cell.label.partition(",")[0])
            solved[cell.key] = model(cell.key), OptimalRules(model(cell.key), COST)
        rows.append(printed.compare(number, cell, _asked(cell, *solved[cell.key])))
    return Result(tuple(rows), remarks=CONVENTIONS)


def _asked(cell: printed.PrintedCell, model: Model, found: OptimalRules) -> float:
    match cell.column:
        case "b1":
            return model.service.mean
        case "g1":
            return model.lifetime.mean
        case "modes":
            return float(found.modes)
        case "j*":
            return found.optimum.limits[-1]
        case "C*":
            return found.optimum.J
        case "R":
            return found.profit
        case fixed:
            return found.for_modes(fixed.removeprefix("C")).J


#: Description and run of each table.
TABLES: dict[str, tuple[str, Callable[[Progress], Result]]] = {
    "1": (
        "Limits and cost of the best rule of each of the 15 subsets of four modes, K = 5.",
        partial(_subsets, "1", example_model, COST),
    ),
    "2": (
        "The best rule and the cost of fixed numbers of robots as the buffer grows from 1 to 30.",
        partial(_varied, "2", lambda K: example_model(int(K))),
    ),
    "3": (
        "The same as the server gets faster: S multiplied by s.",
        partial(_varied, "3", lambda s: example_model(service=SERVICE.with_scaled_rates(float(s)))),
    ),
    "4": (
        "The same as pages grow obsolete sooner: Gamma multiplied by s.",
        partial(_varied, "4", lambda s: example_model(lifetime=LIFETIME.with_scaled_rates(float(s)))),
    ),
    "5": (
        "The crawler of INRIA: batches of up to 8, service with a heavy tail, K = 20; within 0.3 %.",
        partial(_subsets, "5", printed.inria_model, printed.INRIA_COST),
    ),
}


def example_numbers(progress: Progress) -> Result:
    """Rates, correlations, costs and signs of the paper's example."""
    progress(0.0, "solving")
    found = OptimalRules(example_model(), COST)
    ours = {
        **{f"lambda, mode {r}": stream.rate for r, stream in MODES.items()},
        **{f"c_cor, mode {r}": stream.correlation for r, stream in MODES.items()},
        **{f"lambda_g, mode {r}": stream.batch_rate for r, stream in MODES.items()},
        **{f"C, mode {r}": found.for_modes(str(r)).J for r in MODES},
        "mean service time": SERVICE.mean,
        "mean lifetime": LIFETIME.mean,
        "best cost": found.optimum.J,
        "profit of control, whole %": math.floor(found.profit),
        "states at K = 10": count_states(example_model(10), LIFETIME.order),
        "D1(1,1), mode 2": MODES[2].D[1][0, 0],
        "D2(1,1), mode 2": MODES[2].D[2][0, 0],
        "D0(2,2), mode 3": MODES[3].D[0][1, 1],
    }
    rows = printed.compare_numbers("scalars", ours)
    remarks = (
        "both lifetimes of the paper's tables are exponential: Gamma of the example is left at rate 0.2 from "
        "either phase, so its phases do not matter",
    )
    return Result(rows, remarks=remarks)


def inria_numbers(progress: Progress) -> Result:
    """Batches, intervals, correlations, service and profit of INRIA's crawler."""
    progress(0.0, "solving")
    stream, model = printed.inria_arrivals(), printed.inria_model()
    found = OptimalRules(model, printed.INRIA_COST)
    four = (1 - found.optimum.J / found.for_modes("4").J) * 100
    ours = {
        "mean batch": sum(size * share for size, share in enumerate(printed.BATCHES, 1)) / sum(printed.BATCHES),
        "mean service time": printed.INRIA_SERVICE.mean,
        "scv of service": printed.INRIA_SERVICE.scv,
        **{f"lambda, mode {r}": mode.rate for r, mode in model.modes.items()},
        "mean interval": stream.intervals.mean,
        "variance of intervals": stream.variance,
        **{f"lag {k} correlation": stream.lag_correlation(k) for k in range(1, 7)},
        "D0(1,1)": -printed.A[0].sum(),
        "D0(2,2)": -printed.A[1].sum(),
        "profit of control, whole %": math.floor(four),
    }
    rows = printed.compare_numbers("inria", ours)
    remarks = (
        "the rows of the printed D0 + A do not sum to 0; D0 is taken from the rows of A",
        "mean and variance of intervals are of the data; the matrices were fitted to them and printed in two "
        "digits; they are called the same within 1 % (0.5 and 0.6 % here)",
        "lag correlations, the point moved, are called a misprint if the printed matrices"
        " have them within 10 %; theirs are 2 to 6 % lower",
    )
    return Result(rows, remarks=remarks)


_SHARED = "thresholds"
EXPERIMENTS = (
    *(
        experiment(f"thresholds-table-{n}", f"Table {n}: {printed.table_title(n)}", run, about, shares=_SHARED)
        for n, (about, run) in TABLES.items()
    ),
    experiment("thresholds-scalars", "Numbers in the text: the example", example_numbers, shares=_SHARED),
    experiment("thresholds-inria", "Numbers in the text: INRIA's crawler", inria_numbers, shares=_SHARED),
)
