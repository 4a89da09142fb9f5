"""IPMicra: whole subnets are given to the agent that is nearest to them.

Subnets form a tree: leaves with hosts, and the regions they lie in. A leaf that nobody has yet is offered to
those who have others of its region, one after another; who is near enough (a probe below the
threshold) takes it. If nobody is, all are probed and the nearest takes it. Visits that take too long are
counted, and after some of them the subnet is offered anew, to all. Loads are not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from fieldmouse.policy.balance.kalman import AgentFlags, AgentNumbers, AgentPlaces


@dataclass(frozen=True, slots=True)
class Patience:
    """When an agent is too far away."""

    threshold: float = 2.0  # seconds: near enough is who takes less
    complaints: int = 5  # visits that took longer, after which a subnet is offered anew


PATIENCE = Patience()


def delegate(
    subnet: int,
    region: AgentPlaces,
    keeper: AgentPlaces,
    probes: AgentNumbers,
    alive: AgentFlags,
    threshold: float,
    first: bool,
) -> int:
    """Who gets a subnet; `keeper` has the agent of each (-1: nobody), `probes` what each agent measured."""
    if first:
        for other in range(len(keeper)):
            agent = int(keeper[other])
            if region[other] == region[subnet] and agent >= 0 and alive[agent] and probes[agent] < threshold:
                return agent
    best, least = -1, inf
    for agent in range(len(probes)):
        if alive[agent] and probes[agent] < least:
            best, least = agent, probes[agent]
    return best
