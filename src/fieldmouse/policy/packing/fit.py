"""Best Fit Decreasing: heaviest item first, each into the fullest bin that still has room for it.

Exactly as the scheme prints it: an item that fills a bin exactly fits, of two bins equally full the first
is taken, and an item that fits nowhere opens a bin, even if it is larger than a bin (callers that care
check the loads).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence

Bins = list[list[int]]
"""Items by their position in the list of weights."""


def best_fit_decreasing(weights: Sequence[float], capacity: float) -> Bins:
    """
    >>> best_fit_decreasing([4, 8, 1, 4, 2, 1], capacity=10)
    [[1, 4], [0, 3, 2, 5]]
    """
    return fitted(weights, capacity, [], range(len(weights)))


def fitted(weights: Sequence[float], capacity: float, bins: Bins, items: Iterable[int]) -> Bins:
    """Copies of the bins with these items added; weights are above 0."""
    packed = [list(held) for held in bins]
    # Sorted room of the bins: the first that is enough is the best fit, and the first of equals.
    room = sorted((capacity - sum(weights[item] for item in held), i) for i, held in enumerate(packed))
    for item in sorted(items, key=lambda item: -weights[item]):
        weight = weights[item]
        at = bisect_left(room, (weight, -1))
        if at == len(room):
            packed.append([item])
            insort(room, (capacity - weight, len(packed) - 1))
        else:
            left, chosen = room.pop(at)
            packed[chosen].append(item)
            insort(room, (left - weight, chosen))
    return packed


def loads(weights: Sequence[float], bins: Sequence[Sequence[int]]) -> list[float]:
    """Total weight of each bin."""
    return [sum(weights[item] for item in held) for held in bins]
