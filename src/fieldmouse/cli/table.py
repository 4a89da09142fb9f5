"""Rows on their way to a file: which columns there are, and what kind of value each holds.

Pages have the same columns always. Rows that somebody's code extracted have whatever
it gave them, so where a format wants columns all rows are looked at first: a column
whose values are of one kind has that kind, all others are text, with lists and
tables written as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

import msgspec

Row = dict[str, Any]
Kind = type[int] | type[float] | type[bool] | type[str]

_LARGEST = 1 << 63
_encode = msgspec.json.Encoder().encode


class Table:
    """Rows that can be read again from the beginning; without `fields` they are found by reading."""

    def __init__(
        self,
        rows: Callable[[], Iterator[Row]],
        kinds: Mapping[str, Kind] | None = None,
        fields: tuple[str, ...] | None = None,
    ):
        self.rows, self._given, self._fields = rows, kinds or {}, fields

    @cached_property
    def kinds(self) -> dict[str, Kind]:
        """The kind of each column, in the order of columns."""
        if self._fields is not None:
            return {field: self._given.get(field, str) for field in self._fields}
        found: dict[str, set[Kind]] = {}
        for row in self.rows():
            for field, value in row.items():
                found.setdefault(field, set())
                if value is not None:
                    found[field].add(_kind_of(value))
        return {field: _joined(kinds) for field, kinds in found.items()}

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(self.kinds)

    def cells(self) -> Iterator[Row]:
        """The rows with each value of its column's kind."""
        kinds = self.kinds
        for row in self.rows():
            yield {field: _cell(row.get(field), kind) for field, kind in kinds.items()}


def _kind_of(value: object) -> Kind:
    if isinstance(value, int) and not isinstance(value, bool) and not -_LARGEST <= value < _LARGEST:
        return str
    kind = type(value)
    return kind if kind in (int, float, bool, str) else str


def _joined(kinds: set[Kind]) -> Kind:
    """The kind that holds values of all these.

    >>> _joined({int, float}), _joined({int, str}), _joined({bool})
    (<class 'float'>, <class 'str'>, <class 'bool'>)
    """
    if len(kinds) == 1:
        return next(iter(kinds))
    return float if kinds == {int, float} else str


def _cell(value: object, kind: Kind) -> object:
    if value is None or type(value) is kind:
        return value
    if kind is str and isinstance(value, str):
        return str.__str__(value)  # a word of an enumeration is text already
    if kind is float and type(value) is int:
        return float(value)
    return _encode(value).decode() if kind is str else value
