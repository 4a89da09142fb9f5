"""The few numbers that go back: how full the buffer is, and how many robots that allows.

URLs go round as values, from stage to stage; only these go the other way. Each has one owner,
who writes it whenever it changes: the buffer its pages, the indexer those it works on, the prober
what the network allows, the agent whether to pause, the fleet its robots. Whoever cares (fleet,
trace, readings) reads them here and need not know the owner.
"""

from __future__ import annotations

import sys
from collections.abc import Callable


class Meter:
    """Plain numbers, for one event loop; whoever decides by them can be told at once."""

    __slots__ = (
        "_followers", "allowed", "behind", "cut_off", "indexing", "level", "load", "most", "out", "paused",
        "waiting",
    )  # fmt: skip

    def __init__(self) -> None:
        self.waiting = 0  # pages in the buffer
        self.indexing = 0  # pages with the indexer, whose answer is not back
        self.level = 0  # both together: the level that robots are governed by
        self.out = 0  # robots on an errand
        self.most = sys.maxsize  # robots that the network and our descriptors have room for
        self.cut_off = False  # our network is gone
        self.paused = False  # whoever takes the pages of the crawl is behind
        self.allowed = 0  # robots that may work, at this level and with this network
        self.load = 0.0  # utilisation of the scarcest resource of this agent, 0 to 1
        self.behind = 0.0  # seconds until the workers take a page that comes now
        self._followers: list[Callable[[], None]] = []

    @property
    def active(self) -> int:
        """Robots at work: as many as allowed, or more while some have yet to come home.

        Fewer may be out when too few hosts are ready; that is then what so many robots can do.
        """
        return max(self.allowed, self.out)

    def note_waiting(self, pages: int) -> None:
        self.waiting = pages
        self._note_level()

    def note_indexing(self, pages: int) -> None:
        self.indexing = pages
        self._note_level()

    def note_out(self, robots: int) -> None:
        self.out = robots

    def note_allowed(self, robots: int) -> None:
        self.allowed = robots

    def note_load(self, load: float, behind: float) -> None:
        self.load, self.behind = load, behind

    def note_most(self, robots: int, *, cut_off: bool = False) -> None:
        self.most, self.cut_off = robots, cut_off
        self._tell()

    def note_paused(self, paused: bool) -> None:
        if paused != self.paused:
            self.paused = paused
            self._tell()

    def follow(self, follower: Callable[[], None]) -> None:
        """Call `follower` now, and whenever a number changes that decides how many robots may work."""
        self._followers.append(follower)
        follower()

    def _note_level(self) -> None:
        level = self.waiting + self.indexing
        if level != self.level:
            self.level = level
            self._tell()

    def _tell(self) -> None:
        for follower in self._followers:
            follower()
