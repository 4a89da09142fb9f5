"""Index from key to row number: sorted arrays, plus a dict of keys added since the last sort."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fieldmouse.refresh.columns import Rows

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

    @property
    def bytes(self) -> int:
        """Memory of the sorted part."""
        return self._keys.nbytes + self._rows.nbytes

    def find(self, keys: Keys) -> Rows:
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

    def add(self, keys: Keys, rows: Rows) -> None:
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
