"""Bin packing: lower bounds, Best Fit Decreasing, fullest subset, and a bounded search for the fewest bins.

Bounds: Martello and Toth (1990). Subset sums are the bits of one large integer. The search is bin
completion (Korf 2002), from the better of Best Fit Decreasing and minimum bin slack (Gupta and Ho 1999);
mostly one of them meets the bound, and no search is needed.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np


def sum_bound(weights: Sequence[int], capacity: int) -> int:
    """Sum of all weights over the capacity, rounded up; exact, since weights are whole units.

    >>> sum_bound([6, 6, 6], capacity=10)
    2
    """
    return -(-sum(weights) // capacity)


def lower_bound(weights: Sequence[int], capacity: int) -> int:
    """Second bound; no weight may exceed the capacity.

    >>> lower_bound([6, 6, 6], capacity=10)
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


#: Items by their position in the list of weights.
Bins = list[list[int]]


def best_fit_decreasing(weights: Sequence[float], capacity: float) -> Bins:
    """
    >>> best_fit_decreasing([4, 8, 1, 4, 2, 1], capacity=10)
    [[1, 4], [0, 3, 2, 5]]
    """
    return best_fit_into(weights, capacity, [], range(len(weights)))


def best_fit_into(weights: Sequence[float], capacity: float, bins: Bins, items: Iterable[int]) -> Bins:
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


def bin_loads(weights: Sequence[float], bins: Sequence[Sequence[int]]) -> list[float]:
    """Total weight of each bin."""
    return [sum(weights[item] for item in held) for held in bins]


def fullest_subset(weights: Sequence[int], below: int) -> list[int]:
    """Positions of the items with the largest sum strictly below `below`.

    As printed, a sum equal to the capacity is too large, and of several subsets with the same sum the
    last of the loop is taken: the one that leaves out the earliest items. Empty if nothing fits.

    >>> fullest_subset([5, 3, 4, 6], below=11)
    [2, 3]
    >>> fullest_subset([12], below=11)
    []
    """
    if below <= 0:
        return []
    reachable = _reachable_sums(weights, below)
    target = reachable[0].bit_length() - 1
    kept = []
    for item, weight in enumerate(weights):
        if not reachable[item + 1] >> target & 1:  # not reachable without this item
            kept.append(item)
            target -= weight
    return kept


def _reachable_sums(weights: Sequence[int], below: int) -> list[int]:
    """Bit s of entry i: items i and later have a subset with the sum s, below the limit."""
    within = (1 << below) - 1
    sums = [1]
    for weight in reversed(weights):
        assert weight > 0, "an item has a weight"
        sums.append((sums[-1] | sums[-1] << weight) & within)
    return sums[::-1]


#: Limit on the search steps: about a second.
SEARCH_NODES = 20_000

#: Number of items above which a search of that size finds nothing better than the heuristics.
MAX_SEARCH_ITEMS = 250

#: Items times bins times units of a bin above which minimum bin slack takes seconds.
MAX_FILL_WORK = 20_000_000_000


@dataclass(frozen=True, slots=True)
class Packing:
    """Packing and a lower bound; optimal if it has `bound` bins."""

    bins: Bins
    bound: int

    @property
    def is_proven(self) -> bool:
        return len(self.bins) == self.bound


def pack(weights: Sequence[int], capacity: int, nodes: int = SEARCH_NODES) -> Packing:
    """Pack into as few bins as the search finds; no weight may exceed the capacity.

    >>> found = pack([6, 5, 4, 3, 3, 2, 7], capacity=10)
    >>> len(found.bins), found.is_proven
    (3, True)
    """
    bound = lower_bound(weights, capacity)
    best = best_fit_decreasing(weights, capacity)
    if len(best) > bound and len(weights) * len(best) * capacity <= MAX_FILL_WORK:
        best = min(best, _minimum_bin_slack(weights, capacity), key=len)
    if len(best) > bound and len(weights) <= MAX_SEARCH_ITEMS:
        completion = _BinCompletion(weights, capacity, best, bound, nodes)
        best = completion.best
        bound = len(best) if completion.is_exhausted else bound
    return Packing(best, bound)


def _minimum_bin_slack(weights: Sequence[int], capacity: int) -> Bins:
    """Minimum bin slack: the heaviest item left with the fullest set of companions, bin after bin."""
    left = sorted(range(len(weights)), key=lambda item: -weights[item])
    bins: Bins = []
    while left:
        first, *rest = left
        room = capacity - weights[first]
        company = {rest[place] for place in fullest_subset([weights[item] for item in rest], room + 1)}
        bins.append([first, *(item for item in rest if item in company)])
        left = [item for item in rest if item not in company]
    return bins


class _BinCompletion:
    """The search; `is_exhausted` means that no better packing exists."""

    def __init__(self, weights: Sequence[int], capacity: int, best: Bins, bound: int, nodes: int):
        self.weights = weights
        self.capacity = capacity
        self.best = best
        self.bound = bound
        self.nodes = nodes
        self._search(sorted(range(len(weights)), key=lambda item: -weights[item]), [])
        self.is_exhausted = self.nodes > 0

    def _search(self, left: list[int], bins: Bins) -> None:
        if not left:
            self.best = bins  # only reached with fewer bins than before
            return
        for held in self._candidate_bins(left):
            if self.nodes <= 0 or len(self.best) == self.bound:
                return
            self.nodes -= 1
            inside = set(held)
            rest = [item for item in left if item not in inside]
            needed = lower_bound([self.weights[item] for item in rest], self.capacity)
            if len(bins) + 1 + needed < len(self.best):
                self._search(rest, [*bins, held])

    def _candidate_bins(self, left: list[int]) -> Iterator[list[int]]:
        """Bins with the heaviest item in which no further item fits, fullest first."""
        first, *rest = left
        found = list(self._maximal_bins([first], self.capacity - self.weights[first], rest, self.capacity))
        yield from sorted(found, key=lambda held: -sum(self.weights[item] for item in held))

    def _maximal_bins(self, held: list[int], room: int, rest: list[int], skipped: int) -> Iterator[list[int]]:
        """Complete a bin. A bin with room for `skipped`, the lightest item left out, is not full."""
        fitting = [place for place, item in enumerate(rest) if self.weights[item] <= room]
        if not fitting:
            if skipped > room:
                yield held
            return
        seen = -1
        lightest = skipped
        for place in fitting:
            item = rest[place]
            weight = self.weights[item]
            if weight == seen:
                continue  # equal items are interchangeable
            seen = weight
            if self.nodes <= 0:
                return
            self.nodes -= 1
            yield from self._maximal_bins([*held, item], room - weight, rest[place + 1 :], lightest)
            lightest = min(lightest, weight)
