"""Prior for an agent that never visited a host: expected trip, and the value of a trial visit.

The distance of a host is unknown before the first visit. But an agent that visits hosts known to others
learns how its trips differ from theirs, and whether theirs predict its own. Where servers are slow or fast
for all agents, they do; where only distance counts, a host near to others is rather far from this agent.
So each agent keeps a regression of the logarithms of its first trips on the trips known by
then (`update_prior`), and uses its prediction for unvisited hosts (`expected_trip`).

A disappointing trial costs one long trip; a successful one gains at each later visit. So an unvisited
agent is tried if the expected gain, over as many visits as the host has had and some more, exceeds the
expected loss of the first (`best_unvisited`). The visits are divided among the agents already tried, so that
of a hundred agents not all are tried. A host whose trip is as short as any ever seen stays with its
agent.
"""

from __future__ import annotations

from math import erfc, exp, inf, log, sqrt

from fieldmouse.policy.balance.kalman import AliveFlags, FloatPerAgent, IntArrayLike
from fieldmouse.policy.balance.priced import MIN_TRIP

#: Numbers of the regression: count of first trips, and sums of known, shown, their squares and their product.
PRIOR_SIZE = 6

_MEMORY = 200.0  # first trips
_AS_OTHERS = 4.0  # weight, in first trips, of the assumption that our trips are like theirs


def mean_log_trip(mean: FloatPerAgent) -> tuple[float, int]:
    """Mean log trip over all agents, each counted once, and the number of agents with a trip.

    >>> mean_log_trip([1.0, -1.0, 1.0])
    (0.0, 2)
    """
    total, count = 0.0, 0
    for agent in range(len(mean)):
        if mean[agent] >= 0.0:
            total += log(max(mean[agent], MIN_TRIP))
            count += 1
    return total / max(1, count), count


def update_prior(outlook: FloatPerAgent, known: float, shown: float) -> None:
    """Add a first trip of `shown` to a host whose mean trip was `known`; both are logarithms."""
    for place in range(PRIOR_SIZE):
        outlook[place] *= 1.0 - 1.0 / _MEMORY
    outlook[0] += 1.0
    outlook[1] += known
    outlook[2] += shown
    outlook[3] += known * known
    outlook[4] += known * shown
    outlook[5] += shown * shown


def expected_trip(outlook: FloatPerAgent, known: float, variance: float) -> tuple[float, float]:
    """Mean and standard deviation of the log trip of an agent new to a host with mean log trip `known`.

    Without data the mean is `known`, with the given `variance`. The mean never exceeds both `known` and
    the mean of first trips: first trips to hosts near to others took long, which does not make hosts that
    are far from others even farther.

    >>> outlook = [0.0] * PRIOR_SIZE
    >>> expected_trip(outlook, 2.0, 0.25)
    (2.0, 0.5)
    >>> for _ in range(400):
    ...     update_prior(outlook, 0.0, 3.0); update_prior(outlook, 3.0, 0.0)
    >>> mean, _ = expected_trip(outlook, 0.0, 0.25)
    >>> 1.4 < mean < 1.6  # others' trips say nothing of ours
    True
    """
    many = outlook[0]
    if many <= 0.0:
        return known, sqrt(variance)
    centre, shown = outlook[1] / many, outlook[2] / many
    spread = max(0.0, outlook[3] - many * centre * centre)
    both = outlook[4] - many * centre * shown
    own = max(0.0, outlook[5] - many * shown * shown)
    slope = min(max((_AS_OTHERS + both) / (_AS_OTHERS + spread), 0.0), 1.0)
    shift = (shown - centre) * many / (many + _AS_OTHERS)
    left = max(0.0, own - 2.0 * slope * both + slope * slope * spread)
    return (
        min(centre + shift + slope * (known - centre), max(known, shown)),
        sqrt((_AS_OTHERS * variance + left) / (_AS_OTHERS + many)),
    )


def best_unvisited(
    known: int,
    mean: FloatPerAgent,
    backlog: FloatPerAgent,
    speed: FloatPerAgent,
    price: FloatPerAgent,
    share: FloatPerAgent,
    alive: AliveFlags,
    places: IntArrayLike,
    many: int,
    normals: FloatPerAgent,
    here: int,
    loyal: float,
    heed: float,
    unmet: float,
    spread: float,
    visits: float,
) -> int:
    """Unvisited agent most worth a trial instead of `known`, of the first `many` of `places`; else `known`.

    Unvisited agents have a `mean` below 0. Their log trip is normal with mean `unmet` and deviation
    `spread`. If `known` is -1, one of the unvisited agents is sampled.

    A share price makes an unvisited agent with few hosts cheaper. It does not make one with many hosts
    dearer: a host that is far from its agent must still be tried by an agent that may be near.
    """
    best, most = known, 0.0
    if known < 0:
        cheap = inf
        for turn in range(many):
            agent = places[turn]
            if alive[agent]:
                trip = exp(unmet + spread * normals[turn]) * speed[agent]
                cost = log(trip) + price[agent] + share[agent] + heed * log(backlog[agent] + trip)
                if cost < cheap:
                    best, cheap = agent, cost
        return best
    trip = mean[known] * speed[known]
    paid = price[known] + heed * log(backlog[known] + trip)
    if known == here:
        trip *= exp(-loyal)
    for turn in range(many):
        agent = places[turn]
        if alive[agent] and mean[agent] < 0.0:
            usual = unmet + log(speed[agent])
            usual += (
                price[agent] + min(share[agent] - share[known], 0.0) + heed * log(backlog[agent] + exp(usual)) - paid
            )  # adds the price difference to `known`
            above = (log(trip) - usual) / spread
            whole = exp(usual + 0.5 * spread * spread)
            # Expected gain and loss: the means of (trip - x)+ and (x - trip)+, x log-normal.
            nearer = 0.5 * whole * erfc((spread - above) / sqrt(2.0))
            hoped = 0.5 * trip * erfc(-above / sqrt(2.0)) - nearer
            feared = whole - trip + hoped
            worth = visits * hoped - feared
            if worth > most:
                best, most = agent, worth
    return best
