"""Printed tables of the thesis, read from `printed/thesis.toml`.

Cells are text, because the digits of a printed number show its precision: 0.0050 is more precise than
0.005.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

COLOURS = 100_000
PLACES = 1_000
GAMMAS = (0.3, 0.5, 0.7, 0.9, 1.1, 1.3, 1.5, 1.7)


@dataclass(frozen=True, slots=True)
class UrnCell:
    """One printed number, its place in the table, and the simulation it came from where several are side by
    side."""

    row: int
    column: float
    simulation: int
    printed: str
    label: str


@dataclass(frozen=True, slots=True)
class UrnTable:
    number: str
    title: str
    down: str
    across: str
    columns: tuple[float, ...]
    cells: tuple[UrnCell, ...]
    simulations: int = 1

    def cell(self, row: int, column: float, simulation: int = 1) -> UrnCell:
        place = (row, column, simulation)
        return next(cell for cell in self.cells if (cell.row, cell.column, cell.simulation) == place)


def _read(row: str, columns: list[float], simulations: int, down: str, across: str) -> Iterator[UrnCell]:
    key, _, *printed = row.split()
    places = [(column, side) for column in columns for side in range(1, simulations + 1)]
    for (column, side), number in zip(places, printed, strict=True):
        label = f"{down} {key}, {across} {column:.15g}"
        if simulations > 1:
            label += f", simulation {side}"
        if number != "-":
            yield UrnCell(int(key), column, side, number, label)


@cache
def tables() -> dict[str, UrnTable]:
    """All tables by number, such as "8.10"."""
    text = files("fieldmouse.lab.papers").joinpath("printed/thesis.toml").read_text()
    result: dict[str, UrnTable] = {}
    for entry in tomllib.loads(text)["table"]:
        simulations = entry.get("simulations", 1)
        cells = tuple(
            cell
            for row in entry["cells"].strip().splitlines()
            for cell in _read(row, entry["columns"], simulations, entry["down"], entry["across"])
        )
        result[entry["number"]] = UrnTable(
            entry["number"],
            entry["title"],
            entry["down"],
            entry["across"],
            tuple(entry["columns"]),
            cells,
            simulations,
        )
    return result
