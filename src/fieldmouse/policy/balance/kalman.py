"""What a host's visits taught, for each agent: a mean and a variance, kept by sibling Kalman filters.

The host's true delay at an agent wanders (`transition` is the variance it gains from one
visit to the next, wherever that goes), and a visit shows it with an error (`observation`).
A filter that is not asked only grows less certain, so that a draw will try its agent again one day.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fieldmouse.compiled import compiled_in_place as compiled

Reals = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@compiled
def learn(
    mean: Reals, variance: Reals, agent: int, value: float, observation: float, transition: float
) -> None:
    """One visit by `agent` showed `value`; the rows are changed in place."""
    for other in range(len(mean)):
        variance[other] += transition
    predicted = variance[agent]
    mean[agent] = (predicted * value + observation * mean[agent]) / (predicted + observation)
    variance[agent] = predicted * observation / (predicted + observation)


@compiled
def least_drawn(mean: Reals, variance: Reals, alive: Flags, normals: Reals) -> int:
    """A value is drawn from what is believed of each agent; whose is least?"""
    best, least = -1, np.inf
    for agent in range(len(mean)):
        if alive[agent]:
            drawn = mean[agent] + np.sqrt(variance[agent]) * normals[agent]
            if drawn < least:
                best, least = agent, drawn
    return best


class TripRow:
    """What travels with a host: for each agent that visited it, what was learned there.

    >>> row = TripRow.begin(["east", "west"], mean=0.1, variance=1e6)
    >>> row.learn("east", 0.5, observation=4.0, transition=0.01)
    >>> TripRow.from_row(row.to_row()).to_row() == row.to_row()
    True
    >>> round(float(row.mean[0]), 3)
    0.5
    """

    def __init__(self, agents: list[str], mean: Reals, variance: Reals):
        self.agents, self.mean, self.variance = agents, mean, variance

    @classmethod
    def begin(cls, agents: list[str], *, mean: float, variance: float) -> TripRow:
        return cls(list(agents), np.full(len(agents), mean), np.full(len(agents), variance))

    def meet(self, agent: str, *, mean: float, variance: float) -> int:
        """The place of an agent in the row; a new one is met with the given belief."""
        if agent not in self.agents:
            self.agents.append(agent)
            self.mean = np.append(self.mean, mean)
            self.variance = np.append(self.variance, variance)
        return self.agents.index(agent)

    def learn(self, agent: str, value: float, *, observation: float, transition: float) -> None:
        """One visit by `agent` showed `value`."""
        learn(self.mean, self.variance, self.agents.index(agent), value, observation, transition)

    def to_row(self) -> dict[str, Any]:
        return {"agents": self.agents, "mean": self.mean.tolist(), "variance": self.variance.tolist()}

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> TripRow:
        return cls(list(row["agents"]), np.array(row["mean"], float), np.array(row["variance"], float))
