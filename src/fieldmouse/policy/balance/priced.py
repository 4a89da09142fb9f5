"""Priced round trips: hosts go to near agents, unless too many do.

The best equal division of visits over agents is a linear programme. Its dual gives each agent a price for
a second of its time, and each host belongs to the agent with the least priced round trip. No agent solves
it. Agents advertise their backlog from time to time; where it is above the mean the price rises slowly.
Between two adverts the choice also considers the backlog itself, so that a sudden backlog does not grow;
it counts less than the price (`heed`), since a backlog of unvisited hosts shrinks without help. Adverts
are smoothed: if all hosts avoided the last minute's backlog, they would create the next one elsewhere.

The round trip is learned separately from the queue time (`kalman`, on round trips alone): with long
queues their sum hides the distance of a host. Noise is relative to the expected round trip, so that
milliseconds are learned like seconds. A sample from the belief keeps trying agents that are seldom
chosen; agents without a visit are tried if it is worth it (`trip_prior`). A host that its agent knows well
stays after some visits without a comparison, and after the others unless another agent is clearly
cheaper: moves cost more than they gain. Of many agents only a few random ones are compared: the least of
a hundred samples would always belong to another agent.

Where no agent has a backlog, prices do not distribute work. So each agent also has a small bounded share
price, which depends on the number of hosts it holds (`share_price`).

Fair share of hosts. Prices follow backlogs, and an agent with fetchers to spare has none. An
agent that found all hosts would keep them, and machines that join later would stay idle, although they
have memory, disk and CPU. So an agent that holds more hosts than the mean is a little dearer, one that
holds fewer a little cheaper. The difference is bounded (`most`): it outweighs the loyalty to the agent
that has the host, and a trip that is somewhat longer, but not one that is several times as long.

Hosts of a busy agent count several times. A slow machine reaches its limit with fewer hosts than a fast
one, and then looks as full as that one, so that agents share by what they can do.

Small differences count for nothing (`even`), nor does a difference of one host (`few`), so that hosts do
not go to and fro; beyond that the price rises fast (`slope`). Of two agents that are alike, the fuller
one holds half as much again as the other at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, log, sqrt

from fieldmouse.policy.balance.kalman import AliveFlags, FloatPerAgent, IntArrayLike


@dataclass(frozen=True, slots=True)
class PricingParameters:
    """Parameters of the prices and of the moves between agents."""

    sticky: float = 0.3  # share of visits after which the host stays without a comparison
    agent_status: float = 30.0  # seconds between two adverts of an agent
    step: float = 0.01  # price change when a backlog is twice the mean
    loyal: float = 0.35  # logarithm by which another agent must be cheaper than the present one
    heed: float = 0.25  # weight of the present wait compared with the price
    others: int = 3  # agents that are compared with it after a visit
    short: float = 0.2  # seconds added to each trip while no work waits: much shorter trips count as equal
    least: float = 0.05  # lower limit of a sampled trip, relative to the expected trip
    observation: float = 0.1  # variance of one round trip, as a share of the expected one squared
    transition: float = 1e-4  # variance that a round trip gains from visit to visit
    variance: float = 1.0  # initial variance of the log trip of an agent that never visited the host
    more: float = 8.0  # further visits expected for a host, in addition to as many as it had


PRICING = PricingParameters()

#: Shortest round trip in seconds.
MIN_TRIP = 1e-6
#: Largest absolute price (a logarithm).
MAX_PRICE = 20.0
#: Relative to `observation`: an agent with a smaller variance knows the host well enough to judge its speed.
WELL_KNOWN = 0.5
_MEMORY = 20.0


def usual_trip_after(usual: float, visits: int, trip: float) -> float:
    """Usual round trip of a host after visit number `visits`: a geometric mean that favours recent visits.

    Ratios beyond a factor of ten count as ten.

    >>> usual_trip_after(0.0, 1, 0.5), round(usual_trip_after(0.5, 2, 2.0), 3)
    (0.5, 1.0)
    """
    trip = max(trip, MIN_TRIP)
    if visits <= 1:
        return trip
    far = min(max(trip / usual, 0.1), 10.0)
    return usual * exp(log(far) / min(float(visits), _MEMORY))


def cheapest_agent(
    mean: FloatPerAgent,
    variance: FloatPerAgent,
    backlog: FloatPerAgent,
    speed: FloatPerAgent,
    price: FloatPerAgent,
    share: FloatPerAgent,
    alive: AliveFlags,
    places: IntArrayLike,
    many: int,
    normals: FloatPerAgent,
    least: float,
    here: int,
    loyal: float,
    heed: float,
    short: float,
) -> int:
    """Agent with the least sampled trip, price, share price and wait, of the first `many` of `places`.

    An agent that never visited the host has a `mean` below 0 and is skipped; -1 if no agent is left.

    Where no work waits, the difference between two trips much shorter than `short` does not matter:
    agents have time. The more work waits on average, the more such differences count.
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


def update_prices(price: FloatPerAgent, backlog: FloatPerAgent, alive: AliveFlags, step: float) -> None:
    """Raise prices where the backlog is above the mean, lower the others; without backlog they fade."""
    total, count = 0.0, 0
    for agent in range(len(price)):
        if alive[agent]:
            total += backlog[agent]
            count += 1
    mean, centre = total / max(count, 1), 0.0
    if mean <= 0.0:  # also if the smoothed rest of a backlog is too small to divide by
        for agent in range(len(price)):
            price[agent] *= 1.0 - step
        return
    for agent in range(len(price)):
        if alive[agent]:
            price[agent] += step * min(max(backlog[agent] / mean - 1.0, -1.0), 3.0)
            centre += price[agent] / count
    for agent in range(len(price)):
        price[agent] = min(max(price[agent] - centre, -MAX_PRICE), MAX_PRICE)


@dataclass(frozen=True, slots=True)
class SharePriceParameters:
    """Parameters of the share price."""

    most: float = 0.5  # a logarithm: the price of an agent changes by this at most
    even: float = 0.15  # a logarithm: an agent whose fullness is so near to the mean has its share
    slope: float = 4.0  # how fast the price changes with the logarithm of the fullness beyond that
    few: float = 4.0  # hosts that are added to each number, so that small differences count for little
    busy: float = 0.7  # utilisation from which on an agent looks fuller than its number of hosts says
    fuller: float = 3.0  # factor for the hosts of an agent without any capacity left


SHARING = SharePriceParameters()


def apparent_host_count(hosts: float, load: float, few: float, busy: float, fuller: float) -> float:
    """Number of hosts that an agent seems to hold, at a utilisation `load` from 0 to 1.

    >>> apparent_host_count(10, 0.5, 4.0, 0.7, 8.0), apparent_host_count(10, 1.0, 4.0, 0.7, 8.0)
    (14.0, 84.0)
    """
    above = min(max((load - busy) / (1.0 - busy), 0.0), 1.0)
    return few + hosts * (1.0 + (fuller - 1.0) * above)


def share_price(full: float, mean: float, most: float, even: float, slope: float) -> float:
    """Logarithm to add to the price of an agent of that fullness; below 0 if that is less than its share.

    >>> share_price(104.0, 54.0, 0.5, 0.15, 4.0), share_price(4.0, 54.0, 0.5, 0.15, 4.0)
    (0.5, -0.5)
    >>> share_price(60.0, 54.0, 0.5, 0.15, 4.0)
    0.0
    """
    beyond = log(full / mean)
    beyond -= min(max(beyond, -even), even)
    return min(max(slope * beyond, -most), most)
