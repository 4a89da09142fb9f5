"""One moment of all stages, and how it becomes the truth.

Everything that the checkpoint names is synced before the journal holds it. If any of
that fails, nothing may be believed to be durable: the error goes up, and the crawl
ends with the checkpoint before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from fieldmouse.agent.aside import Aside
from fieldmouse.agent.checkpoint import Checkpoint
from fieldmouse.agent.desk import Desk
from fieldmouse.agent.governor import Governor
from fieldmouse.clock import Clock
from fieldmouse.crawldir import CrawlDir, Journal, Log
from fieldmouse.frontier.frontier import Frontier
from fieldmouse.indexer.wire import ShardState


class Seal:
    def __init__(
        self,
        *,
        home: CrawlDir,
        clock: Clock,
        desk: Desk,
        frontier: Frontier,
        outcomes: Log,
        journal: Journal,
    ):
        self._home, self._clock, self._desk, self._frontier = home, clock, desk, frontier
        self._outcomes, self._journal = outcomes, journal

    async def press(
        self,
        shards: Sequence[ShardState],
        *,
        seconds: float,
        clean: bool,
        stopped_by: str,
        governor: Governor | None,
    ) -> None:
        """Make everything known by now durable; `shards` are, as far as they say."""
        # From here to the end of `seal` nothing else runs: this is the moment.
        numbers, rows = self._desk.settle([state.batch for state in shards])
        for row in rows:
            self._outcomes.append(row)
        self._frontier.done(numbers)
        frontier = self._frontier.seal()
        self._desk.tally.seconds = seconds
        checkpoint = Checkpoint(
            self._clock.now(),
            frontier,
            list(shards),
            self._outcomes.flush(),
            self._desk.tally,
            clean,
            stopped_by,
            self._home.identity,
        )
        encoded = msgspec.msgpack.encode(checkpoint)
        # Nobody who has to leave at once waits for such a thread.
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(Aside(), self._make_durable, encoded, governor)

    def _make_durable(self, checkpoint: bytes, governor: Governor | None) -> None:
        self._outcomes.sync()
        self._frontier.sync()
        if governor is not None:
            governor.sync()
        self._journal.commit(checkpoint)
