"""Round trips times a price: hosts go where they are near, unless too many do.

The best equal division of visits over agents is a linear programme. Its dual gives each agent a price
for a second of its time, and each host belongs to the agent where its round trip, so priced, is least.
Nobody has to solve it. Agents advertise their backlog from time to time; where it is
above the mean the price rises, slowly. Between two such adverts a host also heeds the backlog itself,
so that a sudden pile is not added to.

The round trip is learned apart from the time in the queue (`kalman`, on round trips alone): their sum
hides where a host is, once queues are long. A draw from the belief keeps looking at agents that are
seldom asked. A host stays where it is after some visits without a thought, and after the others
unless another agent is clearly cheaper: moves cost more than they bring.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log, sqrt

from fieldmouse.policy.balance.kalman import AgentFlags, AgentNumbers


@dataclass(frozen=True, slots=True)
class Pricing:
    """How eagerly prices and agents move."""

    sticky: float = 0.3  # share of visits after which the host stays without a thought
    advert: float = 30.0  # seconds between two adverts of an agent
    step: float = 0.02  # how far a price moves when a backlog is twice the mean
    loyal: float = (
        0.25  # a logarithm: by so much another agent must be cheaper than the one that has the host
    )
    least: float = 0.01  # seconds: no round trip is taken for shorter
    observation: float = 0.25  # variance of one round trip, seconds squared
    transition: float = 1e-4  # variance that a round trip gains from visit to visit
    mean: float = 1.0  # believed of an agent that never visited a host
    variance: float = 1.0


PRICING = Pricing()


def cheapest(
    mean: AgentNumbers, variance: AgentNumbers, backlog: AgentNumbers, speed: AgentNumbers,
    price: AgentNumbers, alive: AgentFlags, normals: AgentNumbers, least: float, here: int, loyal: float,
) -> int:  # fmt: skip
    """The agent where the drawn round trip, its price and the wait before it are least together."""
    best, cheap = -1, inf
    for agent in range(len(mean)):
        if alive[agent]:
            drawn = mean[agent] + sqrt(variance[agent]) * normals[agent]
            trip = max(drawn, least) * speed[agent]
            cost = log(trip) + price[agent] + log(backlog[agent] + trip)
            if agent == here:
                cost -= loyal
            if cost < cheap:
                best, cheap = agent, cost
    return best


def reprice(price: AgentNumbers, backlog: AgentNumbers, alive: AgentFlags, step: float) -> None:
    """New adverts came: prices rise where the backlog is above the mean, in place."""
    total, count = 0.0, 0
    for agent in range(len(price)):
        if alive[agent]:
            total += backlog[agent]
            count += 1
    if count == 0 or total <= 0.0:
        return
    mean, centre = total / count, 0.0
    for agent in range(len(price)):
        if alive[agent]:
            price[agent] += step * min(max(backlog[agent] / mean - 1.0, -1.0), 3.0)
            centre += price[agent] / count
    for agent in range(len(price)):
        price[agent] -= centre
