"""Queue-based baselines: shortest expected delay, and the better of two random agents."""

from __future__ import annotations

from math import inf

from fieldmouse.policy.balance.kalman import AgentFlags, AgentNumbers


def shortest_delay(mean: AgentNumbers, backlog: AgentNumbers, speed: AgentNumbers, alive: AgentFlags) -> int:
    """Agent with the least sum of backlog and expected visit time."""
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
    """Like `shortest_delay`, restricted to two agents (power of two choices)."""
    if not alive[first]:
        return second
    if not alive[second]:
        return first
    one = backlog[first] + mean[first] * speed[first]
    other = backlog[second] + mean[second] * speed[second]
    return first if one <= other else second
