"""Connection to one worker: its process, its socket, and the pages it has in hand.

For every page sent, a lane knows whether its result is back and in which batch it
will be committed (`holdings.py`). When the worker dies, the pages that are not in a
committed batch are lost and must be fetched again.

A page may kill a worker, and is given up after repeated deaths. Our own disk or memory
may also kill it; then no page is blamed, `trouble` holds the error, and the crawl has
to end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from fieldmouse.errors import CrawlDirError, FieldmouseError
from fieldmouse.indexer.deaths import Deaths
from fieldmouse.indexer.holdings import Answer, Holdings
from fieldmouse.indexer.process import WorkerProcess
from fieldmouse.indexer.wire import (
    HEADER,
    Answers,
    Begin,
    Broken,
    Committed,
    Down,
    Finish,
    Finished,
    Frames,
    IndexerConfig,
    Job,
    Opened,
    Prepare,
    Prepared,
    Ready,
    ShardState,
    Start,
    Widen,
    decode_up,
    encode,
)
from fieldmouse.plugins.gossip import Gossip
from fieldmouse.records import Failed, Parsed, Reason
from fieldmouse.url import Url

WINDOW_PAGES = 48
WINDOW_BYTES = 32 << 20


class Lane(asyncio.Protocol):
    def __init__(
        self,
        directory: Path,
        shard: int,
        config: IndexerConfig,
        state: ShardState,
        on_parsed: Callable[[Sequence[Parsed]], None],
        on_undone: Callable[[Sequence[int]], None],
        batch: int = 0,
    ):
        """`batch` is the first one; 0 means the one after the state's."""
        self._directory, self._shard, self._config = directory, shard, config
        self._on_parsed, self._on_undone = on_parsed, on_undone
        self.counted = state  # committed to the journal
        self._batch = batch or state.batch + 1  # number of the batch being sent
        self._prepared: ShardState | None = None  # durable, and possibly committed to the journal
        self._holdings, self._deaths = Holdings(), Deaths(directory, shard)
        self._plugin_warnings = Gossip()
        self._undelivered: list[Answer] = []  # pages without a ticket, for the next worker
        self._added_to_scope: list[Url] = []  # added to the scope since the crawl was opened
        self._scope_is_open: bool = config.scope_is_open
        self._frames = Frames()
        self._out: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._worker: WorkerProcess | None = None
        self._begun = False  # the worker accepts pages
        self._closing = False
        self._reply: asyncio.Future[None] | None = None  # reply of a worker that is opening its shard
        self._preparing: asyncio.Future[None] | None = None
        self._finished: asyncio.Future[None] | None = None
        self._starting: asyncio.Task[None] | None = None
        self.trouble: FieldmouseError | None = None
        self._peak = self._earlier_peak = 0

    # -- life and death of the worker

    async def start(self) -> None:
        """Start a worker that locks and verifies the shard; nothing is changed yet."""
        await self._open()
        if self.trouble is not None:
            raise self.trouble

    async def begin(self) -> None:
        """Restore the shard to its committed state, and accept pages."""
        while self._running:
            if self._transport is None:
                await self._open()
                continue
            if await self._request(Begin()):
                # Set here and not when the reply arrives: a worker that dies in between was never at work.
                self._begun = True
                self._deaths.was_born()
                self._write(Widen(tuple(self._added_to_scope), self._scope_is_open))
                undelivered, self._undelivered = self._undelivered, []
                for page in undelivered:
                    self.send(0, page)
                return
            self.trouble = self.trouble or self._deaths.before_birth()
        if self.trouble is not None:
            raise self.trouble

    async def _open(self) -> None:
        while self._running:
            self._worker, ours = WorkerProcess.start()
            self._frames = Frames()
            self._out.clear()
            await asyncio.get_running_loop().create_connection(lambda: self, sock=ours)
            start = Start(str(self._directory), self._shard, self._config, self.counted, self._batch)
            if await self._request(start):
                return
            self.trouble = self.trouble or self._deaths.before_birth()

    @property
    def _running(self) -> bool:
        return self.trouble is None and not self._closing

    async def _request(self, message: Down) -> bool:
        """Send a message to an opening worker; return whether it is still alive after its reply."""
        if self._transport is None:
            return False
        self._reply = asyncio.get_running_loop().create_future()
        self._write(message)
        await self._reply
        return self._transport is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, _: Exception | None) -> None:
        self._transport = None
        assert self._worker is not None
        in_hand, in_plugin, code = self._worker.in_hand, self._worker.in_plugin, self._worker.end()
        self._worker = None
        self._earlier_peak = max(self._earlier_peak, self._peak)
        begun, self._begun = self._begun, False
        if self._finished is not None and not self._finished.done():
            self._finished.set_result(None)
        if not begun or self._closing:
            self._resolve_reply()
        else:
            if self.trouble is None:  # the worker has not reported the error itself
                self.trouble = self._deaths.at_work(self._holdings.url_of(in_hand), code, in_plugin)
            # A prepared state is safe on disk; only the journal decides whether it is committed.
            reach = self._prepared.batch if self._prepared else self.counted.batch
            tickets, undelivered = self._holdings.undo(reach, in_hand)
            self._undelivered += undelivered
            self._on_undone(tickets)
            if self._preparing is not None:
                self._preparing.set_result(None)
                self._preparing = None
            elif self._prepared is None and self.trouble is None:
                self._restart()

    def _resolve_reply(self) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_result(None)

    def _restart(self) -> None:
        self._starting = asyncio.get_running_loop().create_task(self.begin())
        self._starting.add_done_callback(lambda task: task.cancelled() or task.exception())

    # -- pages

    @property
    def outstanding(self) -> int:
        return self._holdings.outstanding

    @property
    def room(self) -> bool:
        holdings = self._holdings
        return self._begun and holdings.outstanding < WINDOW_PAGES and holdings.bytes < WINDOW_BYTES

    def send(self, number: int, outcome: Answer) -> None:
        if self._deaths.condemned(outcome.link.url):
            at = outcome.at if isinstance(outcome, Failed) else outcome.response.ended_at
            outcome = Failed(outcome.link, Reason.CRASHED, at, "the page killed its worker twice")
        if self._begun:
            self._holdings.hand_over(number, outcome)
            self._write(Job(number, outcome, self._deaths.bare(outcome.link.url)))
        elif number:
            # The worker died between `room` and now.
            asyncio.get_running_loop().call_soon(self._on_undone, [number])
        else:
            self._undelivered.append(outcome)

    def widen(self, joined: Sequence[Url], is_open: bool) -> None:
        """Add these pages to the scope, for this worker and its successors."""
        self._added_to_scope += joined
        self._scope_is_open = is_open
        if self._begun:
            self._write(Widen(tuple(joined), is_open))

    def _write(self, message: Down) -> None:
        payload = encode(message)
        if not self._out:
            asyncio.get_running_loop().call_soon(self._flush)
        self._out.append(HEADER.pack(len(payload)))
        self._out.append(payload)

    def _flush(self) -> None:
        if self._out and self._transport is not None:
            self._transport.write(b"".join(self._out))
        self._out.clear()

    def data_received(self, piece: bytes) -> None:
        for payload in self._frames.feed(piece):
            message = decode_up(payload)
            match message:
                case Answers(parsed):
                    self._holdings.book(parsed)
                    for page in parsed:
                        if page.complaint:
                            self._plugin_warnings.hear(page.complaint)
                    self._on_parsed(parsed)
                case Prepared(state, peak):
                    self._peak = peak
                    self._prepared = state
                    if self._preparing is not None:
                        self._preparing.set_result(None)
                        self._preparing = None
                case Opened() | Ready():
                    self._resolve_reply()
                case Finished(peak):
                    self._peak = peak
                    if self._finished is not None and not self._finished.done():
                        self._finished.set_result(None)
                case Broken(words, hint):
                    self.trouble = CrawlDirError(words, hint)

    # -- checkpoints

    async def prepare(self) -> ShardState:
        """The newest durable state, of everything sent so far; the last committed one if the worker died."""
        assert self._prepared is None, "the last checkpoint is still pending"
        while self._starting is not None:
            starting, self._starting = self._starting, None
            await asyncio.wait([starting])
        if self.trouble is None and self._begun:
            self._preparing = asyncio.get_running_loop().create_future()
            self._write(Prepare())
            self._batch += 1
            await self._preparing
        else:
            self._batch += 1
        if self.trouble is not None:
            raise self.trouble
        return self._prepared or self.counted

    def committed(self) -> None:
        """Record that the journal holds the state that `prepare` returned."""
        if self._prepared is not None:
            self.counted, self._prepared = self._prepared, None
            if self._holdings.count(self.counted.batch):
                self._deaths.stored()
            self._write(Committed(self.counted.batch))
        if self._transport is None and self._running and self._starting is None:
            self._restart()

    async def finish(self) -> None:
        if not self._begun:
            return
        self._finished = asyncio.get_running_loop().create_future()
        self._write(Finish())
        await self._finished
        if self.trouble is not None:
            raise self.trouble

    @property
    def peak_rss(self) -> int:
        return max(self._peak, self._earlier_peak)

    @property
    def pid(self) -> int:
        """Process id of the worker, or 0 if there is none."""
        return self._worker.pid if self._worker is not None else 0

    def abandon(self) -> None:
        """Kill the worker."""
        self._closing = True
        if self._worker is not None:
            self._worker.kill()

    async def close(self) -> None:
        self._closing = True
        if self._starting is not None:
            await asyncio.wait([self._starting])
        if self._transport is not None:
            self._flush()
            self._transport.close()
        if self._worker is not None:
            await asyncio.to_thread(self._worker.wait)
