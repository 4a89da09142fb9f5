"""In-process worker: runs a shard without a worker process, for virtual time and for debuggers.

Pages are parsed, archived and indexed by the same `ShardWriter` as in a worker, but
immediately and on the caller's thread. Results are still delivered later, from the event
loop, as they are over a socket. There is no process that can die, so nothing is ever undone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from fieldmouse.config.rules_from_settings import PageProcessingConfig
from fieldmouse.errors import FieldmouseError, StorageError
from fieldmouse.storage.checkpoint import ShardState
from fieldmouse.types.outcome import Failed, Moved, Page, Unchanged, WorkerResult
from fieldmouse.url import Url
from fieldmouse.workers.shard_writer import LockedShard, ShardWriter


class InlineWorker:
    """In-process counterpart of `WorkerConnection`."""

    pid = 0
    error: FieldmouseError | None = None
    peak_rss = 0  # included in that of this process

    def __init__(
        self,
        directory: Path,
        shard: int,
        config: PageProcessingConfig,
        state: ShardState,
        on_parsed: Callable[[Sequence[WorkerResult]], None],
        on_undone: Callable[[Sequence[int]], None],
        batch: int = 0,
    ):
        self._directory, self._number, self._config = directory, shard, config
        self._on_parsed = on_parsed
        self._opened: LockedShard | None = None
        self._shard: ShardWriter | None = None
        self._prepared: ShardState | None = None
        self._committed = state
        self._batch = batch
        self._answers: list[WorkerResult] = []

    async def start(self) -> None:
        self._opened = LockedShard(self._directory, self._number, self._config, self._committed, batch=self._batch)

    async def roll_back_and_accept(self) -> None:
        assert self._opened is not None, "started first"
        self._shard, self._opened = ShardWriter(self._opened), None

    @property
    def has_room(self) -> bool:
        return self._shard is not None

    @property
    def outstanding_pages(self) -> int:
        return len(self._answers)

    def send(self, number: int, outcome: Page | Unchanged | Moved | Failed) -> None:
        assert self._shard is not None, "begun first"
        if not self._answers:
            asyncio.get_running_loop().call_soon(self._deliver_results)
        try:
            self._answers.append(self._shard.process_outcome(number, outcome))
        except FieldmouseError as trouble:
            # A disk error is not the page's fault: the page gets no result, and the crawl has to end.
            self.error = self.error or trouble

    def add_to_scope(self, joined: Sequence[Url], is_open: bool) -> None:
        assert self._shard is not None, "begun first"
        self._shard.add_to_scope(joined, is_open)

    def _deliver_results(self) -> None:
        results, self._answers = self._answers, []
        if results:
            self._on_parsed(results)

    async def prepare_commit(self) -> ShardState:
        assert self._shard is not None, "begun first"
        assert self._prepared is None, "the last checkpoint is still pending"
        self._deliver_results()  # results precede the durable state, as in the order of frames
        self._prepared = self._shard.prepare_commit()
        return self._prepared

    def mark_committed(self) -> None:
        assert self._shard is not None, "begun first"
        if self._prepared is not None:
            self._committed, self._prepared = self._prepared, None
            self._shard.mark_committed(self._committed.batch)

    async def finish_merges(self) -> None:
        if self._shard is not None:
            self._shard.finish_merges()

    def kill(self) -> None:
        """Do nothing: nothing here outlives our own process."""

    async def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
        if self._shard is not None:
            shard, self._shard = self._shard, None
            with suppress(StorageError):  # unsynced data is not committed
                shard.close()
