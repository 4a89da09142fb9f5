"""Which row has this key: sorted keys, and the few that came since they were sorted in a dict."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fieldmouse.refresh.columns import Rows

Keys = NDArray[np.uint64]

_MERGE_AT = 1 << 12


class KeyIndex:
    """12 bytes of memory a key. A key is of one row, for ever."""

    def __init__(self, keys: Keys):
        """Row i has `keys[i]`."""
        order = np.argsort(keys, kind="stable")
        self._keys: Keys = keys[order]
        self._rows = order.astype(np.uint32)
        self._late: dict[int, int] = {}

    @property
    def bytes(self) -> int:
        """Memory of the sorted part."""
        return self._keys.nbytes + self._rows.nbytes

    def find(self, keys: Keys) -> Rows:
        """The row of each key; -1 if there is none."""
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
        """New keys, none of which is in yet."""
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
