"""Order-independent sum of keys: compares two sets of keys by count and sum, without memory."""

from __future__ import annotations

import msgspec
import numpy as np

from fieldmouse.frontier.keytable import Keys

_FULL = (1 << 64) - 1


class KeySum(msgspec.Struct):
    """Number of keys and their sum."""

    count: int = 0
    total: int = 0

    def add(self, key: int) -> None:
        self.count += 1
        self.total = (self.total + (key or 1)) & _FULL  # the sieve has no key 0

    def add_all(self, keys: Keys) -> None:
        """Add keys from the sieve, which has no key 0."""
        self.merge(KeySum(keys.size, int(keys.sum(dtype=np.uint64))))

    def merge(self, other: KeySum) -> None:
        self.count += other.count
        self.total = (self.total + other.total) & _FULL
