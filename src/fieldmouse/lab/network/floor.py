"""The arrays of a simulated network, and what its numbers mean: what the kernel works on."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fieldmouse.policy.balance.kalman import Flags, Reals

Ints = npt.NDArray[np.int64]


class BalanceRule(IntEnum):
    """Who decides, as the kernel knows it."""

    KALMAN = 0
    RING = 1
    NEARNESS = 2
    SHORTEST = 3
    TWO = 4
    PRICED = 5


class Knobs(NamedTuple):
    """What does not change while the simulation runs."""

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
    unmet: float  # variance of the logarithm of a stranger's trip, at first
    more: float  # visits that a host is expected to get, besides as many as it had
    share_most: float  # see `policy.balance.sharing.Sharing`
    share_even: float
    share_slope: float
    share_few: float
    share_busy: float
    share_fuller: float
    threshold: float  # nearness: a visit that takes longer speaks against the agent
    patience: int  # nearness: after so many of them the subnet is given away
    lease: float  # seconds until the hosts of an agent that died are taken over
    transfer: float  # seconds that a host is on its way from one agent to another
    delay: float  # seconds between two visits of a host
    drift: float  # standard deviation of the logarithm of a round trip that wanders; 0: none wanders
    memory: float  # seconds in which it wanders


class NetworkTables(NamedTuple):
    """One row a host or an agent; the kernel changes all but the first three."""

    trip: Reals  # host, agent: mean seconds
    spread: Reals  # host
    subnet: Ints  # host
    owner: Ints  # ring: the host's agent now
    region: Ints  # nearness: the region of each subnet
    keeper: Ints  # nearness: the agent of each subnet, -1 if nobody yet
    complaints: Ints  # nearness: of each subnet
    wander: Reals  # host, agent: the logarithm by which trips differ now
    learned: Ints  # host: visits that were learned from
    usual: Reals  # host: its usual round trip
    mean: Reals  # host, agent: what is believed; below 0 if nobody knows
    variance: Reals
    stamp: Reals  # host: when it was put into the queue it is in
    at: Ints  # host: whose queue
    visits: Ints  # host: in the span that is measured
    ready: Reals  # heap of hosts on their way: when they arrive
    waiting: Ints  # ... and which
    queue: Ints  # agent, place
    head: Ints  # agent
    length: Ints  # agent
    serving: Ints  # agent: the host it visits, -1 for none
    until: Reals  # agent: when that ends
    took: Reals  # agent: the round trip of that visit
    process: Reals  # agent: queue time and round trip of that visit
    slow: Reals  # agent: how many times longer its trips take
    alive: Flags  # agent
    told: Reals  # agent: its backlog as advertised last
    backlog: Reals  # ... and with what came since, as others know it
    price: Reals  # agent
    speed: Reals  # agent: as it advertises it
    hosts: Reals  # agent: hosts in its queue, with it, or on their way to it
    load: Reals  # agent: its utilisation, as it advertises it
    outlook: Reals  # agent, and nobody: what first visits taught
    pace: Reals  # agent: mean seconds of its visits
    measured: Reals  # see `Measured`
    worked: Reals  # agent: process times of its visits in the span, added up
    served: Ints  # agent: visits in the span
    expected: Reals  # agent: room for beliefs
    drawn: Reals  # ... for numbers drawn
    share: Reals  # ... for share prices
    places: Ints  # ... and for places of agents that are compared


class Measured(IntEnum):
    """Places in `NetworkTables.measured`."""

    NOW = 0
    HEAP = 1
    VISITS = 2
    EXCHANGES = 3
    UNFAIR = 4  # standard deviation of process times, times seconds
    SPAN = 5
    ADVERT_AT = 6
    DRIFT_AT = 7
