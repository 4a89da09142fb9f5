"""The agent's door to the worker processes: pages in, what they told out.

Each shard's pages go through its own lane (`lane.py`). A host has a shard of its
own, so that a worker knows its menus by heart; but a page whose worker is busy
goes to an idle one, since one large host must not make the others wait. Where a
page went matters to nobody: every shard's files stand for themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import xxhash

from fieldmouse.errors import FieldmouseError
from fieldmouse.indexer import cdxj
from fieldmouse.indexer.archive import log_path
from fieldmouse.indexer.copies import Copies
from fieldmouse.indexer.digest import Doubles
from fieldmouse.indexer.lane import Lane
from fieldmouse.indexer.wire import IndexerConfig, ShardState
from fieldmouse.meter import Meter
from fieldmouse.records import Outcome, Parsed, Refused
from fieldmouse.url import Host, Url, host_of

if TYPE_CHECKING:
    from fieldmouse.indexer.inline import InlineLane  # all of the workers' modules, which we do not need

__all__ = ["Indexer", "IndexerConfig", "ShardState"]

T = TypeVar("T")


class Indexer:
    """Parsing, archiving and indexing of a whole crawl.

    `on_parsed` and `on_undone` are called in the event loop; `on_undone` names the
    tickets that a dead worker held or had answered without a checkpoint: forget
    what was said of them, and fetch them again.
    """

    def __init__(
        self,
        directory: Path,
        *,
        shards: int,
        states: Sequence[ShardState] | None = None,
        config: IndexerConfig,
        on_parsed: Callable[[Sequence[Parsed]], None],
        on_undone: Callable[[Sequence[int]], None],
        lane: type[Lane] | type[InlineLane] = Lane,
        meter: Meter | None = None,
    ):
        """`states` are those of the last checkpoint; None begins a new crawl.

        A `lane` is where a shard lives: in a worker process, or in ours (`InlineLane`). How many pages
        are `outstanding` stands on the `meter`.
        """
        assert states is None or len(states) == shards, "the number of shards is fixed when a crawl is made"
        self._directory = directory
        self.shards = shards
        self._new = states is None
        states = list(states or [ShardState()] * shards)
        self.prepared = states  # what `prepare` said last
        batch = max(state.batch for state in states) + 1
        self._lanes: list[Lane | InlineLane] = [
            lane(directory, shard, config, state, self._answered, self._vanished, batch)
            for shard, state in enumerate(states)
        ]
        self._meter, self._on_parsed, self._on_undone = meter or Meter(), on_parsed, on_undone

    async def start(self) -> None:
        """Start all workers; each sees whether its shard can be brought to its state, and changes nothing."""
        await _all([lane.start() for lane in self._lanes])

    async def begin(self) -> None:
        """Have each worker roll its files back to its state; then there is room for pages."""
        archive = self._directory / "archive"
        cdxj.remove_leftovers(archive / "index.cdxj")
        if self._new:
            Doubles.forget_all(archive)
        Doubles.forget_outdated(archive)
        Copies.forget_unfit(self._directory / "index", [state.copies for state in self.prepared])
        await _all([lane.begin() for lane in self._lanes])

    @property
    def trouble(self) -> FieldmouseError | None:
        """Why no pages can be stored any more; then the crawl has to end."""
        return next((lane.trouble for lane in self._lanes if lane.trouble is not None), None)

    def shard_of(self, host: Host) -> int:
        return xxhash.xxh3_64_intdigest(host.encode()) % self.shards

    def room(self, shard: int) -> bool:
        """May another page of this shard be handed over, to its own worker or to another?"""
        return self._lanes[shard].room or any(lane.room for lane in self._lanes)

    def send(self, number: int, outcome: Outcome) -> None:
        """Hand over an answer; number 0 is kept in the archive and answered by nobody's ticket."""
        assert not isinstance(outcome, Refused), "nothing was asked, so there is nothing to keep"
        lane = self._lanes[self.shard_of(host_of(outcome.link.url))]
        if not lane.room:
            # The freest of those that have room, if any has.
            lane = max(self._lanes, key=lambda other: (other.room, -other.outstanding))
        lane.send(number, outcome)
        self.recount()

    def widen(self, joined: Sequence[Url], is_open: bool) -> None:
        """Redirects of seeds led to these pages: every worker takes them into the scope."""
        for lane in self._lanes:
            lane.widen(joined, is_open)

    def _answered(self, parsed: Sequence[Parsed]) -> None:
        self.recount()
        self._on_parsed(parsed)

    def _vanished(self, numbers: Sequence[int]) -> None:
        self.recount()
        self._on_undone(numbers)

    def recount(self) -> None:
        """Put on the meter what is outstanding. A worker that comes back to life tells nobody of it."""
        self._meter.note_indexing(self.outstanding)

    @property
    def outstanding(self) -> int:
        """Pages sent whose answer is not back."""
        return sum(lane.outstanding for lane in self._lanes)

    async def prepare(self) -> list[ShardState]:
        """Make everything sent so far durable. A shard that died answers with the last state that counts."""
        self.prepared = await _all([lane.prepare() for lane in self._lanes])
        return self.prepared

    def committed(self) -> None:
        """The journal holds the states that `prepare` returned."""
        for lane in self._lanes:
            lane.committed()

    async def finish(self) -> None:
        """The crawl ends: let the indexes finish their merges, and sort all CDXJ lines into one file."""
        await asyncio.gather(*(lane.finish() for lane in self._lanes))
        archive = self._directory / "archive"
        logs = [log_path(archive, shard) for shard in range(self.shards)]
        await asyncio.to_thread(cdxj.merge, [log for log in logs if log.exists()], archive / "index.cdxj")

    @property
    def peak_rss(self) -> int:
        """Bytes of memory all workers used at most, as of the last checkpoint."""
        return sum(lane.peak_rss for lane in self._lanes)

    @property
    def pids(self) -> list[int]:
        """The worker processes that live now."""
        return [lane.pid for lane in self._lanes if lane.pid]

    def abandon(self) -> None:
        """End all workers at once, as a kill would."""
        for lane in self._lanes:
            lane.abandon()

    async def close(self) -> None:
        await asyncio.gather(*(lane.close() for lane in self._lanes))


async def _all(works: Sequence[Coroutine[None, None, T]]) -> list[T]:
    """Do all of these together; if some fail, the first error is raised once all have come to their end."""
    ended = await asyncio.gather(*works, return_exceptions=True)
    for one in ended:
        if isinstance(one, BaseException):
            raise one
    return [one for one in ended if not isinstance(one, BaseException)]
