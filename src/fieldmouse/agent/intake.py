"""From the robots' hands to the shards: the buffer, watched.

Everything that changes the level goes through here, so that the trace sees it and
the fleet's rule looks at the same number as the model does: pages in the buffer and
pages in service together.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence

from fieldmouse.agent.pagetrace import PageTrace
from fieldmouse.buffer import Buffer
from fieldmouse.clock import Clock
from fieldmouse.indexer.indexer import Indexer
from fieldmouse.policy.obsolescence import Obsolescence
from fieldmouse.records import Link, Outcome, Parsed, Refused
from fieldmouse.url import host_of

log = logging.getLogger(__name__)

DROPS = 16
"""So often a page is dropped; then it has cost its server enough, and waits for room and for its turn."""


class Intake:
    """`on_obsolete` gets the tickets of pages that waited too long: they are to be fetched again."""

    def __init__(
        self, *, buffer: Buffer[tuple[int, Outcome]], indexer: Indexer, clock: Clock,
        obsolescence: Obsolescence, on_obsolete: Callable[[int], None],
    ):  # fmt: skip
        self._buffer, self._clock, self.indexer = buffer, clock, indexer
        self._obsolescence, self._on_obsolete = obsolescence, on_obsolete
        self.trace: PageTrace
        self._warned = False

    @property
    def waiting(self) -> int:
        """Pages in the buffer."""
        return self._buffer.level

    @property
    def level(self) -> int:
        """Pages in the buffer and with the indexer."""
        return self._buffer.level + self.indexer.outstanding

    @property
    def empty(self) -> bool:
        return not self._buffer.level and not self.indexer.outstanding

    async def put(self, number: int, outcome: Outcome) -> bool:
        """Let an answer in; False if there was no room for it.

        What has no ticket cannot be fetched again, and what was fetched often enough should
        not be: it waits for room and does not grow old.
        """
        assert not isinstance(outcome, Refused)
        assert outcome.response is not None
        self.expire()
        lane = self.indexer.shard_of(host_of(outcome.link.url))
        patient = not number or self._dropped_enough(outcome.link)
        stored = await self._buffer.put(
            lane,
            (number, outcome),
            len(outcome.response.body) + 1024,
            expires_at=math.inf if patient else self._obsolescence.expires_at(self._clock.now()),
            patient=patient,
        )
        self.trace.came(number, self._clock.now(), lost=not stored)
        # Nobody expires before this: a page that finds a shard idle is served, however short its life.
        self._hand_on()
        return stored

    def _dropped_enough(self, link: Link) -> bool:
        if link.drops < DROPS:
            return False
        if not self._warned:
            self._warned = True
            log.warning(
                "%s was fetched %d times in vain; from now on such pages wait for the indexer"
                " (`buffer.pages`, `buffer.obsolete_after` or the rule leave too little room)",
                link.url,
                link.drops,
            )
        return True

    def pump(self) -> None:
        """Send off the pages that waited too long, and move others to the shards that have room."""
        if self._buffer.level:
            self.expire()
        self._hand_on()

    def _hand_on(self) -> None:
        indexer, buffer = self.indexer, self._buffer
        if not buffer.level:
            buffer.ease()
            return
        now = self._clock.now()
        for shard in range(indexer.shards):
            while indexer.room(shard):
                waiting = buffer.take(shard)
                if waiting is None:
                    break
                self.trace.taken(waiting[0], now)
                indexer.send(*waiting)

    def expire(self) -> None:
        """Send off the pages that waited too long."""
        now = self._clock.now()
        for number, _ in self._buffer.expire(now):
            self.trace.expired(number, now)
            self._on_obsolete(number)

    def answered(self, parsed: Sequence[Parsed]) -> None:
        self.trace.answered([one.number for one in parsed])

    def vanished(self, numbers: Sequence[int]) -> None:
        self.trace.vanished(numbers)
