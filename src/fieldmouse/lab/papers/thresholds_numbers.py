"""Numbers in the running text of the threshold paper, about its example and INRIA's crawler."""

from __future__ import annotations

import math

from fieldmouse.lab.catalogue import Experiment, Progress, Result
from fieldmouse.lab.papers.thresholds_models import (
    BATCHES,
    COST,
    INRIA_COST,
    INRIA_SERVICE,
    LIFETIME,
    MODES,
    SERVICE,
    A,
    OptimalRules,
    crawler,
    inria,
    system,
)
from fieldmouse.lab.papers.thresholds_printed import numbers, verdict
from fieldmouse.queueing.model.chain import states


def scalars(progress: Progress) -> Result:
    progress(0.0, "solving")
    found = OptimalRules(system(), COST)
    ours = {
        **{f"lambda, mode {r}": stream.rate for r, stream in MODES.items()},
        **{f"c_cor, mode {r}": stream.correlation for r, stream in MODES.items()},
        **{f"lambda_g, mode {r}": stream.group_rate for r, stream in MODES.items()},
        **{f"C, mode {r}": found.of(str(r)).J for r in MODES},
        "mean service time": SERVICE.mean,
        "mean lifetime": LIFETIME.mean,
        "best cost": found.optimum.J,
        "profit of control, whole %": math.floor(found.profit),
        "states at K = 10": states(system(10), LIFETIME.order),
        "D1(1,1), mode 2": MODES[2].D[1][0, 0],
        "D2(1,1), mode 2": MODES[2].D[2][0, 0],
        "D0(2,2), mode 3": MODES[3].D[0][1, 1],
    }
    rows = tuple(verdict("scalars", cell, float(ours[cell.label])) for cell in numbers("scalars"))
    remarks = (
        "both lifetimes of the paper's tables are exponential: Gamma of the example is left at rate 0.2 from "
        "either phase, so its phases do not matter",
    )
    return Result(rows, remarks=remarks)


def inria_numbers(progress: Progress) -> Result:
    progress(0.0, "solving")
    stream, model = crawler(), inria()
    found = OptimalRules(model, INRIA_COST)
    four = (1 - found.optimum.J / found.of("4").J) * 100
    ours = {
        "mean batch": sum(size * share for size, share in enumerate(BATCHES, 1)) / sum(BATCHES),
        "mean service time": INRIA_SERVICE.mean,
        "scv of service": INRIA_SERVICE.scv,
        **{f"lambda, mode {r}": mode.rate for r, mode in model.modes.items()},
        "mean interval": stream.intervals.mean,
        "variance of intervals": stream.variance,
        **{f"lag {k} correlation": stream.lag_correlation(k) for k in range(1, 7)},
        "D0(1,1)": -A[0].sum(),
        "D0(2,2)": -A[1].sum(),
        "profit of control, whole %": math.floor(four),
    }
    rows = tuple(verdict("inria", cell, float(ours[cell.label])) for cell in numbers("inria"))
    remarks = (
        "the rows of the printed D0 + A do not sum to 0; D0 is taken from the rows of A",
        "mean and variance of intervals are of the data; the matrices were fitted to them and printed in two "
        "digits; they are called the same within 1 % (0.5 and 0.6 % here)",
        "lag correlations, the point moved, are called a misprint if the printed matrices"
        " have them within 10 %; theirs are 2 to 6 % lower",
    )
    return Result(rows, remarks=remarks)


EXPERIMENTS = (
    Experiment(
        "thresholds-scalars",
        "thresholds",
        "Numbers in the text: the example",
        "Rates, correlations, costs and signs of the paper's example.",
        scalars,
        shares="thresholds",
    ),
    Experiment(
        "thresholds-inria",
        "thresholds",
        "Numbers in the text: INRIA's crawler",
        "Batches, intervals, correlations, service and profit of INRIA's crawler.",
        inria_numbers,
        shares="thresholds",
    ),
)
