"""Pool of worker processes: sends fetched pages to them, receives the results and holds the states of their
shards.

Each shard has its own connection. Each host has a home shard, whose worker remembers the links of its
menus; but a page whose worker is busy goes to an idle one, so that one large host does not make the
others wait. Any shard can store any page, because every shard's files are self-contained.

Workers sync their own files, all at once and before the durable parts of the crawl are sealed, so nothing
is left to sync here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import xxhash

from fieldmouse.archive import warc_writer
from fieldmouse.archive.duplicate_detection import DigestStore
from fieldmouse.archive.warc_writer import cdxj_log_path
from fieldmouse.backpressure_state import BackpressureState
from fieldmouse.config.rules_from_settings import PageProcessingConfig
from fieldmouse.errors import FieldmouseError
from fieldmouse.search.newest_versions import VersionTable
from fieldmouse.storage.checkpoint import Durable, SealedPart, ShardState
from fieldmouse.types.outcome import Outcome, Refused, WorkerResult
from fieldmouse.url import Host, Url, host_of
from fieldmouse.workers.supervisor import WorkerConnection

if TYPE_CHECKING:
    from fieldmouse.workers.inline_worker import InlineWorker


T = TypeVar("T")


class WorkerPool:
    """Parsing, archiving and indexing for a whole crawl.

    `on_parsed` and `on_undone` are called in the event loop. `on_undone` receives the
    tickets that a dead worker held or had parsed without a checkpoint: discard their
    results and fetch them again.
    """

    def __init__(
        self,
        directory: Path,
        *,
        shards: int,
        states: Sequence[ShardState] | None = None,
        config: PageProcessingConfig,
        on_parsed: Callable[[Sequence[WorkerResult]], None],
        on_undone: Callable[[Sequence[int]], None],
        lane: type[WorkerConnection] | type[InlineWorker] = WorkerConnection,
        meter: BackpressureState | None = None,
    ):
        """`states` are those of the last checkpoint; None begins a new crawl.

        A `lane` runs a shard, in a worker process or in this one (`InlineWorker`). The number of
        `outstanding`
        pages is reported to the `meter`.
        """
        assert states is None or len(states) == shards, "the number of shards is fixed when a crawl is created"
        self._directory = directory
        self.shards = shards
        self._new = states is None
        states = list(states or [ShardState()] * shards)
        self.prepared = states  # the last result of `prepare`
        batch = max(state.batch for state in states) + 1
        self._connections: list[WorkerConnection | InlineWorker] = [
            lane(directory, shard, config, state, on_parsed, on_undone, batch) for shard, state in enumerate(states)
        ]
        self._meter = meter or BackpressureState()

    async def start(self) -> None:
        """Start all workers; each verifies that its shard can be restored to its state. Changes nothing."""
        await _await_all([lane.start() for lane in self._connections])

    async def roll_back_and_accept(self) -> None:
        """Have each worker restore its files to its state; then pages can be sent."""
        archive = self._directory / "archive"
        warc_writer.remove_merge_leftovers(archive / "index.cdxj")
        if self._new:
            DigestStore.delete_files(archive)
        DigestStore.delete_sketches_of_other_algorithm(archive)
        VersionTable.delete_unusable_table(self._directory / "index", [state.copies for state in self.prepared])
        await _await_all([lane.roll_back_and_accept() for lane in self._connections])

    @property
    def error(self) -> FieldmouseError | None:
        """The error that prevents storing pages, which must end the crawl; None if there is none."""
        return next((lane.error for lane in self._connections if lane.error is not None), None)

    def shard_of(self, host: Host) -> int:
        return xxhash.xxh3_64_intdigest(host.encode()) % self.shards

    def has_room(self, shard: int) -> bool:
        """Whether another page of this shard can be sent, to its own worker or to another."""
        return self._connections[shard].has_room or any(lane.has_room for lane in self._connections)

    def send(self, number: int, outcome: Outcome) -> None:
        """Send an outcome to a worker; number 0 means that it has no ticket and is only archived."""
        assert not isinstance(outcome, Refused), "a refused request has no response to store"
        lane = self._connections[self.shard_of(host_of(outcome.link.url))]
        if not lane.has_room:
            # The least busy of those that have room, if any has.
            lane = max(self._connections, key=lambda candidate: (candidate.has_room, -candidate.outstanding_pages))
        lane.send(number, outcome)
        self.report_outstanding_count()

    def add_to_scope(self, joined: Sequence[Url], is_open: bool) -> None:
        """Add pages that seeds redirected to, to the scope of every worker."""
        for lane in self._connections:
            lane.add_to_scope(joined, is_open)

    def report_outstanding_count(self) -> None:
        """Report the outstanding pages to `BackpressureState`. The restart of a worker triggers no callback."""
        self._meter.set_indexing(self.outstanding_pages)

    @property
    def outstanding_pages(self) -> int:
        """Number of pages sent whose result is not back."""
        return sum(lane.outstanding_pages for lane in self._connections)

    async def prepare_commit(self) -> list[ShardState]:
        """Make everything sent so far durable. A shard whose worker died returns its last committed state."""
        self.prepared = await _await_all([lane.prepare_commit() for lane in self._connections])
        return self.prepared

    def mark_committed(self) -> None:
        """Record that the journal holds the states that `prepare` returned."""
        for lane in self._connections:
            lane.mark_committed()

    async def merge_indexes_and_cdxj_logs(self) -> None:
        """Wait for the merges of the indexes at the end of a crawl, and sort all CDXJ lines into one file."""
        await asyncio.gather(*(lane.finish_merges() for lane in self._connections))
        archive = self._directory / "archive"
        logs = [cdxj_log_path(archive, shard) for shard in range(self.shards)]
        await asyncio.to_thread(
            warc_writer.merge_cdxj_logs, [log for log in logs if log.exists()], archive / "index.cdxj"
        )

    @property
    def peak_rss(self) -> int:
        """Sum of the workers' peak memory in bytes, as of the last checkpoint."""
        return sum(lane.peak_rss for lane in self._connections)

    @property
    def pids(self) -> list[int]:
        """Process ids of the running workers."""
        return [lane.pid for lane in self._connections if lane.pid]

    def kill(self) -> None:
        """Kill all workers."""
        for lane in self._connections:
            lane.kill()

    async def close(self) -> None:
        await asyncio.gather(*(lane.close() for lane in self._connections))


async def _await_all(coroutines: Sequence[Coroutine[None, None, T]]) -> list[T]:
    """Await all coroutines; if some fail, raise the first error after all have ended."""
    results = await asyncio.gather(*coroutines, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]


class ShardsPart(Durable):
    """See `storage/checkpoint.py`. Call `WorkerPool.prepare` before sealing; the pool itself begins and closes."""

    name = "shards"

    def __init__(self, indexer: WorkerPool):
        self._indexer = indexer

    def seal(self) -> SealedPart[list[ShardState]]:
        return SealedPart(self._indexer.prepared)

    def on_checkpoint_committed(self) -> None:
        self._indexer.mark_committed()
