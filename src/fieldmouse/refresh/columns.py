"""A table of fixed-size columns: its rows are numbered, and there are more and more of them.

Each column is one array, so that a plan over all rows walks through memory from front to back. Rows
that a snapshot on the disk holds are mapped, and copied only where they are changed; rows that came
later are in arrays that grow. Whoever asks sees one table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]
Rows = NDArray[np.int64]

_SMALLEST = 64


class Field(NamedTuple):
    """One column: its name, numpy's name of its type, and how many of it a row holds, if not just one."""

    name: str
    kind: str
    width: int | None = None

    @property
    def bytes(self) -> int:
        """Of a row."""
        return np.dtype(self.kind).itemsize * (1 if self.width is None else self.width)

    def shape(self, rows: int) -> tuple[int, ...]:
        return (rows,) if self.width is None else (rows, self.width)


class Columns:
    """`held` are the columns of the snapshot, which must be writable; nothing is held to begin with."""

    def __init__(self, fields: Sequence[Field], held: Mapping[str, Column] | None = None):
        self.fields = tuple(fields)
        self.hold(held or {field.name: _empty(field, 0) for field in fields})

    def hold(self, held: Mapping[str, Column]) -> None:
        """All rows are in these columns now, and whatever was copied in order to be changed is let go."""
        self._held = dict(held)
        self._kept = self._count = len(self._held[self.fields[0].name])
        self._grown = {field.name: _empty(field, 0) for field in self.fields}
        self._room = 0
        self._changed = np.zeros(self._count, bool)

    def __len__(self) -> int:
        return self._count

    @property
    def bytes(self) -> int:
        """Memory, mapped or not, that the columns take."""
        columns = (column.nbytes for part in (self._held, self._grown) for column in part.values())
        return sum(columns) + self._changed.nbytes

    def grow(self, number: int) -> Rows:
        """Add so many rows of zeros; returns their numbers."""
        first = self._count
        self._count += number
        wanted = self._count - self._kept
        if wanted > self._room:
            self._room = max(_SMALLEST, wanted, self._room + self._room // 4)
            for field in self.fields:
                old = self._grown[field.name]
                new = self._grown[field.name] = _empty(field, self._room)
                new[: len(old)] = old
            self._changed = np.concatenate(
                [self._changed[:first], np.zeros(self._kept + self._room - first, bool)]
            )
        self._changed[first : self._count] = True
        return np.arange(first, self._count, dtype=np.int64)

    def take(self, name: str, rows: Rows) -> Column:
        """A copy of some rows of a column."""
        held, grown = self._held[name], self._grown[name]
        if self._count == self._kept:
            return held[rows]
        if not self._kept:
            return grown[rows]
        low = rows < self._kept
        found = np.empty((len(rows), *held.shape[1:]), held.dtype)
        found[low] = held[rows[low]]
        found[~low] = grown[rows[~low] - self._kept]
        return found

    def put(self, name: str, rows: Rows, values: Any) -> None:
        """Change some rows of a column; no row may be there twice."""
        values = np.asarray(values)
        if self._count == self._kept:
            self._held[name][rows] = values
        elif not self._kept:
            self._grown[name][rows] = values
        else:
            low = rows < self._kept
            spread = values.ndim and len(values) == len(rows)
            self._held[name][rows[low]] = values[low] if spread else values
            self._grown[name][rows[~low] - self._kept] = values[~low] if spread else values
        self._changed[rows] = True

    def whole(self, name: str) -> Column:
        """A column from the first row to the last, to read only."""
        held, grown = self._held[name], self._grown[name][: self._count - self._kept]
        seen = held.view() if not len(grown) else grown.view() if not len(held) else None
        if seen is None:
            return np.concatenate([held, grown])
        seen.flags.writeable = False
        return seen

    def take_changed(self) -> Rows:
        """The rows that were added or changed since this was asked before, in order."""
        changed = np.flatnonzero(self._changed)
        self._changed[changed] = False
        return changed


def _empty(field: Field, rows: int) -> Column:
    return np.zeros(field.shape(rows), field.kind)
