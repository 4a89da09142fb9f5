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
from fieldmouse_lab.catalogue import read_printed

_HOSTS = read_printed("network")["hosts"]
#: Mean round trip of each host from its own partition, and its standard deviation, in milliseconds.
MEANS, SPREADS = (np.array(_HOSTS[column].split(), float) for column in ("means", "spreads"))


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
