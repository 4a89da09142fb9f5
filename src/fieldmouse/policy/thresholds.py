"""How many robots may fetch, given how many pages wait in the buffer.

The rule of Avrachenkov, Dudin, Klimenok, Nain and Semenova (2011): robots[0]
work while the level is at most limits[0], robots[1] while it is at most
limits[1], and so on; above the last limit the last number works. A fuller
buffer never wakes more robots.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Thresholds:
    """
    >>> rule = Thresholds(robots=(4, 2, 1), limits=(5, 8))
    >>> [rule.robots_at(level) for level in (0, 5, 6, 8, 9)]
    [4, 4, 2, 2, 1]
    """

    robots: tuple[int, ...]
    limits: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if len(self.robots) != len(self.limits) + 1:
            raise ValueError("a rule with n limits needs n + 1 numbers of robots")
        if list(self.limits) != sorted(self.limits):
            raise ValueError("limits must not fall")
        if list(self.robots) != sorted(self.robots, reverse=True) or self.robots[-1] < 0:
            raise ValueError("numbers of robots must not rise, nor be negative")

    def robots_at(self, level: int) -> int:
        return self.robots[bisect_left(self.limits, level)]
