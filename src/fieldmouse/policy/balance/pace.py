"""What an agent knows of itself: how long its visits take, and whether it is slower than it used to be.

A host that an agent knows well takes as long as expected; if visit after visit takes longer, it is the
agent that has become slow. It tells the others so (`speed`), and hosts leave it before each has found out.
"""

from __future__ import annotations

from math import exp, log

SMOOTH = 0.05
"""The weight of one visit."""


def speed_after(speed: float, took: float, expected: float, least: float) -> float:
    """How many times longer than believed the agent's trips take, after one that `took` so many seconds.

    `expected` is what an agent at its usual speed would have taken, and `least` the shortest trip there is.
    """
    ratio = min(max(took / max(expected * speed, least), 0.1), 10.0)
    return min(max(speed * exp(SMOOTH * log(ratio)), 0.05), 50.0)


def pace_after(pace: float, seconds: float) -> float:
    """The mean time of a visit, after one of so many seconds."""
    return pace + SMOOTH * (seconds - pace)


class AgentPace:
    """The two numbers of one agent, for its adverts."""

    def __init__(self) -> None:
        self.speed = 1.0  # times longer than believed
        self.pace = 1.0  # seconds of a visit

    def took(self, seconds: float) -> None:
        """One more visit."""
        self.pace = pace_after(self.pace, seconds)

    def compare(self, seconds: float, expected: float, least: float) -> None:
        """One more visit of a host that is known well; see `speed_after`."""
        self.speed = speed_after(self.speed, seconds, expected, least)

    def backlog(self, waiting: float, at_once: float = 1.0) -> float:
        """Seconds until a host that comes now would be visited, after `waiting` others, some `at_once`.

        >>> AgentPace().backlog(12, at_once=4)
        3.0
        """
        return waiting * self.pace / at_once
