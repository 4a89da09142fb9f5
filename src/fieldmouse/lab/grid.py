"""Layout of rows with similar labels as a two-dimensional table.

A row is one number with a flat label, "delta 5, gamma 0.9". Thirty of them are hard to read as a list and
easy to read with delta down and gamma across, as the paper printed them. No declaration is needed:
consecutive labels of the same form make a grid, and the others stay a list.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from fieldmouse.lab.catalogue import Row

WIDEST = 12
"""Largest readable number of columns."""

DENSE = 0.5
"""Smallest share of filled cells in a grid; sparser rows stay a list."""

Label = tuple[tuple[str, str], ...]
"""Names and values: "delta 5, one queue" is (("delta", "5"), ("", "one queue"))."""


@dataclass(frozen=True, slots=True)
class Grid:
    """`down` and `across` name the varying quantities; `common` is the part that all labels share."""

    common: str
    down: str
    across: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: Mapping[tuple[str, str], Row]


Block = Grid | tuple[Row, ...]


def blocks(rows: Iterable[Row]) -> list[Block]:
    """Split rows, in order, into grids and the lists between them."""
    found: list[Block] = []
    for form, run in groupby(rows, key=lambda row: tuple(name for name, _ in parts(row.label))):
        for block in _laid_out(list(run), len(form)):
            if found and isinstance(block, tuple) and isinstance(found[-1], tuple):
                found[-1] = (*found[-1], *block)
            else:
                found.append(block)
    return found


def parts(label: str) -> Label:
    """
    >>> parts("Table 8.6: delta 9, T 300000, one queue")
    (('Table', '8.6'), ('delta', '9'), ('T', '300000'), ('', 'one queue'))
    >>> parts("gamma=0.9, K = 5")
    (('gamma', '0.9'), ('K', '5'))
    """
    return tuple(map(_part, re.split(r"[,:;] +", label)))


def _part(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if equals:
        return name.strip(), value.strip()
    name, _, value = text.strip().rpartition(" ")
    return (name, value) if any(character.isdigit() for character in value) else ("", text.strip())


def _laid_out(rows: list[Row], width: int) -> Iterator[Block]:
    labels = [parts(row.label) for row in rows]
    varied = [i for i in range(width) if len({label[i] for label in labels}) > 1]
    if len(varied) < 2:
        yield tuple(rows)
        return
    values = {i: list(dict.fromkeys(label[i][1] for label in labels)) for i in varied}
    down = _longest(varied, values)
    rest = [i for i in varied if i != down]
    places = [(label[down][1], _joined(label, rest)) for label in labels]
    columns = tuple(dict.fromkeys(column for _, column in places))
    if len(columns) > WIDEST and len(rest) > 1:
        # Too wide for one grid: make one for each value of the quantity with the fewest values.
        split = min(rest, key=lambda i: len(values[i]))
        for value in values[split]:
            chosen = [row for row, label in zip(rows, labels, strict=True) if label[split][1] == value]
            yield from _laid_out(chosen, width)
        return
    filled = len(set(places))
    if filled < len(places) or len(columns) > WIDEST or filled < DENSE * len(columns) * len(values[down]):
        yield tuple(rows)
        return
    yield Grid(
        common=_joined(labels[0], [i for i in range(width) if i not in varied], named=True),
        down=labels[0][down][0],
        across=", ".join(filter(None, (labels[0][i][0] for i in rest))),
        rows=tuple(values[down]),
        columns=columns,
        cells=dict(zip(places, rows, strict=True)),
    )


def _longest(varied: Sequence[int], values: Mapping[int, list[str]]) -> int:
    """Quantity for the rows: the first that varies, unless the only other one has many more values."""
    first = varied[0]
    if len(varied) == 2 and len(values[varied[1]]) > max(WIDEST, len(values[first])):
        return varied[1]
    return first


def _joined(label: Label, which: Iterable[int], *, named: bool = False) -> str:
    return ", ".join(" ".join(filter(None, label[i])) if named else label[i][1] for i in which)
