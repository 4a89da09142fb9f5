"""The simulated web: where hosts and agents are, and how long a visit takes.

Two readings of the thesis's round-trip time (its equation 7.2). As printed, the logarithm of a
distance of 1 is 0, so that the next partition is as near as one's own (`literal`). The thesis's own
figure plots it from a distance of 1 on; with distances one larger, and half a second of work with
each visit, the printed throughput of consistent hashing comes out (`calibrated`).
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
"""Hosts of a hundred in each partition."""
CONFUSION = 7.0
"""The thesis's k: how much distance costs."""
LEAVES = 20
"""Subnets that hold hosts, for IPMicra."""
REGIONS = 6


class TripReading(StrEnum):
    """How the printed formula is read."""

    LITERAL = "literal"
    CALIBRATED = "calibrated"


OVERHEAD = {TripReading.LITERAL: 0.0, TripReading.CALIBRATED: 0.5}
"""Seconds that an agent works with each visit besides the round trip."""


@dataclass(frozen=True, slots=True, eq=False)
class Web:
    """Hosts and agents: mean round trips by host and agent, the hosts' spreads, and their subnets."""

    trip: Reals
    spread: Reals
    overhead: float
    subnet: Ints

    @property
    def service(self) -> Reals:
        """Mean seconds that a visit keeps its agent."""
        return self.trip + self.overhead


def web(
    rng: Generator, *, times: int = 1, agents: int = 4, reading: TripReading = TripReading.LITERAL
) -> Web:
    """The thesis's hosts, each `times` over, dealt to the partitions by lot; agents stand in turn in each."""
    order = rng.permutation(100 * times)
    means = np.tile(np.array(MEANS) / 1000, times)[order]
    spreads = np.tile(np.array(SPREADS) / 1000, times)[order]
    place = np.repeat(np.arange(PARTITIONS), np.array(SHARES) * times)
    apart = np.abs(place[:, None] - np.arange(agents)[None, :] % PARTITIONS).astype(float)
    if reading is TripReading.CALIBRATED:
        apart += 1.0
    far = np.log(np.maximum(apart, 1.0))
    trip = means[:, None] * (1 + CONFUSION / PARTITIONS * far)
    # Hosts are in the order of their partitions: five in a row share one, or two that are neighbours.
    subnet = np.arange(100 * times, dtype=np.int64) * LEAVES // (100 * times)
    return Web(trip, spreads, OVERHEAD[reading], subnet)
