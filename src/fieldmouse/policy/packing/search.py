"""Fewest bins: bin completion with a bound on the nodes of the search.

Bins are filled one after another. The heaviest item that is left goes into the next bin, and what
may go with it is tried fullest first (Korf, A new algorithm for optimal bin packing, 2002): only
sets to which no other item could be added. A branch ends where the second bound of
Martello and Toth says that it cannot beat the best packing known. That one comes from Best Fit Decreasing,
or from filling bin after bin as full as can be (minimum bin slack; Gupta and Ho, 1999);
mostly one of them meets the bound, and nothing needs to be searched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fieldmouse.policy.packing.bounds import fewest
from fieldmouse.policy.packing.fit import Bins, best_fit_decreasing
from fieldmouse.policy.packing.subset import fullest

NODES = 20_000
"""Bins filled in a search before it rests with what it has: about a second."""

SEARCHED = 250
"""Items beyond which a search of so few nodes finds nothing that the heuristics did not."""

FILLED = 20_000_000_000
"""Items times bins times units of a bin beyond which filling bins as full as can be takes seconds."""


@dataclass(frozen=True, slots=True)
class Packing:
    """`bound` bins are needed at least; the packing is as good as any if it has as many."""

    bins: Bins
    bound: int

    @property
    def is_proven(self) -> bool:
        return len(self.bins) == self.bound


def packed(weights: Sequence[int], capacity: int, nodes: int = NODES) -> Packing:
    """A packing into as few bins as were found; no weight is above the capacity.

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
    """The heaviest item left, with the fullest company it can have, bin after bin."""
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
    """The search itself; `is_exhausted` says that nothing better exists than what it found."""

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
            self.best = bins  # only ever reached with fewer bins than before
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
        """Bins with the heaviest item in which no further item would fit, fullest first."""
        first, *rest = left
        found = list(self._completed([first], self.capacity - self.weights[first], rest, self.capacity))
        yield from sorted(found, key=lambda held: -sum(self.weights[item] for item in held))

    def _completed(self, held: list[int], room: int, rest: list[int], skipped: int) -> Iterator[list[int]]:
        """`skipped` is the lightest item left out so far: a bin with room for it is not full."""
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
                continue  # one of equals is as good as another
            seen = weight
            if self.nodes <= 0:
                return
            self.nodes -= 1
            yield from self._completed([*held, item], room - weight, rest[place + 1 :], lightest)
            lightest = min(lightest, weight)
