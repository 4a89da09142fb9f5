"""Page quota of an agent under a limit of the whole crawl: the pages that the coordinator reserved for it.

The quota covers pages in flight, pages that are known and not settled, and settled pages not yet sent to
the coordinator. Some more are kept to spare so that fetch workers need not wait. Part of the spare is
given up when the coordinator has too few, and all of it when there is no host to fetch from.

Invariant: the usable quota never exceeds the coordinator's reservation. So it is reduced before the
coordinator is asked and raised only by its answer, and outcomes are sent in the same turn in which pages
are asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from fieldmouse.clock import Clock
from fieldmouse.cluster.client.outbox import Outbox
from fieldmouse.cluster.coordinator import AgentId, Coordinator, PageReservation

#: Most pages to spare: more than are fetched while the coordinator is asked.
MOST_SPARE_PAGES = 32
#: Pages to spare for each host that we hold.
SPARE_PAGES_PER_HOST = 8
_FIRST_PAUSE = 0.05  # seconds until the coordinator is asked again after it had too few, at first
_LONGEST_PAUSE = 1.0  # ... and at most


class ClusterPageQuota:
    """Quota of one agent; no limit if `limit` is 0."""

    def __init__(
        self,
        limit: int,
        *,
        tellings: Outbox,
        clock: Clock,
        hosts: Callable[[], int],
        on_hunger: Callable[[], None],
        every: float,
    ):
        """`hosts` counts the hosts we may fetch from. The coordinator is asked at least every `every`
        seconds."""
        self._limit, self._tellings, self._clock, self._hosts = limit, tellings, clock, hosts
        self._on_hunger, self._every = on_hunger, every
        self._in_flight: Callable[[], int] = lambda: 0
        self._granted = 0
        self._lapses = 0
        self._asked_at, self._pause = -math.inf, 0.0
        self._scarce = False  # we got less than we wanted
        self._extra = 0  # pages that we have and could not acknowledge

    # -- the dispatcher's side

    def set_in_flight_counter(self, in_air: Callable[[], int]) -> None:
        """Set the function that counts pages in flight, or known and not settled."""
        self._in_flight = in_air

    def has_room(self) -> bool:
        """Whether one more page may be requested."""
        if not self._limit:
            return True
        left = self._granted - self._used
        if left <= self._spare // 2 and not self.seconds_until_due():
            self._on_hunger()
        return left > 0

    # -- the session's side

    @property
    def _used(self) -> int:
        return self._in_flight() + self._tellings.unsent_pages

    @property
    def _spare(self) -> int:
        return min(MOST_SPARE_PAGES, SPARE_PAGES_PER_HOST * self._hosts() + self._extra)

    @property
    def remaining(self) -> float:
        """Pages that may still be requested or acknowledged; inf without a limit."""
        return max(0, self._granted - self._used) if self._limit else math.inf

    def request_extra(self, pages: int) -> None:
        """Ask for more: these pages could be acknowledged at once, but exceed the quota and wait again."""
        self._extra += pages

    def subtract_acked(self, pages: int) -> None:
        """Take acknowledged pages off the quota."""
        self._granted = max(0, self._granted - pages)

    def reset(self) -> None:
        """Drop the quota: the agent was fenced."""
        self._granted, self._lapses = 0, self._lapses + 1
        self.renew_now()

    def renew_now(self, pages: int = 0) -> None:
        """Ask a restarted server at once; `pages` that were sent before are sent, and taken off, again."""
        self._granted += pages
        self._asked_at, self._pause = -math.inf, 0.0

    def seconds_until_due(self) -> float:
        """Seconds until the coordinator should be asked; inf if never."""
        if not self._limit:
            return math.inf
        left, spare = self._granted - self._used, self._spare
        hungry = left <= spare // 2 and spare > 0
        wait = self._pause if hungry else _LONGEST_PAUSE if left > spare else self._every
        return max(0.0, self._asked_at + wait - self._clock.now())

    async def renew(self, board: Coordinator, name: AgentId) -> bool:
        """Ask the coordinator if that is due; returns whether we may fetch more than before."""
        if self.seconds_until_due():
            return False
        used, spare, lapses = self._used, self._spare, self._lapses
        before = max(0, self._granted - used)
        left = min(before, spare)
        kept = math.ceil(left / 2) if self._scarce else left
        self._granted = min(self._granted, used + kept)
        want = used + spare
        granted = await board.reserve_pages(name, PageReservation(self._limit, keep=self._granted, want=want))
        if lapses != self._lapses:
            return False  # it was reserved for our last start
        self._scarce = granted < want
        self._pause = min(_LONGEST_PAUSE, max(_FIRST_PAUSE, 2 * self._pause)) if self._scarce else 0.0
        self._granted, self._asked_at, self._extra = granted, self._clock.now(), 0
        return granted - used > before
