"""Table of small numbers for 64-bit keys, in the order in which they first came.

A crawl may know millions of hosts and sites. A Python object for each would cost
hundreds of bytes; a number costs a dozen, and all further facts fit into plain
arrays beside. Open addressing with linear probing, as in `KeyTable`, but one key at
a time. Keys must be keyed hashes, so that no attacker can aim at a slot. Two things may
share a key: a caller that can distinguish them uses `find_all`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

_SMALLEST_BITS = 10
_FULL_SHARE = 0.7


class KeyNumbering:
    """Numbers starting at 0; 17 to 35 bytes of memory per key."""

    def __init__(self) -> None:
        self._count = 0
        self._grow_to(_SMALLEST_BITS)

    def _grow_to(self, bits: int) -> None:
        self._keys: NDArray[np.uint64] = np.zeros(1 << bits, np.uint64)  # 0 marks an empty slot
        self._numbers: NDArray[np.uint32] = np.zeros(1 << bits, np.uint32)
        # A view of an array is read five times as fast as the array, one item at a time.
        self._key_at, self._number_at = memoryview(self._keys.data), memoryview(self._numbers.data)
        self._bits, self._shift, self._last = bits, 64 - bits, (1 << bits) - 1
        self._most = int(_FULL_SHARE * (1 << bits))

    def __len__(self) -> int:
        return self._count

    def find(self, key: int) -> int:
        """Return a number of this key, or -1 if it has none."""
        key_at, last = self._key_at, self._last
        key = key or 1
        slot = key >> self._shift
        while there := key_at[slot]:
            if there == key:
                return self._number_at[slot]
            slot = (slot + 1) & last
        return -1

    def find_all(self, key: int) -> Iterator[int]:
        """Yield every number of this key: more than one if different things have the same hash."""
        key = key or 1
        slot = key >> self._shift
        while there := self._key_at[slot]:
            if there == key:
                yield self._number_at[slot]
            slot = (slot + 1) & self._last

    def add(self, key: int) -> int:
        """Give the key a new number, whether or not it has one."""
        if self._count >= self._most:
            self._grow()
        key = key or 1
        slot = key >> self._shift
        while self._key_at[slot]:
            slot = (slot + 1) & self._last
        self._key_at[slot], self._number_at[slot] = key, self._count
        self._count += 1
        return self._count - 1

    def _grow(self) -> None:
        used = self._keys != 0
        keys, numbers = self._keys[used], self._numbers[used]
        self._grow_to(self._bits + 1)
        slots = (keys >> np.uint64(self._shift)).astype(np.intp)
        while keys.size:
            free = self._keys[slots] == 0
            # Several may want one slot: the last written stays; the others find it there and move on.
            self._keys[slots[free]] = keys[free]
            self._numbers[slots[free]] = numbers[free]
            homeless = (self._numbers[slots] != numbers) | (self._keys[slots] != keys)
            keys, numbers = keys[homeless], numbers[homeless]
            slots = (slots[homeless] + 1) & self._last
