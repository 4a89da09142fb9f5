"""Arrays of a simulated network, on which the kernel works, and the meaning of their entries."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fieldmouse.policy.balance.kalman import Flags, Reals

Ints = npt.NDArray[np.int64]


class BalanceRule(IntEnum):
    """Balancing rule, as a number for the kernel."""

    KALMAN = 0
    RING = 1
    NEARNESS = 2
    SHORTEST = 3
    TWO = 4
    PRICED = 5


class Knobs(NamedTuple):
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
    heed: float
    others: int
    unmet: float  # initial variance of the logarithm of an unknown host's trip
    more: float  # visits a host is expected to get in addition to its past number of visits
    share_most: float  # see `policy.balance.sharing.Sharing`
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
