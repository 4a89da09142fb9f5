"""The agent's end of one worker: its process, its socket, and which pages it holds.

A lane knows for every page sent whether its answer is back and in which batch it
will count. That is all that is needed when the worker dies: what is not in a
batch that counts is lost and must be fetched again.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from fieldmouse.errors import CrawlDirError, FieldmouseError
from fieldmouse.indexer.process import WorkerProcess
from fieldmouse.indexer.wire import (
    HEADER,
    Answers,
    Broken,
    Committed,
    Down,
    Finish,
    Finished,
    Frames,
    IndexerConfig,
    Job,
    Prepare,
    Prepared,
    Ready,
    ShardState,
    Start,
    decode_up,
    encode,
)
from fieldmouse.records import Failed, Moved, Page, Parsed, Reason, Unchanged

WINDOW_PAGES = 48
WINDOW_BYTES = 32 << 20
DEATHS = 2  # of workers with the same page in hand, before the page is blamed
KILLS = 4  # the same for SIGKILL, which is more often somebody's doing than the page's
STILLBORN = 3  # workers in a row that die before they are ready

Answer = Page | Unchanged | Moved | Failed


class Lane(asyncio.Protocol):
    def __init__(
        self,
        directory: Path,
        shard: int,
        config: IndexerConfig,
        state: ShardState,
        on_parsed: Callable[[Sequence[Parsed]], None],
        on_lost: Callable[[Sequence[int]], None],
    ):
        self._directory, self._shard, self._config = directory, shard, config
        self._on_parsed, self._on_lost = on_parsed, on_lost
        self.counted = state  # the journal holds it
        self._prepared: ShardState | None = None  # durable, and the journal may hold it by now
        self._sent: dict[int, tuple[str, int]] = {}  # ticket to URL and size: no answer yet
        self._answered: dict[int, list[int]] = {}  # batch to tickets: answered, and do not count yet
        self._keeping = 0  # answers to come for pages without a ticket
        self._bytes = 0
        self._blame: Counter[str] = Counter()
        self._stillborn = 0
        self._frames = Frames()
        self._out: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._worker: WorkerProcess | None = None
        self._closing = False
        self._ready: asyncio.Future[None] | None = None
        self._waiter: asyncio.Future[ShardState | None] | None = None
        self._finished: asyncio.Future[None] | None = None
        self._lost: list[int] = []
        self._starting: asyncio.Task[None] | None = None
        self.trouble: FieldmouseError | None = None
        self._peak = self._peak_before = 0

    # -- life and death of the worker

    async def start(self) -> None:
        """Start a worker at the state that counts, and wait until it stands there."""
        loop = asyncio.get_running_loop()
        while self.trouble is None and not self._closing:
            self._ready = loop.create_future()
            await self._spawn()
            self._write(Start(str(self._directory), self._shard, self._config, self.counted))
            await self._ready
            if self._transport is not None:
                self._stillborn = 0
                return
            self._stillborn += 1
            if self._stillborn >= STILLBORN and self.trouble is None:
                self.trouble = CrawlDirError(
                    f"the indexer of `{self._directory}` (shard {self._shard}) cannot start",
                    f"`fieldmouse doctor {self._directory}` may know why; the log has its last words",
                )
        if self.trouble is not None:
            raise self.trouble

    async def _spawn(self) -> None:
        self._worker, ours = WorkerProcess.start()
        self._frames = Frames()
        self._out.clear()
        transport, _ = await asyncio.get_running_loop().create_connection(lambda: self, sock=ours)
        self._transport = transport

    def connection_lost(self, _: Exception | None) -> None:
        self._transport = None
        assert self._worker is not None
        in_hand, code = self._worker.in_hand, self._worker.end()
        self._worker = None
        self._peak_before = max(self._peak_before, self._peak)
        if self._finished is not None and not self._finished.done():
            self._finished.set_result(None)
        if self._ready is not None and not self._ready.done():
            self._ready.set_result(None)
            return
        if self._closing:
            return
        self._assign_blame(in_hand, code)
        # Whatever was prepared is safe on the disk; only the journal says whether it counts.
        reach = self._prepared.batch if self._prepared else self.counted.batch
        lost = [n for batch, numbers in self._answered.items() if batch > reach for n in numbers]
        self._answered = {b: numbers for b, numbers in self._answered.items() if b <= reach}
        lost += [number for number in self._sent if number]
        self._sent.clear()
        self._keeping = self._bytes = 0
        self._on_lost(lost)
        if self._waiter is not None:
            self._waiter.set_result(None)
            self._waiter = None
        elif self._prepared is None:
            self._restart()

    def _assign_blame(self, number: int, code: int) -> None:
        if number in self._sent:
            url = self._sent[number][0]
            self._blame[url] += 1 if code == -signal.SIGKILL else KILLS // DEATHS

    def _restart(self) -> None:
        self._starting = asyncio.get_running_loop().create_task(self.start())
        self._starting.add_done_callback(lambda task: task.cancelled() or task.exception())

    # -- pages

    @property
    def outstanding(self) -> int:
        return len(self._sent) + self._keeping

    @property
    def room(self) -> bool:
        return (
            self._transport is not None
            and (self._ready is None or self._ready.done())
            and len(self._sent) + self._keeping < WINDOW_PAGES
            and self._bytes < WINDOW_BYTES
        )

    def send(self, number: int, outcome: Answer) -> None:
        url = outcome.link.url
        if self._blame and self._blame[url] >= KILLS:
            at = outcome.at if isinstance(outcome, Failed) else outcome.response.ended_at
            outcome = Failed(outcome.link, Reason.CRASHED, at, "the page killed its reader, twice")
        size = len(outcome.response.body) if outcome.response is not None else 0
        if self._transport is None:
            # The worker died between `room` and now.
            if number:
                asyncio.get_running_loop().call_soon(self._on_lost, [number])
            return
        if number:
            self._sent[number] = (url, size)
        else:
            self._keeping += 1
        self._bytes += size
        self._write(Job(number, outcome))

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
                    self._book(parsed)
                case Prepared(state, peak):
                    self._peak = peak
                    self._prepared = state
                    if self._waiter is not None:
                        self._waiter.set_result(state)
                        self._waiter = None
                case Ready():
                    assert self._ready is not None
                    self._ready.set_result(None)
                case Finished(peak):
                    self._peak = peak
                    if self._finished is not None and not self._finished.done():
                        self._finished.set_result(None)
                case Broken(words, hint):
                    self.trouble = CrawlDirError(words, hint)

    def _book(self, parsed: Sequence[Parsed]) -> None:
        for one in parsed:
            if not one.number:
                self._keeping -= 1
                continue
            _, size = self._sent.pop(one.number)
            self._bytes -= size
            self._answered.setdefault(one.batch, []).append(one.number)
        self._on_parsed(parsed)

    # -- moments

    async def prepare(self) -> ShardState:
        """The newest durable state: of everything sent before, or the last that counts if the worker died."""
        assert self._prepared is None, "the last checkpoint is still pending"
        if self._starting is not None:
            await asyncio.wait([self._starting])
            self._starting = None
        if self.trouble is not None:
            raise self.trouble
        if self._transport is None:
            return self.counted
        self._waiter = asyncio.get_running_loop().create_future()
        self._write(Prepare())
        return await self._waiter or self.counted

    def committed(self) -> None:
        """The journal holds what `prepare` returned."""
        if self._prepared is not None:
            self.counted = self._prepared
            self._prepared = None
            for batch in [b for b in self._answered if b <= self.counted.batch]:
                del self._answered[batch]
            self._write(Committed(self.counted.batch))
        if self._transport is None and not self._closing and self._starting is None:
            self._restart()

    async def finish(self) -> None:
        if self._transport is None:
            return
        self._finished = asyncio.get_running_loop().create_future()
        self._write(Finish())
        await self._finished

    @property
    def peak_rss(self) -> int:
        return max(self._peak, self._peak_before)

    @property
    def pid(self) -> int:
        """The worker's process, or 0 when there is none."""
        return self._worker.pid if self._worker is not None else 0

    async def close(self) -> None:
        self._closing = True
        if self._starting is not None:
            await asyncio.wait([self._starting])
        if self._transport is not None:
            self._flush()
            self._transport.close()
        if self._worker is not None:
            await asyncio.to_thread(self._worker.wait)
