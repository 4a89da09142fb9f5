"""Printed numbers of the threshold paper, its models, and the rule of agreement.

Numbers are read from `printed/thresholds.toml`. A number agrees if ours differs by less than one unit of
its last printed digit. Where the paper contradicts itself, the corrected number is given with the reason,
and ours must agree with that. The models are the paper's example (four modes before a buffer of five) and
INRIA's crawler. Three signs of the printed matrices are corrected; the TOML file gives the reasons.
INRIA's D0 is computed from the rows of A.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from fieldmouse.queueing.model import arrivals
from fieldmouse.queueing.model.arrivals import BatchArrivals
from fieldmouse.queueing.model.model import CostWeights, Model
from fieldmouse.queueing.model.phase_type import PhaseType
from fieldmouse.queueing.optimise.best_thresholds import Optimum, RuleWithCost, optimise
from fieldmouse_lab.catalogue import Row, Verdict


@dataclass(frozen=True, slots=True)
class PrintedCell:
    """One printed number; `unit` is the largest accepted difference."""

    key: str
    column: str
    label: str
    printed: str
    unit: float


@dataclass(frozen=True, slots=True)
class Misprint:
    true: str
    why: str
    unit: float


@cache
def _file() -> dict[str, Any]:
    return tomllib.loads(files("fieldmouse_lab.papers").joinpath("printed/thresholds.toml").read_text())


@cache
def table_cells(number: str) -> tuple[PrintedCell, ...]:
    """Return all cells that are not empty, row by row."""
    entry = _table(number)
    return tuple(
        PrintedCell(key, column, f"{entry['down']} {key}, {column}", text, digit_step(text, unit))
        for key, _, *texts in map(str.split, entry["cells"].strip().splitlines())
        for column, unit, text in zip(entry["columns"], entry["units"], texts, strict=True)
        if text != "-"
    )


def table_title(number: str) -> str:
    return str(_table(number)["title"])


def _table(number: str) -> dict[str, Any]:
    return next(entry for entry in _file()["table"] if entry["number"] == number)


@cache
def text_numbers(where: str) -> tuple[PrintedCell, ...]:
    """Return the numbers in the running text."""
    return tuple(
        PrintedCell(label, "", label, text, digit_step(text, entry.get("unit", "digits")))
        for entry in _file()["number"]
        if entry["where"] == where
        for label, text in entry["printed"].items()
    )


@cache
def misprints(table: str) -> dict[str, Misprint]:
    return {
        entry["place"]: Misprint(entry["true"], entry["why"], digit_step(entry["true"], entry.get("unit", "digits")))
        for entry in _file()["misprint"]
        if entry["table"] == table
    }


def compare_numbers(where: str, ours: Mapping[str, float]) -> tuple[Row, ...]:
    """Compare the numbers in the running text with ours, which are by label."""
    return tuple(compare(where, cell, float(ours[cell.label])) for cell in text_numbers(where))


def digit_step(text: str, unit: str) -> float:
    """
    >>> digit_step("0.083", "digits"), digit_step("57.6", "0.01"), digit_step("500", "0.3 %")
    (0.001, 0.01, 1.5)
    """
    if unit == "digits":
        return float(10.0 ** -len(text.partition(".")[2]))
    if unit.endswith("%"):
        return abs(float(text)) * float(unit.removesuffix("%")) / 100
    return float(unit)


def compare(where: str, cell: PrintedCell, ours: float) -> Row:
    """Compare one printed number."""
    true, unit, verdict, note = cell.printed, cell.unit, Verdict.SAME, ""
    if (misprint := misprints(where).get(cell.label)) is not None:
        true, unit, verdict = misprint.true, misprint.unit, Verdict.MISPRINT
        note = f"should be {true}: {misprint.why}"
    agrees = abs(float(true) - ours) < max(unit, 1e-12 * abs(ours))
    return Row(cell.label, float(cell.printed), ours, None, verdict if agrees else Verdict.DIFFERENT, note)


NO_ARRIVALS = [[0, 0], [0, 0]]

MODES = arrivals.explicit_modes(
    {
        1: ([[-10.0, 2.0], [0.0, -0.5]], [[0.05, 3], [0.29, 0.005]], [[0.05, 4.9], [0.2, 0.005]]),
        2: (
            [[-5.65, 1.1], [0.0, -0.85]],
            [[0.01, 2.5], [0.25, 0]],
            [[0.02, 0.5], [0.25, 0]],
            [[0.02, 1.5], [0.1, 0.25]],
        ),
        3: ([[-2.48, 0.48], [0.48, -3.48]], [[1.5, 0], [0, 2.25]], [[0.5, 0], [0, 0.75]]),
        4: ([[-1.45, 0.45], [0.6, -2.6]], [[0.25, 0], [0, 0.5]], NO_ARRIVALS, NO_ARRIVALS, [[0.75, 0], [0, 1.5]]),
    }
)
SERVICE = PhaseType(np.array([0.4, 0.6]), np.array([[-3.0, 1.0], [2.0, -3.0]]))
LIFETIME = PhaseType(np.array([0.3, 0.7]), np.array([[-0.6, 0.4], [0.1, -0.3]]))
COST = CostWeights(loss=5, obs=10, sojourn=2, robots=20, star=300)

_BATCHES = "0.040445227 0.18404232 0.26405114 0.5057307 8.8163983e-4 7.7143486e-4 0.0018734847 0.00220405"
#: INRIA's shares of batches of 1 to 8 pages; as printed they sum to 1 - 3.6e-9.
BATCHES = tuple(map(float, _BATCHES.split()))

A = np.array([[0.0037, 6.58e-5], [1.3e-4, 0.0064]])
INRIA_SERVICE = PhaseType(np.array([0.0057, 0.9943]), np.array([[-0.0014, 0.0], [0.0, -0.2409]]))
INRIA_COST = CostWeights(loss=200, obs=250, sojourn=3, robots=20, star=600)


def example_model(K: int = 5, service: PhaseType = SERVICE, lifetime: PhaseType = LIFETIME) -> Model:
    """Return the paper's example, or a variation of it."""
    return Model(K, MODES, service, lifetime)


