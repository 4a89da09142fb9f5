"""Search for the thresholds with the least cost, and for what workers do when the buffer is full.

First every pair of numbers of workers gets its best limit, by a search on ever finer grids. Then a third
number is put between those of the best pair, and the limits are moved as long as the cost falls.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import get_args

from fieldmouse.queueing.in_flight.model import InFlightModel, WhenFull, solve_in_flight
from fieldmouse.queueing.model.model import CostWeights, Measures, WorkersByLevel, cost_of

_GRID = 6  # limits tried on each grid
_NEVER = 1e-9  # share of time
_HOPELESS = 1.2  # a pair that costs this many times the best on a coarse grid is not refined
_WORTH = 1e-3  # smallest relative saving for which a third number of workers is added


@dataclass(frozen=True, eq=False)
class FoundRule:
    """A rule, what workers do when the buffer is full, and the predicted result."""

    robots: tuple[int, ...]
    limits: tuple[int, ...]
    when_full: WhenFull
    measures: Measures
    cost: float


class RuleSearch:
    """Search among rules of at most three of the numbers `modes`, or of none: 0 stops all workers."""

    def __init__(self, model: InFlightModel, weights: CostWeights, modes: Iterable[int]):
        self._model, self._weights = model, weights
        self._modes = sorted({count for count in modes if count <= model.workers} | {0, model.workers}, reverse=True)
        self._known: dict[tuple[tuple[int, ...], tuple[int, ...], WhenFull], FoundRule] = {}

    def solve(self, robots: Sequence[int], limits: Sequence[int], when_full: WhenFull) -> FoundRule:
        key = tuple(robots), tuple(limits), when_full
        if key not in self._known:
            rule = WorkersByLevel.from_limits(robots, limits, self._model.capacity)
            measures = solve_in_flight(self._model, rule, when_full)
            self._known[key] = FoundRule(*key, measures, cost_of(measures, self._weights))
        return self._known[key]

    def best(self, ways: Sequence[WhenFull] = get_args(WhenFull)) -> FoundRule:
        """The rule with the least cost; of equal ones, the first of `ways` and the one with fewest numbers."""
        best = self._best_that(ways[0])
        for when_full in ways[1:]:
            # Otherwise the buffer is never full, so it makes no difference what would happen then.
            if best.measures.levels[-1] > _NEVER:
                best = min(best, self._best_that(when_full), key=_rounded_cost)
        return best

    def _best_that(self, when_full: WhenFull) -> FoundRule:
        best = self._best_of_two(when_full)
        if len(best.robots) < 2:
            return best
        high, low = best.robots
        (limit,) = best.limits
        for middle in (count for count in self._modes if low < count < high):
            three = self._descend(self.solve((high, middle, low), (limit, min(limit + 1, self._last)), when_full))
            if three.cost < best.cost * (1 - _WORTH):
                best = three
        return best

    def _best_of_two(self, when_full: WhenFull) -> FoundRule:
        """The best rule of one or two numbers; hopeless pairs are dropped from one grid to the next."""
        modes = self._modes
        best = min((self.solve((count,), (), when_full) for count in modes[:-1]), key=_rounded_cost)
        ranges = dict.fromkeys(combinations(modes, 2), (0, self._last))
        while ranges:
            found: dict[tuple[int, int], tuple[FoundRule, int]] = {}
            for pair, (first, last) in ranges.items():
                step = max(1, (last - first) // _GRID)
                grid = sorted({*range(first, last + 1, step), last})
                found[pair] = min((self.solve(pair, (at,), when_full) for at in grid), key=_rounded_cost), step
                best = min(best, found[pair][0], key=_rounded_cost)
            ranges = {
                pair: (max(0, one.limits[0] - step), min(self._last, one.limits[0] + step))
                for pair, (one, step) in found.items()
                if step > 1 and one.cost <= best.cost * _HOPELESS
            }
        return best

    @property
    def _last(self) -> int:
        return self._model.capacity - 1

    def _descend(self, best: FoundRule) -> FoundRule:
        """Move one limit at a time, by half of the distance to the next one at first, while the cost falls."""
        step = max(1, self._last // 8)
        while True:
            robots, (lower, upper) = best.robots, best.limits
            moves = ((lower - step, upper), (lower + step, upper), (lower, upper - step), (lower, upper + step))
            allowed = [move for move in moves if 0 <= move[0] <= move[1] <= self._last]
            there = min((self.solve(robots, move, best.when_full) for move in allowed), key=_rounded_cost, default=best)
            if there.cost < best.cost * (1 - 1e-6):
                best = there
            elif step == 1:
                return best
            else:
                step = max(1, step // 4)


def _rounded_cost(found: FoundRule) -> tuple[float, int]:
    """The cost without the last digits, in which equal rules differ, and the numbers of workers."""
    return float(f"{found.cost:.9g}"), len(found.robots)
