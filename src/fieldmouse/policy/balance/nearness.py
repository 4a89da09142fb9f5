"""IPMicra: assignment of whole subnets to the nearest agent.

Subnets form a tree: leaves with hosts, and the regions that contain them. An unassigned leaf is offered
in turn to the agents that have other leaves of its region; the first agent near enough (a probe below the
threshold) takes it. If none is near enough, all are probed and the nearest takes it. Slow visits are
counted, and after some of them the subnet is offered again, to all. Loads are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from fieldmouse.policy.balance.kalman import AgentFlags, AgentNumbers, AgentPlaces


@dataclass(frozen=True, slots=True)
class Patience:
    """Limits beyond which an agent is too far away."""

    threshold: float = 2.0  # seconds: an agent with a shorter trip is near enough
    complaints: int = 5  # slow visits after which a subnet is offered again


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
    """Agent for a subnet; `keeper`: agent of each subnet (-1: none), `probes`: the agents' measurements."""
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
