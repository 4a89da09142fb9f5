"""Threshold rule: number of active fetch workers by the pages in the buffer, and the age at which a page is obsolete.

The rule of Avrachenkov, Dudin, Klimenok, Nain and Semenova (2011): robots[0] workers are active while the
level is at most limits[0], robots[1] while it is at most limits[1], and so on; above the last limit the
last number is active. A fuller buffer never activates more workers.

In the model of Avrachenkov, Dudin, Klimenok, Nain and Semenova (2011) every page has a lifetime and leaves
the buffer unserved when the lifetime ends; a page in service is safe. A live crawl cannot know when a page
changes at its server, so all pages get the same time. The lab draws lifetimes, as in the model.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from numpy.random import Generator

from fieldmouse.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Thresholds:
    """
    >>> rule = Thresholds(robots=(4, 2, 1), limits=(5, 8))
    >>> [rule.concurrency_at(level) for level in (0, 5, 6, 8, 9)]
    [4, 4, 2, 2, 1]
    """

    robots: tuple[int, ...]
    limits: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_thresholds(self.robots, self.limits)

    def concurrency_at(self, level: int) -> int:
        return self.robots[bisect_left(self.limits, level)]


def check_thresholds(robots: tuple[int, ...], limits: tuple[int, ...], where: str = "") -> None:
    """Raise SettingsError if these numbers are no valid rule; `where` precedes their names in the message.

    >>> check_thresholds((4, 2, 1), (5, 8))
    """
    if len(robots) != len(limits) + 1:
        raise SettingsError(
            f"`{where}robots` has {len(robots)} numbers and `{where}limits` has {len(limits)}",
            "a limit stands between two numbers of robots, such as `robots = [8, 2]` and `limits = [100]`",
        )
    if any(later < sooner for sooner, later in pairwise(limits)):
        raise SettingsError(f"`{where}limits` fall: {list(limits)}", "write them in ascending order")
    if any(later > sooner for sooner, later in pairwise(robots)):
        raise SettingsError(f"`{where}robots` rise: {list(robots)}", "a fuller buffer must not wake more robots")
    if robots[-1] < 0:
        raise SettingsError(f"`{where}robots` has {robots[-1]}", "numbers of robots are 0 or more")


class PageLifetime(Protocol):
    """Rule for how long a page that arrives at `arrived_at` may wait; times are seconds on one clock."""

    def expires_at(self, arrived_at: float) -> float: ...


@dataclass(frozen=True, slots=True)
class FixedLifetime:
    """
    >>> FixedLifetime().expires_at(100.0), FixedLifetime(60.0).expires_at(100.0)
    (inf, 160.0)
    """

    seconds: float = math.inf

    def expires_at(self, arrived_at: float) -> float:
        return arrived_at + self.seconds


@dataclass(frozen=True, slots=True)
class ExponentialLifetime:
    """Lifetimes of pages that change as a Poisson process; `mean` is in seconds."""

    mean: float
    chance: Generator

    def expires_at(self, arrived_at: float) -> float:
        return arrived_at + float(self.chance.exponential(self.mean))
