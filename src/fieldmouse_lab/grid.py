"""Layout of rows as tables, and the number of digits to show.

A row is one number with a flat label, "delta 5, gamma 0.9". Thirty of them are hard to read as a list and
easy to read with delta down and gamma across, as the paper printed them. Consecutive labels of the same
form make a grid, and the others stay a list. A printed number is shown as printed. Ours gets two more
digits, to show how the printed one was rounded; a mean over seeds gets as many digits as its spread
justifies.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby

from fieldmouse_lab.catalogue import Row, finite_number

#: Largest readable number of columns.
WIDEST = 12

#: Smallest share of filled cells in a grid; sparser rows stay a list.
DENSE = 0.5

#: Names and values: "delta 5, one queue" is (("delta", "5"), ("", "one queue")).
Label = tuple[tuple[str, str], ...]


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


def layout_rows(rows: Iterable[Row]) -> list[Block]:
    """Split rows, in order, into grids and the lists between them."""
    found: list[Block] = []
    for form, run in groupby(rows, key=lambda row: tuple(name for name, _ in parse_label(row.label))):
        for block in _laid_out(list(run), len(form)):
            if found and isinstance(block, tuple) and isinstance(found[-1], tuple):
                found[-1] = (*found[-1], *block)
            else:
                found.append(block)
    return found


def parse_label(label: str) -> Label:
    """
    >>> parse_label("Table 8.6: delta 9, T 300000, one queue")
    (('Table', '8.6'), ('delta', '9'), ('T', '300000'), ('', 'one queue'))
    >>> parse_label("gamma=0.9, K = 5")
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
    labels = [parse_label(row.label) for row in rows]
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


#: Digits of a number without printed value or spread.
SIGNIFICANT = 6

NOTHING = "–"


def format_printed(row: Row) -> str:
    """
    >>> from fieldmouse_lab.catalogue import Verdict
    >>> format_printed(Row("", 67.52, 67.5199, None, Verdict.SAME))
    '67.52'
    >>> format_printed(Row("", None, 1, 0, Verdict.NEW))
    '–'
    """
    value = finite_number(row.printed)
    return NOTHING if value is None else _whole(value)


def format_ours(row: Row) -> str:
    """
    >>> from fieldmouse_lab.catalogue import Verdict
    >>> format_ours(Row("", 67.52, 67.519912, None, Verdict.SAME))
    '67.5199'
    >>> format_ours(Row("", 40, 41.234, 1.92, Verdict.SAME))
    '41.2'
    >>> format_ours(Row("", None, 0.123456789, None, Verdict.NEW))
    '0.123457'
    >>> format_ours(Row("", 5, float("nan"), 0, Verdict.NEW))
    '–'
    """
    value, beside, moves = finite_number(row.ours), finite_number(row.printed), _moves(row)
    if value is None:
        return NOTHING
    if moves:
        meaningful = _meaningful(moves)
        return _fixed(value, min(max(_decimals(beside), meaningful), meaningful + 2))
    if beside not in (None, value) and not value.is_integer():
        return _fixed(value, _decimals(beside) + 2)
    return _whole(value if value.is_integer() else float(f"{value:.{SIGNIFICANT}g}"))


def format_spread(row: Row) -> str:
    """Format the spread with two digits; "" for a number without randomness.

    >>> from fieldmouse_lab.catalogue import Verdict
    >>> [format_spread(Row("", None, 1.0, moves, Verdict.NEW)) for moves in (0.0123, 4.9959e-05, 1e-16, None)]
    ['0.012', '5e-05', '', '']
    """
    moves = _moves(row)
    if not moves:
        return ""
    return _fixed(moves, _meaningful(moves)) if moves >= 1e-4 else f"{moves:.2g}"


def _moves(row: Row) -> float | None:
    """The spread, unless it is only rounding in the last digits of a float."""
    moves, value = finite_number(row.spread), finite_number(row.ours)
    return moves if moves and moves > 1e-12 * abs(value or 0.0) else None


def _decimals(value: float | None) -> int:
    """Digits after the point in the shortest notation of a number."""
    if value is None:
        return 0
    exponent = Decimal(repr(value)).normalize().as_tuple().exponent
    assert isinstance(exponent, int)
    return max(0, -exponent)


def _meaningful(moves: float) -> int:
    """Digits after the point that show two digits of the spread."""
    return min(12, max(0, 1 - math.floor(math.log10(abs(moves)))))


def _whole(value: float) -> str:
    """All digits of a number; in scientific notation if far from 1."""
    return _fixed(value, _decimals(value))


def _fixed(value: float, decimals: int) -> str:
    if value and not 1e-4 <= abs(value) < 1e9:
        return f"{value:.{SIGNIFICANT - 1}g}"
    grouped = f"{value:,.{decimals}f}"
    return grouped if abs(value) >= 10_000 else grouped.replace(",", "")
