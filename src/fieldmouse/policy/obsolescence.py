"""Time limit of a page in the buffer, after which fetching it again is better.

In the model of Avrachenkov, Dudin, Klimenok, Nain and Semenova (2011) every page has a lifetime and leaves
the buffer unserved when the lifetime ends; a page in service is safe. A live crawl cannot know when a page
changes at its server, so all pages get the same time. The lab draws lifetimes, as in the model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from numpy.random import Generator


class Obsolescence(Protocol):
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
