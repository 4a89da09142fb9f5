"""Sibling Kalman filters: a mean and a variance of a host's delay for each agent.

The true delay of a host at an agent drifts (`transition` is the variance gained from one visit to the
next, by any agent), and a visit measures it with an error (`observation`). A filter without new
measurements only becomes less certain, so that a sample will try its agent again eventually.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class FloatPerAgent(Protocol):
    """One number per agent: a list in a live agent, an array in the lab."""

    def __getitem__(self, place: int, /) -> Any: ...

    def __setitem__(self, place: int, value: float, /) -> None: ...

    def __len__(self) -> int: ...


class AliveFlags(Protocol):
    """One boolean per agent: a list in a live agent, an array in the lab."""

    def __getitem__(self, place: int, /) -> Any: ...


class IntArrayLike(Protocol):
    """Places of agents in their table, or other numbers: a list or an array."""

    def __getitem__(self, place: int, /) -> Any: ...

    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class KalmanParameters:
    """Initial belief and noise of the filters: the thesis's experiment 1."""

    mean: float = 0.1  # seconds
    variance: float = 1e6
    observation: float = 4.0  # variance of one visit
    transition: float = 0.01  # variance gained from visit to visit


THESIS_PARAMETERS = KalmanParameters()


def kalman_update(
    mean: FloatPerAgent, variance: FloatPerAgent, agent: int, value: float, observation: float, transition: float
) -> None:
    """Update the rows in place after a visit by `agent` that measured `value`."""
    for other in range(len(mean)):
        variance[other] += transition
    predicted = variance[agent]
    mean[agent] = (predicted * value + observation * mean[agent]) / (predicted + observation)
    variance[agent] = predicted * observation / (predicted + observation)


def sample_least(mean: FloatPerAgent, variance: FloatPerAgent, alive: AliveFlags, normals: FloatPerAgent) -> int:
    """Agent with the least value sampled from the beliefs; -1 if none is alive."""
    best, least = -1, inf
    for agent in range(len(mean)):
        if alive[agent]:
            drawn = mean[agent] + sqrt(variance[agent]) * normals[agent]
            if drawn < least:
                best, least = agent, drawn
    return best
