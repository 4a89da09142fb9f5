"""Number of digits to show of a result.

A printed number is shown as printed. Ours gets two more digits, to show how the printed one was rounded; a
mean over seeds gets as many digits as its spread justifies.
"""

from __future__ import annotations

import math
from decimal import Decimal

from fieldmouse.lab.catalogue import Row

SIGNIFICANT = 6
"""Digits of a number without printed value or spread."""

NOTHING = "–"


def printed(row: Row) -> str:
    """
    >>> from fieldmouse.lab.catalogue import Verdict
    >>> printed(Row("", 67.52, 67.5199, None, Verdict.SAME)), printed(Row("", None, 1, 0, Verdict.NEW))
    ('67.52', '–')
    """
    value = _known(row.printed)
    return NOTHING if value is None else _whole(value)


def ours(row: Row) -> str:
    """
    >>> from fieldmouse.lab.catalogue import Verdict
    >>> ours(Row("", 67.52, 67.519912, None, Verdict.SAME)), ours(Row("", 40, 41.234, 1.92, Verdict.SAME))
    ('67.5199', '41.2')
    >>> ours(Row("", None, 0.123456789, None, Verdict.NEW)), ours(Row("", 5, float("nan"), 0, Verdict.NEW))
    ('0.123457', '–')
    """
    value, beside, moves = _known(row.ours), _known(row.printed), _moves(row)
    if value is None:
        return NOTHING
    if moves:
        meaningful = _meaningful(moves)
        return _fixed(value, min(max(_decimals(beside), meaningful), meaningful + 2))
    if beside not in (None, value) and not value.is_integer():
        return _fixed(value, _decimals(beside) + 2)
    return _whole(value if value.is_integer() else float(f"{value:.{SIGNIFICANT}g}"))


def spread(row: Row) -> str:
    """Format the spread with two digits; "" for a number without randomness.

    >>> from fieldmouse.lab.catalogue import Verdict
    >>> [spread(Row("", None, 1.0, moves, Verdict.NEW)) for moves in (0.0123, 4.9959e-05, 1e-16, None)]
    ['0.012', '5e-05', '', '']
    """
    moves = _moves(row)
    if not moves:
        return ""
    return _fixed(moves, _meaningful(moves)) if moves >= 1e-4 else f"{moves:.2g}"


def _moves(row: Row) -> float | None:
    """The spread, unless it is only rounding in the last digits of a float."""
    moves, value = _known(row.spread), _known(row.ours)
    return moves if moves and moves > 1e-12 * abs(value or 0.0) else None


def _known(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


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