@cache
def inria_arrivals() -> BatchArrivals:
    """Return the arrivals from one of INRIA's robots."""
    batches = [share * A for share in BATCHES]
    return BatchArrivals((-np.diag(sum(batches, np.zeros((2, 2))).sum(axis=1)), *batches))


def inria_model() -> Model:
    modes = {robots: inria_arrivals().scaled(robots) for robots in (1, 2, 3, 4)}
    return Model(20, modes, INRIA_SERVICE, PhaseType.exponential(0.0005))


def two_rates(mean: float, alpha1: float) -> PhaseType:
    """Law of figures 2 to 4: rate alpha1 with probability 0.9, else the rate that gives this mean."""
    return PhaseType.hyperexponential([0.9, 0.1], [alpha1, 0.1 * alpha1 / (mean * alpha1 - 0.9)])


class OptimalRules:
    """Optimum of a model, with the lookups that the tables need."""

    def __init__(self, model: Model, cost: CostWeights):
        self.optimum: Optimum = optimise(model, cost)
        self._subsets = {choice.robots: choice for choice in self.optimum.subsets}

    def for_modes(self, modes: str) -> RuleWithCost:
        """Return the best rule for a subset of modes, written as digits."""
        return self._subsets[tuple(int(digit) for digit in modes)]

    @property
    def modes(self) -> str:
        """Modes of the best rule, written as digits."""
        return "".join(map(str, self.optimum.robots))

    @property
    def profit(self) -> float:
        """R: the saving of control over the best fixed number of robots, in percent."""
        fixed = min(choice.J for choice in self.optimum.subsets if not choice.limits)
        return (1 - self.optimum.J / fixed) * 100
