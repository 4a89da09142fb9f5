"""Compact tables of 64-bit keys in numpy arrays: a set, a numbering, and an order-independent sum.

The set is searched and filled in batches, by open addressing with linear probing. The keys are
hashes already, so their top bits are the slot; a sorted batch then walks the table from front to
back, which suits the processor's cache. Zero marks an empty slot.

The numbering gives small numbers to keys, one key at a time, in the order in which they first came. A
Python object for each host or site would cost hundreds of bytes; a number costs a dozen, and all further
facts fit into plain arrays beside. Its keys must be keyed hashes, so that no attacker can aim at a slot.

The sum compares two sets of keys by count and sum, without memory.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]
Marks = NDArray[np.bool_]

_SMALLEST = 14


class KeyTable:
    """Keys since the last run; 16 to 32 bytes of memory a key."""

    def __init__(self) -> None:
        self.count = 0
        self._grow_to(_SMALLEST)

    def _grow_to(self, bits: int) -> None:
        self._bits = bits
        self._slots: Keys = np.zeros(1 << bits, np.uint64)
        self._shift = np.uint64(64 - bits)
        self._last = np.intp((1 << bits) - 1)

    def has(self, keys: Keys) -> Marks:
        """For each key, whether it is in the table."""
        slots = (keys >> self._shift).astype(np.intp)
        there = self._slots[slots]
        found: Marks = there == keys
        onward = np.flatnonzero(~found & (there != 0))
        while onward.size:
            step = slots[onward] = (slots[onward] + 1) & self._last
            there = self._slots[step]
            hit = there == keys[onward]
            found[onward[hit]] = True
            onward = onward[~hit & (there != 0)]
        return found

    def add(self, keys: Keys) -> None:
        """Add keys that are all different and not yet in the table."""
        self.count += keys.size
        bits = self._bits
        while self.count > 1 << (bits - 1):
            bits += 1
        if bits > self._bits:
            kept = self.sorted()
            self._grow_to(bits)
            self._insert(kept)
        self._insert(keys)

    def _insert(self, keys: Keys) -> None:
        slots = (keys >> self._shift).astype(np.intp)
        while keys.size:
            free = self._slots[slots] == 0
            # Two keys may want one slot: the last written stays; the other finds it there and moves on.
            self._slots[slots[free]] = keys[free]
            homeless = self._slots[slots] != keys
            keys = keys[homeless]
            slots = (slots[homeless] + 1) & self._last

    def sorted(self) -> Keys:
        kept: Keys = self._slots[self._slots != 0]
        kept.sort()
        return kept

    def clear(self) -> None:
        self.count = 0
        self._slots.fill(0)


_MASK = (1 << 64) - 1


class KeySum(msgspec.Struct):
    """Number of keys and their sum."""

    count: int = 0
    total: int = 0

    def add(self, key: int) -> None:
        self.count += 1
        self.total = (self.total + (key or 1)) & _MASK  # the sieve has no key 0

    def add_all(self, keys: Keys) -> None:
        """Add keys from the sieve, which has no key 0."""
        self.merge(KeySum(keys.size, int(keys.sum(dtype=np.uint64))))

    def merge(self, other: KeySum) -> None:
        self.count += other.count
        self.total = (self.total + other.total) & _MASK
