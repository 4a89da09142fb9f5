"""When a page has waited in the buffer for so long that it is better fetched again.

In the model of Avrachenkov, Dudin, Klimenok, Nain and Semenova (2011) every page
brings a lifetime along and leaves the buffer unserved when that is over; a page in
service is safe. Live, nobody is told when a page changes at its server, so all
pages get the same time. The lab lets lifetimes differ, as the model does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from numpy.random import Generator


class Obsolescence(Protocol):
    """Until when a page that comes at `arrived_at` may wait; both are seconds on one clock."""

    def expires_at(self, arrived_at: float) -> float: ...


@dataclass(frozen=True, slots=True)
class SameForAll:
    """
    >>> SameForAll().expires_at(100.0), SameForAll(60.0).expires_at(100.0)
    (inf, 160.0)
    """

    seconds: float = math.inf

    def expires_at(self, arrived_at: float) -> float:
        return arrived_at + self.seconds


@dataclass(frozen=True, slots=True)
class Exponential:
    """Pages change at their servers as events of a Poisson stream; `mean` is in seconds."""

    mean: float
    chance: Generator

    def expires_at(self, arrived_at: float) -> float:
        return arrived_at + float(self.chance.exponential(self.mean))
