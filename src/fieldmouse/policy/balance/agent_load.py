"""Speed and backlog that an agent advertises about itself.

Visits to a well-known host take as long as expected; if visit after visit takes longer, the agent has
become slow. It advertises this (`speed`), and hosts leave before each of them has measured it.
"""

from __future__ import annotations

from math import exp, log

SMOOTH = 0.05
"""Weight of one visit."""
RETURN = 0.99
"""Factor of the log speed after a visit that took as long as expected."""
ADVERT = 0.3
"""Weight of the present backlog in the advert."""


def speed_after(speed: float, took: float, expected: float, least: float) -> float:
    """Factor by which the agent's trips take longer than expected, after a trip of `took` seconds.

    `expected` is the time at normal speed, and `least` the shortest possible trip.

    Trips are learned divided by the speed, and the speed from trips: only the return to 1 keeps both from
    drifting together. A permanent slowness becomes part of the distance of the hosts.
    """
    ratio = min(max(took / max(expected * speed, least), 0.1), 10.0)
    return min(max(exp(RETURN * (log(speed) + SMOOTH * log(ratio))), 0.05), 50.0)


def visit_time_after(pace: float, seconds: float) -> float:
    """Mean time of a visit, after one of `seconds`."""
    return pace + SMOOTH * (seconds - pace)


def advert_after(told: float, backlog: float) -> float:
    """Backlog to advertise next, after `told`; both in seconds."""
    return told + ADVERT * (backlog - told)


class AgentLoadEstimate:
    """Speed, visit time and backlog of one agent, for its adverts."""

    def __init__(self) -> None:
        self.speed = 1.0  # factor by which trips take longer than expected
        self.visit_time = 1.0  # seconds of a visit
        self.advertised = 0.0  # seconds of backlog in the last advert

    def record_visit(self, seconds: float) -> None:
        """Record a visit."""
        self.visit_time = visit_time_after(self.visit_time, seconds)

    def record_known_visit(self, seconds: float, expected: float, least: float) -> None:
        """Record a visit to a well-known host; see `speed_after`."""
        self.speed = speed_after(self.speed, seconds, expected, least)

    def next_advert(self, waiting: float, at_once: float = 1.0, behind: float = 0.0) -> float:
        """Backlog to advertise: smoothed seconds until a host that arrives now would be visited.

        `waiting` hosts would be visited before it, `at_once` in parallel. If its page would wait longer
        for the workers, `behind` seconds, that counts instead.

        >>> pace = AgentLoadEstimate()
        >>> [round(pace.next_advert(12, at_once=4), 2) for _ in range(3)]
        [0.9, 1.53, 1.97]
        """
        self.advertised = advert_after(self.advertised, max(waiting * self.visit_time / at_once, behind))
        return self.advertised
