"""What an agent that never visited a host is likely to find there: the price of a try, and its worth.

Whether a host is far from an agent is not known before it went there. But whoever goes where others have
been learns two things in time: how far its own trips differ from those of others to the same host, and
whether theirs say anything of its own. Where servers are slow or fast for everybody they do; where all that
counts is who is near, a host that is near to others is rather far from us. So each agent keeps a regression
of the logarithms of its first trips on those that were known by then (`surprised`), and believes of a
stranger what that says (`expected_trip`).

A try that disappoints costs one long trip; one that does not is worth as much at each visit from then on.
So somebody new is tried if what is hoped for, over as many visits as the host has had so far and some more,
outweighs what is feared of the first (`worthiest`); each agent that was tried has its share of those visits,
so that of a hundred agents not all are tried. A host that is as near to its agent as any ever was stays
there, however little is known of the others.
"""

from __future__ import annotations

from math import erfc, exp, inf, log, sqrt

from fieldmouse.policy.balance.kalman import AgentFlags, AgentNumbers, AgentPlaces
from fieldmouse.policy.balance.priced import NOTHING

SURPRISES = 6
"""Numbers of an outlook: how many first trips, and sums of known, shown, their squares and their product."""

_MEMORY = 200.0  # first trips
_AS_OTHERS = 4.0  # first trips' worth of belief that ours will be like theirs


def usual_of_all(mean: AgentNumbers) -> tuple[float, int]:
    """The mean of the logarithms of all agents' trips, each counted once, and how many know one.

    >>> usual_of_all([1.0, -1.0, 1.0])
    (0.0, 2)
    """
    total, count = 0.0, 0
    for agent in range(len(mean)):
        if mean[agent] >= 0.0:
            total += log(max(mean[agent], NOTHING))
            count += 1
    return total / max(1, count), count


def surprised(outlook: AgentNumbers, known: float, shown: float) -> None:
    """A first trip took `shown`, where `known` was the mean of others' trips; both are logarithms."""
    for place in range(SURPRISES):
        outlook[place] *= 1.0 - 1.0 / _MEMORY
    outlook[0] += 1.0
    outlook[1] += known
    outlook[2] += shown
    outlook[3] += known * known
    outlook[4] += known * shown
    outlook[5] += shown * shown


def expected_trip(outlook: AgentNumbers, known: float, variance: float) -> tuple[float, float]:
    """Mean and standard deviation of the logarithm of a stranger's trip to a host of which `known` is known.

    Who was never surprised believes `known` itself, with that `variance`. Nothing is expected to take longer
    than both `known` and the mean of what was shown: first trips to hosts that were near to others took long,
    which does not make those that are far from others farther still.

    >>> outlook = [0.0] * SURPRISES
    >>> expected_trip(outlook, 2.0, 0.25)
    (2.0, 0.5)
    >>> for _ in range(400):
    ...     surprised(outlook, 0.0, 3.0); surprised(outlook, 3.0, 0.0)
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


def worthiest(
    known: int, mean: AgentNumbers, backlog: AgentNumbers, speed: AgentNumbers, price: AgentNumbers,
    share: AgentNumbers, alive: AgentFlags, places: AgentPlaces, many: int, normals: AgentNumbers, here: int,
    loyal: float, heed: float, unmet: float, spread: float, visits: float,
) -> int:  # fmt: skip
    """The stranger most worth a try instead of `known`, of the first `many` of `places`; else `known`.

    Strangers have a `mean` below 0. The logarithm of their trips is believed to be normal, `unmet` its mean
    and `spread` its deviation. If `known` is nobody (-1), one of the strangers is drawn.

    A share price makes a stranger that holds few hosts cheaper. It does not make one that holds many dearer:
    a host that is far from its agent must still be tried by an agent that may be near.
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
                price[agent]
                + min(share[agent] - share[known], 0.0)
                + heed * log(backlog[agent] + exp(usual))
                - paid
            )  # as dear as those of `known`
            above = (log(trip) - usual) / spread
            whole = exp(usual + 0.5 * spread * spread)
            # What is hoped for and what is feared: the means of (trip - x)+ and (x - trip)+, x log-normal.
            nearer = 0.5 * whole * erfc((spread - above) / sqrt(2.0))
            hoped = 0.5 * trip * erfc(-above / sqrt(2.0)) - nearer
            feared = whole - trip + hoped
            worth = visits * hoped - feared
            if worth > most:
                best, most = agent, worth
    return best
