"""Table of rows with a type for each column, for CSV and Parquet files.

Pages always have the same columns. Rows extracted by user code may have any, so the columns are found by
reading all rows first: a column with values of one type has that type, all other columns are text, with
lists and tables written as JSON.
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
    """Rows that can be read several times; without `fields`, the columns are found by reading all rows."""

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
        kinds_of: dict[str, set[Kind]] = {}
        for row in self.rows():
            for field, value in row.items():
                kinds_of.setdefault(field, set())
                if value is not None:
                    kinds_of[field].add(_kind_of(value))
        return {field: _joined(kinds) for field, kinds in kinds_of.items()}

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(self.kinds)

    def cells(self) -> Iterator[Row]:
        """Rows with each value converted to the type of its column."""
        kinds = self.kinds
        for row in self.rows():
            yield {field: _cell(row.get(field), kind) for field, kind in kinds.items()}


def _kind_of(value: object) -> Kind:
    if isinstance(value, int) and not isinstance(value, bool) and not -_LARGEST <= value < _LARGEST:
        return str
    kind = type(value)
    return kind if kind in (int, float, bool, str) else str


def _joined(kinds: set[Kind]) -> Kind:
    """Type that can hold values of all these types.

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
        return str.__str__(value)  # a member of a string enum is text already
    if kind is float and type(value) is int:
        return float(value)
    return _encode(value).decode() if kind is str else value
