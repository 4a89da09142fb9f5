"""What an agent knows of itself: how long its visits take, and whether it is slower than it used to be.

A host that an agent knows well takes as long as expected; if visit after visit takes longer, it is the
agent that has become slow. It tells the others so (`speed`), and hosts leave it before each has found out.
"""

from __future__ import annotations

from math import exp, log

SMOOTH = 0.05
"""The weight of one visit."""
RETURN = 0.99
"""Of the logarithm of a speed, what is left of it after a visit that took as long as expected."""
ADVERT = 0.3
"""The weight of the backlog of now in what is advertised."""


def speed_after(speed: float, took: float, expected: float, least: float) -> float:
    """How many times longer than believed the agent's trips take, after one that `took` so many seconds.

    `expected` is what an agent at its usual speed would have taken, and `least` the shortest trip there is.

    Trips are learned divided by the speed, and the speed from trips: nothing but the return to 1 keeps both
    from drifting off together, and being slow for ever is no longer a speed but how far the hosts are.
    """
    ratio = min(max(took / max(expected * speed, least), 0.1), 10.0)
    return min(max(exp(RETURN * (log(speed) + SMOOTH * log(ratio))), 0.05), 50.0)


def pace_after(pace: float, seconds: float) -> float:
    """The mean time of a visit, after one of so many seconds."""
    return pace + SMOOTH * (seconds - pace)


def advert_after(told: float, backlog: float) -> float:
    """The backlog to advertise next, after `told`; both in seconds."""
    return told + ADVERT * (backlog - told)


class AgentPace:
    """The two numbers of one agent, for its adverts."""

    def __init__(self) -> None:
        self.speed = 1.0  # times longer than believed
        self.pace = 1.0  # seconds of a visit
        self.told = 0.0  # seconds of backlog, as advertised last

    def took(self, seconds: float) -> None:
        """One more visit."""
        self.pace = pace_after(self.pace, seconds)

    def compare(self, seconds: float, expected: float, least: float) -> None:
        """One more visit of a host that is known well; see `speed_after`."""
        self.speed = speed_after(self.speed, seconds, expected, least)

    def advertise(self, waiting: float, at_once: float = 1.0, behind: float = 0.0) -> float:
        """The backlog to tell the others: seconds until a host that comes now would be visited, smoothed.

        `waiting` are the hosts that would be visited before it, some `at_once`. If its page would then wait
        longer for the workers, `behind` so many seconds, that counts instead.

        >>> pace = AgentPace()
        >>> [round(pace.advertise(12, at_once=4), 2) for _ in range(3)]
        [0.9, 1.53, 1.97]
        """
        self.told = advert_after(self.told, max(waiting * self.pace / at_once, behind))
        return self.told
