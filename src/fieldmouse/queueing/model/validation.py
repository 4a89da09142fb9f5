"""Validation of the numbers of a model, with an error message for each wrong one.

A matrix with one wrong sign still has some stationary distribution, so the mistake
would go unnoticed. Therefore every number is checked here before it enters a model, and an
error names the entry as the file does: `S[1][0]`, counted from zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fieldmouse.errors import UsageError

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]

#: How far a row may miss its sum, relative to its largest entry: printed numbers are rounded.
ROUNDING = 1e-8

#: Products of more would overflow, and leave a model without an answer.
LARGEST = 1e100


class ModelError(UsageError):
    """A model holds an invalid number."""


def show_number(value: object) -> str:
    """A number with its sign where that is the point, anything else as JSON would write it.

    >>> show_number(2.0), show_number(-0.25), show_number("2"), show_number(None)
    ('+2', '-0.25', '"2"', 'null')
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float | np.number):
        return f"{value:+.12g}" if value else "0"
    return f'"{value}"' if isinstance(value, str) else f"a {type(value).__name__}"


def checked_number(value: object, name: str) -> float:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise ModelError(f"{name} is {show_number(value)}: it must be a number")
    try:
        found = float(value)
    except OverflowError:  # a whole number of hundreds of digits
        found = math.inf
    if not math.isfinite(found):
        raise ModelError(f"{name} is {found}: it must be finite")
    if abs(found) > LARGEST:
        raise ModelError(
            f"{name} is {show_number(found)}: nothing beyond {LARGEST:g} can be reckoned with",
            "choose another unit of time",
        )
    return found


def checked_vector(value: object, name: str) -> FloatArray:
    entries = _as_list(value, name)
    return np.array([checked_number(entry, f"{name}[{i}]") for i, entry in enumerate(entries)])


def checked_matrix(value: object, name: str, size: int | None = None) -> FloatArray:
    """A square matrix, of `size` rows where that is known."""
    rows = _as_list(value, name)
    wanted = len(rows) if size is None else size
    if len(rows) != wanted:
        raise ModelError(f"{name} has {len(rows)} {'row' if len(rows) == 1 else 'rows'}: it must have {wanted}")
    for i, row in enumerate(rows):
        if (width := len(_as_list(row, f"{name}[{i}]"))) != wanted:
            raise ModelError(f"{name}[{i}] has {width} {'entry' if width == 1 else 'entries'}: it must have {wanted}")
    return np.array([checked_vector(row, f"{name}[{i}]") for i, row in enumerate(rows)])


def check_nonnegative(found: FloatArray, name: str) -> None:
    for at in np.argwhere(found < 0):
        entry = name + "".join(f"[{i}]" for i in at)
        raise ModelError(f"{entry} is {show_number(found[tuple(at)])}: it must not be negative")


def check_generator_signs(found: FloatArray, name: str) -> None:
    """The diagonal takes away and everything else brings."""
    for i, j in np.argwhere(found < 0):
        if i != j:
            raise ModelError(f"{name}[{i}][{j}] is {show_number(found[i, j])}: only diagonal entries may be negative")
    for i in np.flatnonzero(found.diagonal() >= 0):
        raise ModelError(f"{name}[{i}][{i}] is {show_number(found[i, i])}: a diagonal entry must be negative")


def reachable_states(jumps: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """From which state which can be reached, in any number of jumps, none included."""
    found = jumps | np.eye(len(jumps), dtype=bool)
    while True:
        wider = found @ found
        if (wider == found).all():
            return found
        found = wider


def read_only_copy(found: FloatArray) -> FloatArray:
    """The same numbers as a read-only array."""
    kept = np.array(found, dtype=np.float64)
    kept.setflags(write=False)
    return kept


def _as_list(value: object, name: str) -> Sequence[Any]:
    found = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(found, Sequence) or isinstance(found, str | bytes):
        raise ModelError(f"{name} is {show_number(value)}: it must be a list")
    if not found:
        raise ModelError(f"{name} is empty")
    return found
