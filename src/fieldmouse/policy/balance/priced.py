"""Round trips times a price: hosts go where they are near, unless too many do.

The best equal division of visits over agents is a linear programme. Its dual gives each agent a price
for a second of its time, and each host belongs to the agent where its round trip, so priced, is least.
Nobody has to solve it. Agents advertise their backlog from time to time; where it is
above the mean the price rises, slowly. Between two such adverts a host also heeds the backlog itself,
so that a sudden pile is not added to; that counts for less than the price (`heed`), since a pile of hosts
that nobody has visited yet goes away by itself. What is advertised is smoothed: if all heeded the last
minute's pile, all would go elsewhere at once, and make the next one.

The round trip is learned apart from the time in the queue (`kalman`, on round trips alone): their sum
hides where a host is, once queues are long. All noises are shares of the expected round trip,
so that milliseconds are learned as seconds are. A draw from the belief keeps looking at agents that
are seldom asked; those that never were are tried if it is worth it (`outlook`). A host that its agent
knows well stays where it is after some visits without a thought, and after the others
unless another agent is clearly cheaper: moves cost more than they bring. Of many agents a few are looked at,
by lot: the luckiest of a hundred draws would always be somebody else's.

Where no agent has a backlog, prices say nothing of who does the work. So each agent has a small bounded share
price besides, which depends on how many hosts it holds (`sharing`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, log, sqrt

from fieldmouse.policy.balance.kalman import AgentFlags, AgentNumbers, AgentPlaces


@dataclass(frozen=True, slots=True)
class Pricing:
    """How eagerly prices and agents move."""

    sticky: float = 0.3  # share of visits after which the host stays without a thought
    advert: float = 30.0  # seconds between two adverts of an agent
    step: float = 0.01  # how far a price moves when a backlog is twice the mean
    loyal: float = 0.35  # a logarithm: by so much another must be cheaper than the agent that has the host
    heed: float = 0.25  # how much the wait of the moment counts beside the price
    others: int = 3  # agents that are compared with it after a visit
    short: float = 0.2  # seconds added to each trip while nobody waits: much shorter ones are all alike
    least: float = 0.05  # share of the expected trip: none is drawn shorter
    observation: float = 0.1  # variance of one round trip, as a share of the expected one squared
    transition: float = 1e-4  # variance that a round trip gains from visit to visit
    variance: float = 1.0  # of the logarithm of the trip of an agent that never visited the host, at first
    more: float = 8.0  # visits that a host is expected to get, besides as many as it had


PRICING = Pricing()

NOTHING = 1e-6
"""Seconds: no round trip is shorter."""
MOST = 20.0
"""A price, which is a logarithm: none is further from 0."""
WELL_KNOWN = 0.5
"""Of `observation`: an agent whose variance is less knows the host well enough to judge itself by it."""
_MEMORY = 20.0


def usual_after(usual: float, visits: int, trip: float) -> float:
    """The usual round trip of a host after its visit number `visits`: a geometric mean, of late.

    One that took ten times longer or more tells no more than one that took ten times.

    >>> usual_after(0.0, 1, 0.5), round(usual_after(0.5, 2, 2.0), 3)
    (0.5, 1.0)
    """
    trip = max(trip, NOTHING)
    if visits <= 1:
        return trip
    far = min(max(trip / usual, 0.1), 10.0)
    return usual * exp(log(far) / min(float(visits), _MEMORY))


def cheapest(
    mean: AgentNumbers, variance: AgentNumbers, backlog: AgentNumbers, speed: AgentNumbers,
    price: AgentNumbers, share: AgentNumbers, alive: AgentFlags, places: AgentPlaces, many: int,
    normals: AgentNumbers, least: float, here: int, loyal: float, heed: float, short: float,
) -> int:  # fmt: skip
    """Where drawn trip, price, share price and wait are least together, of the first `many` of `places`.

    An agent that never visited the host has a `mean` below 0 and is left out; -1 if that leaves nobody.

    Where no work waits it does not matter which of two trips is the shorter one, if both are much shorter
    than `short`: agents have time. The more work waits on average, the more such differences count.
    """
    best, cheap = -1, inf
    total, count = 0.0, 0
    for agent in range(len(price)):
        if alive[agent]:
            total += backlog[agent]
            count += 1
    alike = max(0.0, short - total / max(1, count))
    for turn in range(many):
        agent = places[turn]
        if alive[agent] and mean[agent] >= 0.0:
            trip = mean[agent] * max(1.0 + sqrt(variance[agent]) * normals[turn], least) * speed[agent]
            cost = log(trip + alike) + price[agent] + share[agent] + heed * log(backlog[agent] + trip)
            if agent == here:
                cost -= loyal
            if cost < cheap:
                best, cheap = agent, cost
    return best


def reprice(price: AgentNumbers, backlog: AgentNumbers, alive: AgentFlags, step: float) -> None:
    """New adverts came: prices rise where the backlog is above the mean; if nobody waits they fade."""
    total, count = 0.0, 0
    for agent in range(len(price)):
        if alive[agent]:
            total += backlog[agent]
            count += 1
    mean, centre = total / max(count, 1), 0.0
    if mean <= 0.0:  # also where the last trace of a backlog, smoothed for long, is too small to be divided
        for agent in range(len(price)):
            price[agent] *= 1.0 - step
        return
    for agent in range(len(price)):
        if alive[agent]:
            price[agent] += step * min(max(backlog[agent] / mean - 1.0, -1.0), 3.0)
            centre += price[agent] / count
    for agent in range(len(price)):
        price[agent] = min(max(price[agent] - centre, -MOST), MOST)
