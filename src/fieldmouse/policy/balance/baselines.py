"""Baseline balancers: consistent hashing, IPMicra, shortest expected delay, the better of two agents.

Consistent hashing gives each agent many places on a ring; a joining or leaving agent moves only its own
hosts. IPMicra assigns subnets to the nearest agent and offers them again after some slow visits. Both
ignore loads. The delay rules compare backlog plus expected trip, of all agents or of two random ones.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from xxhash import xxh3_64_intdigest

from fieldmouse.policy.balance.kalman import AliveFlags, FloatPerAgent, IntArrayLike


def shortest_delay(mean: FloatPerAgent, backlog: FloatPerAgent, speed: FloatPerAgent, alive: AliveFlags) -> int:
    """Agent with the least sum of backlog and expected visit time."""
    best, least = -1, inf
    for agent in range(len(mean)):
        if alive[agent]:
            delay = backlog[agent] + mean[agent] * speed[agent]
            if delay < least:
                best, least = agent, delay
    return best


def better_of_two(
    mean: FloatPerAgent, backlog: FloatPerAgent, speed: FloatPerAgent, alive: AliveFlags, first: int, second: int
) -> int:
    """Like `shortest_delay`, restricted to two agents (power of two choices)."""
    if not alive[first]:
        return second
    if not alive[second]:
        return first
    one = backlog[first] + mean[first] * speed[first]
    other = backlog[second] + mean[second] * speed[second]
    return first if one <= other else second


@dataclass(frozen=True, slots=True)
class IpMicraParameters:
    """Limits beyond which an agent is too far away."""

    threshold: float = 2.0  # seconds: an agent with a shorter trip is near enough
    complaints: int = 5  # slow visits after which a subnet is offered again


IPMICRA_PARAMETERS = IpMicraParameters()


def assign_subnet(
    subnet: int,
    region: IntArrayLike,
    keeper: IntArrayLike,
    probes: FloatPerAgent,
    alive: AliveFlags,
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


#: Places of each agent on the ring: the thesis's number, for loads that differ by some per cent.
REPLICAS = 100


class HashRing:
    """
    >>> ring, smaller = HashRing(["a", "b", "c"]), HashRing(["a", "c"])
    >>> moved = [key for key in range(1000) if ring.owner(key) != smaller.owner(key)]
    >>> {ring.owner(key) for key in moved}
    {'b'}
    """

    def __init__(self, agents: Iterable[str], replicas: int = REPLICAS, seed: int = 0):
        self._seed = seed
        places = sorted(
            (xxh3_64_intdigest(f"{agent}#{number}".encode(), seed), agent)
            for agent in set(agents)
            for number in range(replicas)
        )
        self._places = [place for place, _ in places]
        self._owners = [agent for _, agent in places]

    def owner(self, key: int | str) -> str:
        """Agent of the host with this name or number."""
        assert self._owners, "a ring needs an agent"
        at = bisect_left(self._places, xxh3_64_intdigest(str(key).encode(), self._seed ^ 1))
        return self._owners[at % len(self._owners)]
