"""Growing table of fixed-size columns, one numpy array per column, and an index from key to row.

With one array per column a plan over all rows reads memory sequentially. Rows of the snapshot on disk are
memory-mapped and copied only when changed; later rows are in arrays that grow. Callers see one table. The
key index consists of sorted arrays, plus a dict of keys added since the last sort.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]
Rows = NDArray[np.int64]

_SMALLEST = 64


class ColumnSpec(NamedTuple):
    """Column definition: name, numpy type, and number of values per row (None: one scalar)."""

    name: str
    kind: str
    width: int | None = None

    @property
    def bytes_per_cell(self) -> int:
        """Bytes per row."""
        return np.dtype(self.kind).itemsize * (1 if self.width is None else self.width)

    def shape(self, rows: int) -> tuple[int, ...]:
        return (rows,) if self.width is None else (rows, self.width)


class ColumnTable:
    """Table with numbered rows; `held` are the snapshot's columns and must be writable."""

    def __init__(self, fields: Sequence[ColumnSpec], held: Mapping[str, Column] | None = None):
        self.fields = tuple(fields)
        self.replace_columns(held or {field.name: _empty(field, 0) for field in fields})

    def replace_columns(self, held: Mapping[str, Column]) -> None:
        """Replace all columns with `held` and drop every changed copy."""
        self._held = dict(held)
        self._kept = self._count = len(self._held[self.fields[0].name])
        self._grown = {field.name: _empty(field, 0) for field in self.fields}
        self._room = 0
        self._changed = np.zeros(self._count, bool)

    def __len__(self) -> int:
        return self._count

    def add_rows(self, number: int) -> Rows:
        """Add rows of zeros and return their numbers."""
        first = self._count
        self._count += number
        wanted = self._count - self._kept
        if wanted > self._room:
            self._room = max(_SMALLEST, wanted, self._room + self._room // 4)
            for field in self.fields:
                old = self._grown[field.name]
                new = self._grown[field.name] = _empty(field, self._room)
                new[: len(old)] = old
            self._changed = np.concatenate([self._changed[:first], np.zeros(self._kept + self._room - first, bool)])
        self._changed[first : self._count] = True
        return np.arange(first, self._count, dtype=np.int64)

    def read_cells(self, name: str, rows: Rows) -> Column:
        """Copy of some rows of a column."""
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

    def write_cells(self, name: str, rows: Rows, values: Any) -> None:
        """Change some rows of a column; `rows` must not contain duplicates."""
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

    def column(self, name: str) -> Column:
        """Whole column, read-only."""
        held, grown = self._held[name], self._grown[name][: self._count - self._kept]
        seen = held.view() if not len(grown) else grown.view() if not len(held) else None
        if seen is None:
            return np.concatenate([held, grown])
        seen.flags.writeable = False
        return seen

    def take_changed_rows(self) -> Rows:
        """Rows added or changed since the last call, in order."""
        changed = np.flatnonzero(self._changed)
        self._changed[changed] = False
        return changed


def _empty(field: ColumnSpec, rows: int) -> Column:
    return np.zeros(field.shape(rows), field.kind)


Keys = NDArray[np.uint64]

_MERGE_AT = 1 << 12


class KeyIndex:
    """Index from key to row, 12 bytes of memory per key; a key never changes its row."""

    def __init__(self, keys: Keys):
        """Index `keys`, where `keys[i]` belongs to row i."""
        order = np.argsort(keys, kind="stable")
        self._keys: Keys = keys[order]
        self._rows = order.astype(np.uint32)
        self._late: dict[int, int] = {}

    def find_rows(self, keys: Keys) -> Rows:
        """Row of each key; -1 if the key is unknown."""
        found = np.full(len(keys), -1, np.int64)
        if len(self._keys):
            places = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
            hit = self._keys[places] == keys
            found[hit] = self._rows[places[hit]]
        if self._late:
            late = self._late
            for place in np.flatnonzero(found < 0).tolist():
                found[place] = late.get(int(keys[place]), -1)
        return found

    def add_keys(self, keys: Keys, rows: Rows) -> None:
        """Add new keys; none of them may be in the index yet."""
        self._late.update(zip(keys.tolist(), rows.tolist(), strict=True))
        if len(self._late) > _MERGE_AT + len(self._keys) // 8:
            count = len(self._late)
            late = np.fromiter(self._late.keys(), np.uint64, count)
            numbers = np.fromiter(self._late.values(), np.uint32, count)
            order = np.argsort(late)
            places = np.searchsorted(self._keys, late[order])
            self._keys = np.insert(self._keys, places, late[order])
            self._rows = np.insert(self._rows, places, numbers[order])
            self._late = {}
