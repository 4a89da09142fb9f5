"""Back-pressure state: fill of the buffer and the concurrency it allows.

URLs flow forward through the stages as values; only these numbers flow back. Each has one owner, which
writes it whenever it changes: the buffer its pages, the indexer the pages in work, the outage detector the
room of the network, the crawler the pause, the fetch pool its workers. Readers (fetch pool, trace,
readings) need not know the owner.
"""

from __future__ import annotations

import sys
from collections.abc import Callable


class BackpressureState:
    """Numbers of one event loop, with callbacks for changes that affect concurrency."""

    def __init__(self) -> None:
        self.buffered = 0  # pages in the buffer
        self.indexing = 0  # pages with the indexer, not yet answered
        self.level = 0  # `buffered` plus `indexing`: the level that decides the concurrency
        self.active_visits = 0  # fetch workers on a host visit
        self.max_by_network = sys.maxsize  # fetch workers that the network and our file descriptors have room for
        self.network_down = False  # our network is down
        self.paused = False  # the consumer of the crawl's pages is behind
        self.concurrency = 0  # fetch workers allowed at this level and with this network
        self.load = 0.0  # utilisation of the scarcest resource of this agent, 0 to 1
        self.backlog_seconds = 0.0  # seconds until the workers take a page that arrives now
        self._followers: list[Callable[[], None]] = []

    @property
    def max_of_allowed_and_active(self) -> int:
        """Active fetch workers: as many as allowed, or more until the surplus has returned.

        Fewer may be on a visit when too few hosts are ready; the allowed number still counts as the
        concurrency.
        """
        return max(self.concurrency, self.active_visits)

    def set_buffered(self, pages: int) -> None:
        self.buffered = pages
        self._update_level()

    def set_indexing(self, pages: int) -> None:
        self.indexing = pages
        self._update_level()

    def set_active_visits(self, robots: int) -> None:
        self.active_visits = robots

    def set_concurrency(self, robots: int) -> None:
        self.concurrency = robots

    def set_agent_load(self, load: float, behind: float) -> None:
        self.load, self.backlog_seconds = load, behind

    def set_max_by_network(self, robots: int, *, cut_off: bool = False) -> None:
        self.max_by_network, self.network_down = robots, cut_off
        self._notify()

    def set_paused(self, paused: bool) -> None:
        if paused != self.paused:
            self.paused = paused
            self._notify()

    def on_change(self, follower: Callable[[], None]) -> None:
        """Call `follower` now, and whenever a number changes that decides how many fetch workers may run."""
        self._followers.append(follower)
        follower()

    def _update_level(self) -> None:
        level = self.buffered + self.indexing
        if level != self.level:
            self.level = level
            self._notify()

    def _notify(self) -> None:
        for follower in self._followers:
            follower()
