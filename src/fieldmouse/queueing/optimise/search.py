"""Limits found by walking downhill, where there are too many rules to try them all.

A walk starts from several rules, moves one limit or several neighbouring ones
together, by steps that are powers of two, and stays where no step helps. That is no
proof of an optimum; on models small enough to try every rule it has found it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from fieldmouse.queueing.model.measures import cost
from fieldmouse.queueing.model.model import Cost, Model
from fieldmouse.queueing.optimise.landscape import ByLevel
from fieldmouse.queueing.solve.solve import solve

Limits = tuple[int, ...]
"""Of all modes but the smallest, the largest first; -1 is a mode that is not used."""


def downhill(
    model: Model, weights: Cost, robots: tuple[int, ...], starts: Iterable[Limits]
) -> tuple[Limits, float, int]:
    """The best limits on any walk, their cost, and how many rules were looked at; robots fall."""
    seen: dict[Limits, float] = {}

    def height(limits: Limits) -> float:
        if limits not in seen:
            seen[limits] = cost(solve(model, written_out(robots, limits, model.top)), weights)
        return seen[limits]

    ends = [_walked(start, height, model.top) for start in starts]
    best = min(ends, key=lambda end: (height(end), end))
    return best, height(best), len(seen)


def written_out(robots: tuple[int, ...], limits: Limits, top: int) -> ByLevel:
    by_level: list[int] = []
    for mode, limit in zip(robots, (*limits, top), strict=True):
        by_level += [mode] * (limit + 1 - len(by_level))
    return ByLevel(tuple(by_level))


def _walked(here: Limits, height: Callable[[Limits], float], top: int) -> Limits:
    while True:
        there = next((near for near in _near(here, top) if height(near) < height(here)), None)
        if there is None:
            return here
        here = there


def _near(limits: Limits, top: int) -> Iterator[Limits]:
    """Limits from `first` to `last` moved together, the others pushed aside where they are in the way."""
    step = 1
    while 2 * step <= top:
        step *= 2
    while step:
        for first in range(len(limits)):
            for last in range(first, len(limits)):
                for move in (-step, step):
                    moved = list(limits)
                    for k in range(first, last + 1):
                        moved[k] = min(top, max(-1, limits[k] + move))
                    for k in range(first):
                        moved[k] = min(moved[k], moved[first])
                    for k in range(last + 1, len(moved)):
                        moved[k] = max(moved[k], moved[last])
                    if tuple(moved) != limits:
                        yield tuple(moved)
        step //= 2
