"""Printed numbers of the threshold paper, read from `printed/thresholds.toml`, and the rule of agreement.

A number agrees if ours differs by less than one unit of its last printed digit. Where the paper
contradicts itself, the corrected number is given with the reason, and ours must agree with that.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from fieldmouse.lab.catalogue import Row, Verdict


@dataclass(frozen=True, slots=True)
class Cell:
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
    return tomllib.loads(files("fieldmouse.lab.papers").joinpath("printed/thresholds.toml").read_text())


@cache
def table(number: str) -> tuple[Cell, ...]:
    """Return all cells that are not empty, row by row."""
    entry = next(entry for entry in _file()["table"] if entry["number"] == number)
    return tuple(_cells(entry))


def title(number: str) -> str:
    return str(next(entry["title"] for entry in _file()["table"] if entry["number"] == number))


def _cells(entry: Mapping[str, Any]) -> Iterator[Cell]:
    for line in entry["cells"].strip().splitlines():
        key, _, *found = line.split()
        for column, unit, text in zip(entry["columns"], entry["units"], found, strict=True):
            if text != "-":
                yield Cell(key, column, f"{entry['down']} {key}, {column}", text, step(text, unit))


@cache
def numbers(where: str) -> tuple[Cell, ...]:
    """Return the numbers in the running text."""
    return tuple(
        Cell(label, "", label, text, step(text, entry.get("unit", "digits")))
        for entry in _file()["number"]
        if entry["where"] == where
        for label, text in entry["printed"].items()
    )


@cache
def misprints(table: str) -> dict[str, Misprint]:
    return {
        entry["place"]: Misprint(
            entry["true"], entry["why"], step(entry["true"], entry.get("unit", "digits"))
        )
        for entry in _file()["misprint"]
        if entry["table"] == table
    }


def step(text: str, unit: str) -> float:
    """
    >>> step("0.083", "digits"), step("57.6", "0.01"), step("500", "0.3 %")
    (0.001, 0.01, 1.5)
    """
    if unit == "digits":
        return float(10.0 ** -len(text.partition(".")[2]))
    if unit.endswith("%"):
        return abs(float(text)) * float(unit.removesuffix("%")) / 100
    return float(unit)


def verdict(where: str, cell: Cell, ours: float) -> Row:
    """Compare one printed number."""
    printed = float(cell.printed)
    misprint = misprints(where).get(cell.label)
    if misprint is not None:
        agrees = abs(float(misprint.true) - ours) < max(misprint.unit, _rounding(ours))
        note = f"should be {misprint.true}: {misprint.why}"
        return Row(cell.label, printed, ours, None, Verdict.MISPRINT if agrees else Verdict.DIFFERENT, note)
    agrees = abs(printed - ours) < max(cell.unit, _rounding(ours))
    return Row(cell.label, printed, ours, None, Verdict.SAME if agrees else Verdict.DIFFERENT)


def _rounding(ours: float) -> float:
    return 1e-12 * abs(ours)
