"""Simulated web of the thesis: hosts, agents, durations of visits, the kernel's arrays and the throughput
limit.

The thesis's round-trip time (its equation 7.2) has two readings. As printed, the logarithm of a distance
of 1 is 0, so the next partition is as near as the agent's partition (`literal`). The thesis's figure
plots it from a distance of 1 on; with distances one larger, and half a second of work per visit, the
result is the printed throughput of consistent hashing (`calibrated`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from fieldmouse.policy.balance.kalman import Flags, Reals

MEANS = np.array(
    """
    1845.5 1086.36 986.34 713.18 1117.7 839.62 955.05 1808.97 1768.94 662.58 775.34 1178.44
    2056.89 763.93 2007.18 1705.08 1999.67 964.88 2397.33 1099.53 1454.34 1155.6 1264.66
    793.25 1729.4 1729.59 615.02 898.45 555.28 2150.51 1194.84 1426.95 2196.54 1404.95 2693.96
    2132.37 765.68 1323.17 2066.97 2513.45 1199.59 1077.56 614.56 1192.43 1874.57 1381.47
    1955.11 747.95 1729.89 824.99 1998.7 1121.01 563.66 2226.67 1775.73 1376.13 2444.91
    1735.27 2955 1316.5 2101.28 773.23 1124.79 2248.88 1508.56 991.93 2499.08 1434.34 1963.28
    755.88 756.84 902.54 2445.87 2055.32 1114.01 1106.56 1395.67 1657 1389.05 2134.3 781.82
    2681.52 791.35 2155.19 1376.28 1165.69 2740.14 1993.59 1835.53 1447.92 1623.97 1147.85
    1932.56 1917.21 741.68 465.99 734.39 1605.99 2070 2292.82
    """.split(),
    float,
)

SPREADS = np.array(
    """
    657.64 305.52 255.24 181.23 269.89 199.72 309.66 431.05 1018.49 198.63 221.26 255.03
    167.98 194.49 1224.59 211.02 201.39 642.19 425.13 273.7 216.76 264.61 600.48 194.76
    325.72 207.74 254.97 206.45 237.44 291.67 309.82 566.83 197.55 202.55 1052.8 262.19
    208.07 987.34 974.28 873.58 206.35 255.42 241.05 254.71 434.23 183.4 456.48 152.62 877.13
    218.54 883.61 212.99 222.65 1063.81 202.32 203.05 826.75 206.35 243.14 858.72 1098.79
    195.23 302.43 202.59 403.64 888.38 225.77 348.71 203.59 145.55 236.56 204.24 1198.02
    453.15 335.46 303.17 177.58 1064.64 209.06 1149.86 173.17 1092.39 248.61 668.56 199.72
    336.89 925.67 909.75 918.5 706.56 512.01 362.34 986.89 209.78 201.59 216.84 204.02 191.83
    732.59 1024.31
    """.split(),
    float,
)


def min_max_load(service: Reals) -> float:
    """Minimal seconds of the busiest agent while each host is visited once."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, hstack

    some, hosts_alike = np.unique(service, axis=0, return_counts=True)
    kinds, agents_alike = np.unique(some, axis=1, return_counts=True)
    hosts, agents = kinds.shape
    number = hosts * agents
    columns = np.arange(number)
    # Work of one kind of agent for the visits of one kind of host; the load is that of one of these agents.
    work = (kinds * hosts_alike[:, None] / agents_alike).ravel()
    loads = csr_array((work, (columns % agents, columns)), shape=(agents, number))
    whole = csr_array((np.ones(number), (columns // agents, columns)), shape=(hosts, number))
    busiest = csr_array(-np.ones((agents, 1)))
    found = linprog(
        np.append(np.zeros(number), 1.0),
        A_ub=hstack([loads, busiest]),
        b_ub=np.zeros(agents),
        A_eq=hstack([whole, csr_array((hosts, 1))]),
        b_eq=np.ones(hosts),
        method="highs",
    )
    return float(found.fun)


def throughput_limit(service: Reals) -> float:
    """Visits per second of the whole network when all hosts are visited equally often."""
    return len(service) / min_max_load(service)


Ints = npt.NDArray[np.int64]


class BalanceRule(IntEnum):
    """Balancing rule, as a number for the kernel."""

    KALMAN = 0
    RING = 1
    NEARNESS = 2
    SHORTEST = 3
    TWO = 4
    PRICED = 5


class KernelParameters(NamedTuple):
    """Parameters that are constant during the simulation."""

    rule: int
    overhead: float
    observation: float
    transition: float
    sticky: float
    advert: float
    step: float
    least: float
    short: float
    loyal: float
    price_weight: float
    others: int
    unmet: float  # initial variance of the logarithm of an unknown host's trip
    more: float  # visits a host is expected to get in addition to its past number of visits
    share_most: float  # see `policy.balance.priced.SharePriceParameters`
    share_even: float
    share_slope: float
    share_few: float
    share_busy: float
    share_fuller: float
    threshold: float  # nearness: a longer visit counts as a complaint against the agent
    patience: int  # nearness: number of complaints after which the subnet is reassigned
    lease: float  # seconds until the hosts of a dead agent are taken over
    transfer: float  # seconds that a host takes from one agent to another
    delay: float  # seconds between two visits of a host
    drift: float  # standard deviation of the logarithm of a drifting round trip; 0: no drift
    memory: float  # time constant of the drift in seconds


class NetworkTables(NamedTuple):
    """One row per host or agent; the kernel changes all but the first three arrays."""

    trip: Reals  # host, agent: mean seconds
    spread: Reals  # host
    subnet: Ints  # host
    owner: Ints  # ring: the current agent of the host
    region: Ints  # nearness: the region of each subnet
    keeper: Ints  # nearness: the agent of each subnet, -1 if none yet
    complaints: Ints  # nearness: number per subnet
    wander: Reals  # host, agent: logarithm of the current drift factor of trips
    learned: Ints  # host: visits learned from
    usual: Reals  # host: its usual round trip
    mean: Reals  # host, agent: believed mean; below 0 if unknown
    variance: Reals
    stamp: Reals  # host: time at which it joined its queue
    at: Ints  # host: agent whose queue it is in
    visits: Ints  # host: visits in the measured span
    ready: Reals  # heap of hosts in transit: their arrival times
    waiting: Ints  # ... and their numbers
    queue: Ints  # agent, place
    head: Ints  # agent
    length: Ints  # agent
    serving: Ints  # agent: the host being visited, -1 for none
    until: Reals  # agent: end of that visit
    took: Reals  # agent: the round trip of that visit
    process: Reals  # agent: queue time and round trip of that visit
    slow: Reals  # agent: factor by which its trips are slower
    alive: Flags  # agent
    told: Reals  # agent: its backlog as last advertised
    backlog: Reals  # ... plus later arrivals, as others know it
    price: Reals  # agent
    speed: Reals  # agent: as advertised
    hosts: Reals  # agent: hosts in its queue, in service, or in transit to it
    load: Reals  # agent: its utilisation, as advertised
    outlook: Reals  # agent, and a last row for no agent: statistics of first visits
    pace: Reals  # agent: mean seconds of its visits
    measured: Reals  # see `Measured`
    worked: Reals  # agent: sum of process times of its visits in the span
    served: Ints  # agent: visits in the span
    expected: Reals  # agent: scratch space for beliefs
    drawn: Reals  # ... for random numbers
    share: Reals  # ... for share prices
    places: Ints  # ... and for the agents to compare


class Measured(IntEnum):
    """Indices in `NetworkTables.measured`."""

    NOW = 0
    HEAP = 1
    VISITS = 2
    EXCHANGES = 3
    UNFAIR = 4  # standard deviation of process times, times seconds
    SPAN = 5
    ADVERT_AT = 6
    DRIFT_AT = 7


PARTITIONS = 4
#: Percentage of hosts in each partition.
SHARES = (6, 13, 25, 56)
#: The thesis's k: the cost of distance.
CONFUSION = 7.0
#: Number of subnets with hosts, for IPMicra.
LEAVES = 20
REGIONS = 6


class TripReading(StrEnum):
    """Reading of the printed formula."""

    LITERAL = "literal"
    CALIBRATED = "calibrated"


#: Seconds of an agent's work per visit besides the round trip.
OVERHEAD = {TripReading.LITERAL: 0.0, TripReading.CALIBRATED: 0.5}


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedWeb:
    """Hosts and agents: mean round trips by host and agent, the hosts' spreads, and their subnets."""

    trip: Reals
    spread: Reals
    overhead: float
    subnet: Ints

    @property
    def service(self) -> Reals:
        """Mean seconds for which a visit occupies its agent."""
        return self.trip + self.overhead


def make_web(
    rng: Generator, *, times: int = 1, agents: int = 4, reading: TripReading = TripReading.LITERAL
) -> SimulatedWeb:
    """Make the thesis's hosts, each `times` over, and assign them to the partitions at random.

    Agents are assigned to the partitions in turn.
    """
    order = rng.permutation(100 * times)
    means = np.tile(MEANS / 1000, times)[order]
    spreads = np.tile(SPREADS / 1000, times)[order]
    place = np.repeat(np.arange(PARTITIONS), np.array(SHARES) * times)
    apart = np.abs(place[:, None] - np.arange(agents)[None, :] % PARTITIONS).astype(float)
    if reading is TripReading.CALIBRATED:
        apart += 1.0
    far = np.log(np.maximum(apart, 1.0))
    trip = means[:, None] * (1 + CONFUSION / PARTITIONS * far)
    # Hosts are ordered by partition: the hosts of a subnet are in the same or in neighbouring partitions.
    subnet = np.arange(100 * times, dtype=np.int64) * LEAVES // (100 * times)
    return SimulatedWeb(trip, spreads, OVERHEAD[reading], subnet)
