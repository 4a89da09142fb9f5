"""Consistent hashing: agents have many places on a ring of hashes; a host belongs to the next agent.

A new agent takes hosts from all others evenly, and a leaving agent gives its hosts to all of them; no
other hosts move. Loads and distances are ignored.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from xxhash import xxh3_64_intdigest

REPLICAS = 100
"""Places of each agent on the ring: the thesis's number, for loads that differ by some per cent."""


class Ring:
    """
    >>> ring = Ring(["a", "b", "c"])
    >>> moved = [key for key in range(1000) if ring.owner(key) != ring.without("b").owner(key)]
    >>> {ring.owner(key) for key in moved}
    {'b'}
    """

    def __init__(self, agents: Iterable[str], replicas: int = REPLICAS, seed: int = 0):
        self._agents, self._replicas, self._seed = sorted(set(agents)), replicas, seed
        places = [
            (xxh3_64_intdigest(f"{agent}#{number}".encode(), seed), agent)
            for agent in self._agents
            for number in range(replicas)
        ]
        places.sort()
        self._places = [place for place, _ in places]
        self._owners = [agent for _, agent in places]

    def owner(self, key: int | str) -> str:
        """Agent of the host with this name or number."""
        assert self._owners, "a ring needs an agent"
        at = bisect_left(self._places, xxh3_64_intdigest(str(key).encode(), self._seed ^ 1))
        return self._owners[at % len(self._owners)]

    def without(self, agent: str) -> Ring:
        return Ring([other for other in self._agents if other != agent], self._replicas, self._seed)

    def with_agent(self, agent: str) -> Ring:
        return Ring([*self._agents, agent], self._replicas, self._seed)
