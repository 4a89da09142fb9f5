"""Path of a response from the fetch workers through the buffer to the indexer shards.

Every change of the buffer level passes here, so that the trace records it and the concurrency rule sees
the same number as the model: pages in the buffer plus pages in service (`meter.level`).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from typing import Protocol

from fieldmouse.agent.booking import Booking
from fieldmouse.buffer import Buffer
from fieldmouse.control.pagetrace import PageTrace
from fieldmouse.indexer.indexer import Indexer
from fieldmouse.policy.obsolescence import Obsolescence
from fieldmouse.records import Link, Outcome, Parsed, Refused
from fieldmouse.robots.bell import Bell
from fieldmouse.url import host_of

log = logging.getLogger(__name__)

DROPS = 16
"""Number of drops after which a page has cost its server enough: then it waits for room and never expires."""


class OpenIndexer(Protocol):
    """Constructor of an `Indexer` that lacks only its callbacks."""

    def __call__(
        self, *, on_parsed: Callable[[Sequence[Parsed]], None], on_undone: Callable[[Sequence[int]], None]
    ) -> Indexer: ...


class Intake:
    """The buffer and the indexer behind it. Records the indexer's results and wakes the fetch pool."""

    def __init__(
        self,
        *,
        buffer: Buffer[tuple[int, Outcome]],
        open_indexer: OpenIndexer,
        trace: PageTrace,
        obsolescence: Obsolescence,
        booking: Booking,
        bell: Bell,
    ):
        self._buffer, self._trace, self._obsolescence, self._booking = buffer, trace, obsolescence, booking
        self._clock, self._scope, self._fuse, self._bell = booking.clock, booking.scope, booking.fuse, bell
        self.indexer = open_indexer(on_parsed=self._answered, on_undone=self._undone)
        self._warned = False

    async def put(self, number: int, outcome: Outcome) -> bool:
        """Put a response into the buffer; False if there was no room.

        Responses without a ticket cannot be fetched again, and those dropped often enough should not be:
        they wait for room and do not expire.
        """
        assert not isinstance(outcome, Refused)
        self.expire()
        lane = self.indexer.shard_of(host_of(outcome.link.url))
        patient = not number or self._is_dropped_often(outcome.link)
        stored = await self._buffer.put(
            lane,
            (number, outcome),
            (len(outcome.response.body) if outcome.response is not None else 0) + 1024,
            expires_at=math.inf if patient else self._obsolescence.expires_at(self._clock.now()),
            patient=patient,
        )
        self._trace.came(number, self._clock.now(), dropped=not stored)
        # No page expires before this: a page that finds its shard idle is served, however short its lifetime.
        self._send_to_shards()
        return stored

    def _is_dropped_often(self, link: Link) -> bool:
        if link.drops < DROPS:
            return False
        if not self._warned:
            self._warned = True
            log.warning(
                "%s was fetched and dropped %d times; such pages now wait for the indexer"
                " (`buffer.pages`, `buffer.obsolete_after` or the rule leave too little room)",
                link.url,
                link.drops,
            )
        return True

    def pump(self) -> None:
        """Drop pages that waited too long, and send others to the shards with room."""
        self.indexer.recount()
        if (news := self._scope.news()) is not None:
            self.indexer.widen(news.joined, news.is_open)
        if self._buffer.waiting:
            self.expire()
        self._send_to_shards()

    def _send_to_shards(self) -> None:
        indexer, buffer = self.indexer, self._buffer
        if not buffer.waiting:
            buffer.ease()
            return
        now = self._clock.now()
        for shard in range(indexer.shards):
            while indexer.room(shard):
                waiting = buffer.take(shard)
                if waiting is None:
                    break
                self._trace.taken(waiting[0], now)
                indexer.send(*waiting)

    def expire(self) -> None:
        """Drop pages that waited too long."""
        now = self._clock.now()
        for number, _ in self._buffer.expire(now):
            self._trace.expired(number, now)
            self._booking.fetch_again(number)

    def _answered(self, parsed: Sequence[Parsed]) -> None:
        with self._fuse:
            self._trace.answered([page.number for page in parsed])
            self._booking.parsed(parsed)
            self.pump()
        self._bell.ring()

    def _undone(self, numbers: Sequence[int]) -> None:
        with self._fuse:
            self._trace.undone(numbers)
            again = self._booking.undone(numbers)
            if again and self.indexer.trouble is None:
                log.warning("an indexer worker died; %d pages are fetched again", again)
            self.pump()
        self._bell.ring()
