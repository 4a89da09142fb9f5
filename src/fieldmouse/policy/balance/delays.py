"""Two rules that look at queues: go where the wait is shortest, or to the better of two drawn by lot."""

from __future__ import annotations

import numpy as np

from fieldmouse.compiled import compiled_in_place as compiled
from fieldmouse.policy.balance.kalman import Flags, Reals


@compiled
def shortest_delay(mean: Reals, backlog: Reals, speed: Reals, alive: Flags) -> int:
    """The agent with the least of: what it has to do already, and this visit as it is expected to be."""
    best, least = -1, np.inf
    for agent in range(len(mean)):
        if alive[agent]:
            delay = backlog[agent] + mean[agent] * speed[agent]
            if delay < least:
                best, least = agent, delay
    return best


@compiled
def better_of_two(mean: Reals, backlog: Reals, speed: Reals, alive: Flags, first: int, second: int) -> int:
    """As `shortest_delay`, but of two agents only (power of two choices)."""
    if not alive[first]:
        return second
    if not alive[second]:
        return first
    one = backlog[first] + mean[first] * speed[first]
    other = backlog[second] + mean[second] * speed[second]
    return first if one <= other else second
