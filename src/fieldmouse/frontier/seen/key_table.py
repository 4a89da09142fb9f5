"""Compact tables of 64-bit keys in numpy arrays: a set, a numbering, and an order-independent checksum.

The set is searched and filled in batches, by open addressing with linear probing. The keys are
hashes already, so their top bits are the slot; a sorted batch then walks the table from front to
back, which suits the processor's cache. Zero marks an empty slot.

The numbering gives small numbers to keys, one key at a time, in the order in which they first came. A
Python object for each host or site would cost hundreds of bytes; a number costs a dozen, and all further
facts fit into plain arrays beside. Its keys must be keyed hashes, so that no attacker can aim at a slot.

The sum compares two sets of keys by count and sum, without memory.

A crawl may know millions of hosts and sites. A Python object for each would cost
hundreds of bytes; a number costs a dozen, and all further facts fit into plain
arrays beside. Open addressing with linear probing, as in `RecentKeySet`, but one key at
a time. Keys must be keyed hashes, so that no attacker can aim at a slot. Two things may
share a key: a caller that can distinguish them uses `numbers_of_key`.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]
Marks = NDArray[np.bool_]

_SMALLEST = 14


class RecentKeySet:
    """Keys since the last run; 16 to 32 bytes of memory a key."""

    def __init__(self) -> None:
        self.count = 0
        self._allocate(_SMALLEST)

    def _allocate(self, bits: int) -> None:
        self._bits = bits
        self._slots: Keys = np.zeros(1 << bits, np.uint64)
        self._shift = np.uint64(64 - bits)
        self._last = np.intp((1 << bits) - 1)

    def contains_each(self, keys: Keys) -> Marks:
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

    def insert_unchecked(self, keys: Keys) -> None:
        """Add keys that are all different and not yet in the table."""
        self.count += keys.size
        bits = self._bits
        while self.count > 1 << (bits - 1):
            bits += 1
        if bits > self._bits:
            kept = self.sorted_keys()
            self._allocate(bits)
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

    def sorted_keys(self) -> Keys:
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


_SMALLEST_BITS = 10
_FULL_SHARE = 0.7


class KeyNumbering:
    """Numbers starting at 0; 17 to 35 bytes of memory per key."""

    def __init__(self) -> None:
        self._count = 0
        self._allocate_slots(_SMALLEST_BITS)

    def _allocate_slots(self, bits: int) -> None:
        self._keys: NDArray[np.uint64] = np.zeros(1 << bits, np.uint64)  # 0 marks an empty slot
        self._numbers: NDArray[np.uint32] = np.zeros(1 << bits, np.uint32)
        # A view of an array is read five times as fast as the array, one item at a time.
        self._key_at, self._number_at = memoryview(self._keys.data), memoryview(self._numbers.data)
        self._bits, self._shift, self._last = bits, 64 - bits, (1 << bits) - 1
        self._most = int(_FULL_SHARE * (1 << bits))

    def __len__(self) -> int:
        return self._count

    def find_number(self, key: int) -> int:
        """Return a number of this key, or -1 if it has none."""
        key_at, last = self._key_at, self._last
        key = key or 1
        slot = key >> self._shift
        while there := key_at[slot]:
            if there == key:
                return self._number_at[slot]
            slot = (slot + 1) & last
        return -1

    def numbers_of_key(self, key: int) -> Iterator[int]:
        """Yield every number of this key: more than one if different things have the same hash."""
        key = key or 1
        slot = key >> self._shift
        while there := self._key_at[slot]:
            if there == key:
                yield self._number_at[slot]
            slot = (slot + 1) & self._last

    def add_number(self, key: int) -> int:
        """Give the key a new number, whether or not it has one."""
        if self._count >= self._most:
            self._double()
        key = key or 1
        slot = key >> self._shift
        while self._key_at[slot]:
            slot = (slot + 1) & self._last
        self._key_at[slot], self._number_at[slot] = key, self._count
        self._count += 1
        return self._count - 1

    def _double(self) -> None:
        used = self._keys != 0
        keys, numbers = self._keys[used], self._numbers[used]
        self._allocate_slots(self._bits + 1)
        slots = (keys >> np.uint64(self._shift)).astype(np.intp)
        while keys.size:
            free = self._keys[slots] == 0
            # Several may want one slot: the last written stays; the others find it there and move on.
            self._keys[slots[free]] = keys[free]
            self._numbers[slots[free]] = numbers[free]
            homeless = (self._numbers[slots] != numbers) | (self._keys[slots] != keys)
            keys, numbers = keys[homeless], numbers[homeless]
            slots = (slots[homeless] + 1) & self._last
