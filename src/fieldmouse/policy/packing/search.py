"""Search for the fewest bins: bin completion with a limit on search nodes.

Bins are filled one after another. The heaviest item left goes into the next bin, and its possible
companions
are tried fullest first (Korf, A new algorithm for optimal bin packing, 2002): only sets to which no other
item
could be added. A branch ends where the second bound of Martello and Toth shows that it cannot beat the
best
packing known. That one comes from Best Fit Decreasing, or from filling bin after bin as full as possible
(minimum bin slack; Gupta and Ho, 1999); mostly one of them meets the bound, and no search is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fieldmouse.policy.packing.bounds import fewest
from fieldmouse.policy.packing.fit import Bins, best_fit_decreasing
from fieldmouse.policy.packing.subset import fullest

NODES = 20_000
"""Limit on the search steps: about a second."""

SEARCHED = 250
"""Number of items above which a search of that size finds nothing better than the heuristics."""

FILLED = 20_000_000_000
"""Items times bins times units of a bin above which minimum bin slack takes seconds."""


@dataclass(frozen=True, slots=True)
class Packing:
    """Packing and a lower bound; optimal if it has `bound` bins."""

    bins: Bins
    bound: int

    @property
    def is_proven(self) -> bool:
        return len(self.bins) == self.bound


def packed(weights: Sequence[int], capacity: int, nodes: int = NODES) -> Packing:
    """Pack into as few bins as the search finds; no weight may exceed the capacity.

    >>> found = packed([6, 5, 4, 3, 3, 2, 7], capacity=10)
    >>> len(found.bins), found.is_proven
    (3, True)
    """
    bound = fewest(weights, capacity)
    best = best_fit_decreasing(weights, capacity)
    if len(best) > bound and len(weights) * len(best) * capacity <= FILLED:
        best = min(best, _slackless(weights, capacity), key=len)
    if len(best) > bound and len(weights) <= SEARCHED:
        completion = _Completion(weights, capacity, best, bound, nodes)
        best = completion.best
        bound = len(best) if completion.is_exhausted else bound
    return Packing(best, bound)


def _slackless(weights: Sequence[int], capacity: int) -> Bins:
    """Minimum bin slack: the heaviest item left with the fullest set of companions, bin after bin."""
    left = sorted(range(len(weights)), key=lambda item: -weights[item])
    bins: Bins = []
    while left:
        first, *rest = left
        room = capacity - weights[first]
        company = {rest[place] for place in fullest([weights[item] for item in rest], room + 1)}
        bins.append([first, *(item for item in rest if item in company)])
        left = [item for item in rest if item not in company]
    return bins


class _Completion:
    """The search; `is_exhausted` means that no better packing exists."""

    def __init__(self, weights: Sequence[int], capacity: int, best: Bins, bound: int, nodes: int):
        self.weights = weights
        self.capacity = capacity
        self.best = best
        self.bound = bound
        self.nodes = nodes
        self._go_on(sorted(range(len(weights)), key=lambda item: -weights[item]), [])
        self.is_exhausted = self.nodes > 0

    def _go_on(self, left: list[int], bins: Bins) -> None:
        if not left:
            self.best = bins  # only reached with fewer bins than before
            return
        for held in self._companies(left):
            if self.nodes <= 0 or len(self.best) == self.bound:
                return
            self.nodes -= 1
            inside = set(held)
            rest = [item for item in left if item not in inside]
            needed = fewest([self.weights[item] for item in rest], self.capacity)
            if len(bins) + 1 + needed < len(self.best):
                self._go_on(rest, [*bins, held])

    def _companies(self, left: list[int]) -> Iterator[list[int]]:
        """Bins with the heaviest item in which no further item fits, fullest first."""
        first, *rest = left
        found = list(self._completed([first], self.capacity - self.weights[first], rest, self.capacity))
        yield from sorted(found, key=lambda held: -sum(self.weights[item] for item in held))

    def _completed(self, held: list[int], room: int, rest: list[int], skipped: int) -> Iterator[list[int]]:
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
            yield from self._completed([*held, item], room - weight, rest[place + 1 :], lightest)
            lightest = min(lightest, weight)
