"""What a host's visits taught, for each agent: a mean and a variance, kept by sibling Kalman filters.

The host's true delay at an agent wanders (`transition` is the variance it gains from one
visit to the next, wherever that goes), and a visit shows it with an error (`observation`).
A filter that is not asked only grows less certain, so that a draw will try its agent again one day.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class AgentNumbers(Protocol):
    """One number for each agent: a list in a live agent, an array in the lab."""

    def __getitem__(self, place: int, /) -> Any: ...

    def __setitem__(self, place: int, value: float, /) -> None: ...

    def __len__(self) -> int: ...


class AgentFlags(Protocol):
    """Yes or no for each agent: a list in a live agent, an array in the lab."""

    def __getitem__(self, place: int, /) -> Any: ...


class AgentPlaces(Protocol):
    """Places of agents in their table, or of whatever else has numbers: a list or an array."""

    def __getitem__(self, place: int, /) -> Any: ...

    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Filtering:
    """What filters believe at first, and how noisy they take visits for: the thesis's experiment 1."""

    mean: float = 0.1  # seconds
    variance: float = 1e6
    observation: float = 4.0  # variance of one visit
    transition: float = 0.01  # variance gained from visit to visit


THESIS = Filtering()


def learn(
    mean: AgentNumbers,
    variance: AgentNumbers,
    agent: int,
    value: float,
    observation: float,
    transition: float,
) -> None:
    """One visit by `agent` showed `value`; the rows are changed in place."""
    for other in range(len(mean)):
        variance[other] += transition
    predicted = variance[agent]
    mean[agent] = (predicted * value + observation * mean[agent]) / (predicted + observation)
    variance[agent] = predicted * observation / (predicted + observation)


def least_drawn(mean: AgentNumbers, variance: AgentNumbers, alive: AgentFlags, normals: AgentNumbers) -> int:
    """A value is drawn from what is believed of each agent; whose is least?"""
    best, least = -1, inf
    for agent in range(len(mean)):
        if alive[agent]:
            drawn = mean[agent] + sqrt(variance[agent]) * normals[agent]
            if drawn < least:
                best, least = agent, drawn
    return best
