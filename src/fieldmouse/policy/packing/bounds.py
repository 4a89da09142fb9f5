"""Lower bounds on the number of bins of any packing.

Martello and Toth, Lower bounds and reduction procedures for the bin packing problem (1990). The first
bound sums all weights. The second uses that two items of more than half a bin never share one: for each k
it sets aside items smaller than k, and counts the room that the large ones leave for the middle ones. It
is never below the first, and at least two thirds of the optimum.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def poured(weights: Sequence[int], capacity: int) -> int:
    """Sum of all weights over the capacity, rounded up; exact, since weights are whole units.

    >>> poured([6, 6, 6], capacity=10)
    2
    """
    return -(-sum(weights) // capacity)


def fewest(weights: Sequence[int], capacity: int) -> int:
    """Second bound; no weight may exceed the capacity.

    >>> fewest([6, 6, 6], capacity=10)
    3
    """
    if not weights:
        return 0
    falling = np.sort(np.asarray(weights, dtype=np.int64))[::-1]
    assert falling[0] <= capacity, "an item larger than a bin"
    rising = -falling  # so that searchsorted finds how many are larger
    sums = np.concatenate(([0], np.cumsum(falling)))
    half = int(np.searchsorted(rising, -(capacity // 2), side="left"))  # items of more than half a bin
    small = np.unique(falling[half:]) if half < len(falling) else np.array([0])
    ks = np.concatenate(([0], small))
    alone = np.minimum(np.searchsorted(rising, ks - capacity, side="left"), half)  # more than capacity - k
    at_least_k = np.searchsorted(rising, -ks, side="right")
    middle = sums[np.maximum(at_least_k, half)] - sums[half]
    left_over = (half - alone) * capacity - (sums[half] - sums[alone])
    more = np.maximum(0, -(-(middle - left_over) // capacity))
    return int((half + more).max())
