"""Tables 1 to 5 of the threshold paper, cell by cell."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fieldmouse.lab.catalogue import Experiment, Progress, Result
from fieldmouse.lab.papers.thresholds_models import (
    COST,
    INRIA_COST,
    LIFETIME,
    SERVICE,
    OptimalRules,
    inria,
    system,
)
from fieldmouse.lab.papers.thresholds_printed import Cell, table, title, verdict
from fieldmouse.queueing.model.model import Cost, Model

CONVENTIONS = (
    "K counts the page in service, and so do limits: robots[0] work while at most j1 pages are in the system",
    "a printed number agrees when ours is within one step of its last digit (costs are mostly cut off)",
)


def _subsets(number: str, model: Callable[[], Model], cost: Cost, progress: Progress) -> Result:
    """Compare tables 1 and 5: the best limits and the cost of each subset of modes."""
    progress(0.0, "solving")
    found = OptimalRules(model(), cost)

    def ours(cell: Cell) -> float:
        choice = found.of(cell.key)
        return choice.J if cell.column == "cost" else choice.limits[int(cell.column[1:]) - 1]

    best = found.optimum
    remarks = [
        *CONVENTIONS,
        f"best of {best.rules} rules: robots {best.robots}, limits {best.limits}, cost {best.J:.4f}",
    ]
    return Result(tuple(verdict(number, cell, ours(cell)) for cell in table(number)), remarks=tuple(remarks))


def _varied(number: str, model: Callable[[str], Model], progress: Progress) -> Result:
    """Compare tables 2 to 4: the optimum as one parameter varies."""
    solved: dict[str, tuple[Model, OptimalRules]] = {}
    rows = []
    for cell in table(number):
        if cell.key not in solved:
            progress(len(solved) / len({one.key for one in table(number)}), f"{cell.label.partition(',')[0]}")
            solved[cell.key] = model(cell.key), OptimalRules(model(cell.key), COST)
        rows.append(verdict(number, cell, _asked(cell, *solved[cell.key])))
    return Result(tuple(rows), remarks=CONVENTIONS)


def _asked(cell: Cell, model: Model, found: OptimalRules) -> float:
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
            return found.of(fixed.removeprefix("C")).J


def _experiment(number: str, about: str, run: Callable[[Progress], Result]) -> Experiment:
    name, heading = f"thresholds-table-{number}", f"Table {number}: {title(number)}"
    return Experiment(name, "thresholds", heading, about, run, shares="thresholds")


EXPERIMENTS = (
    _experiment(
        "1",
        "Limits and cost of the best rule of each of the 15 subsets of four modes, K = 5.",
        partial(_subsets, "1", system, COST),
    ),
    _experiment(
        "2",
        "The best rule and the cost of fixed numbers of robots as the buffer grows from 1 to 30.",
        partial(_varied, "2", lambda K: system(int(K))),
    ),
    _experiment(
        "3",
        "The same as the server gets faster: S multiplied by s.",
        partial(_varied, "3", lambda s: system(service=SERVICE.scaled(float(s)))),
    ),
    _experiment(
        "4",
        "The same as pages grow obsolete sooner: Gamma multiplied by s.",
        partial(_varied, "4", lambda s: system(lifetime=LIFETIME.scaled(float(s)))),
    ),
    _experiment(
        "5",
        "The crawler of INRIA: batches of up to 8, service with a heavy tail, K = 20; within 0.3 %.",
        partial(_subsets, "5", inria, INRIA_COST),
    ),
)
