"""Two rules that look at queues: go where the wait is shortest, or to the better of two drawn by lot."""

from __future__ import annotations

from math import inf

from fieldmouse.policy.balance.kalman import AgentFlags, AgentNumbers


def shortest_delay(mean: AgentNumbers, backlog: AgentNumbers, speed: AgentNumbers, alive: AgentFlags) -> int:
    """The agent with the least of: what it has to do already, and this visit as it is expected to be."""
    best, least = -1, inf
    for agent in range(len(mean)):
        if alive[agent]:
            delay = backlog[agent] + mean[agent] * speed[agent]
            if delay < least:
                best, least = agent, delay
    return best


def better_of_two(
    mean: AgentNumbers, backlog: AgentNumbers, speed: AgentNumbers, alive: AgentFlags, first: int, second: int
) -> int:
    """As `shortest_delay`, but of two agents only (power of two choices)."""
    if not alive[first]:
        return second
    if not alive[second]:
        return first
    one = backlog[first] + mean[first] * speed[first]
    other = backlog[second] + mean[second] * speed[second]
    return first if one <= other else second
