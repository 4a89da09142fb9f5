"""Simulated web: locations of hosts and agents, and durations of visits.

The thesis's round-trip time (its equation 7.2) has two readings. As printed, the logarithm of a distance
of 1 is 0, so the next partition is as near as the agent's partition (`literal`). The thesis's figure plots
it from a distance of 1 on; with distances one larger, and half a second of work per visit, the result is
the printed throughput of consistent hashing (`calibrated`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.random import Generator

from fieldmouse.lab.network.floor import Ints
from fieldmouse.lab.network.hosts import MEANS, SPREADS
from fieldmouse.policy.balance.kalman import Reals

PARTITIONS = 4
SHARES = (6, 13, 25, 56)
"""Percentage of hosts in each partition."""
CONFUSION = 7.0
"""The thesis's k: the cost of distance."""
LEAVES = 20
"""Number of subnets with hosts, for IPMicra."""
REGIONS = 6


class TripReading(StrEnum):
    """Reading of the printed formula."""

    LITERAL = "literal"
    CALIBRATED = "calibrated"


OVERHEAD = {TripReading.LITERAL: 0.0, TripReading.CALIBRATED: 0.5}
"""Seconds of an agent's work per visit besides the round trip."""


@dataclass(frozen=True, slots=True, eq=False)
class Web:
    """Hosts and agents: mean round trips by host and agent, the hosts' spreads, and their subnets."""

    trip: Reals
    spread: Reals
    overhead: float
    subnet: Ints

    @property
    def service(self) -> Reals:
        """Mean seconds for which a visit occupies its agent."""
        return self.trip + self.overhead


def web(
    rng: Generator, *, times: int = 1, agents: int = 4, reading: TripReading = TripReading.LITERAL
) -> Web:
    """Make the thesis's hosts, each `times` over, and assign them to the partitions at random.

    Agents are assigned to the partitions in turn.
    """
    order = rng.permutation(100 * times)
    means = np.tile(np.array(MEANS) / 1000, times)[order]
    spreads = np.tile(np.array(SPREADS) / 1000, times)[order]
    place = np.repeat(np.arange(PARTITIONS), np.array(SHARES) * times)
    apart = np.abs(place[:, None] - np.arange(agents)[None, :] % PARTITIONS).astype(float)
    if reading is TripReading.CALIBRATED:
        apart += 1.0
    far = np.log(np.maximum(apart, 1.0))
    trip = means[:, None] * (1 + CONFUSION / PARTITIONS * far)
    # Hosts are ordered by partition: the hosts of a subnet are in the same or in neighbouring partitions.
    subnet = np.arange(100 * times, dtype=np.int64) * LEAVES // (100 * times)
    return Web(trip, spreads, OVERHEAD[reading], subnet)
