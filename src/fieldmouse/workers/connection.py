"""Connection to one worker: its process, its socket, the pages it has in hand, and the causes of its deaths.

For every page sent, the connection knows whether its result is back and in which batch it will be committed. When
the worker dies, the pages that are not in a committed batch are lost. Pages with a ticket are fetched again, so only
their tickets are kept. Pages without a ticket (a robots.txt) cannot be fetched again: they are kept until the commit
and passed to the next worker.

A page that kills its worker twice is given up. An error of the local disk or memory is not blamed on a page: it
ends the crawl with an error. Repeated deaths with nothing stored in between also end it, because each of them makes
the crawler fetch the same pages again. If a plug-in kills its worker, the page is sent again and stored without
plug-ins. After a few such deaths, all pages of the shard are.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections import Counter, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from fieldmouse.config.worker_config import IndexerConfig
from fieldmouse.errors import CrawlDirError, FieldmouseError, typed
from fieldmouse.plugins.thread_runner import Gossip
from fieldmouse.storage.shard_state import ShardState
from fieldmouse.types.outcome import Failed, Moved, Page, Parsed, Unchanged
from fieldmouse.types.reason import Reason
from fieldmouse.url import Url
from fieldmouse.workers.process import WorkerProcess
from fieldmouse.workers.protocol import (
    HEADER,
    Answers,
    Begin,
    Broken,
    Committed,
    Down,
    Finish,
    Finished,
    Frames,
    Job,
    Opened,
    Prepare,
    Prepared,
    Ready,
    Start,
    Widen,
    decode_up,
    encode,
)

Answer = Page | Unchanged | Moved | Failed


class Holdings:
    def __init__(self) -> None:
        self.bytes = 0  # of pages with a ticket that are not parsed yet
        self._unparsed: dict[int, tuple[str, int]] = {}  # ticket to URL and size: not parsed yet
        self._parsed: dict[int, list[int]] = {}  # batch to tickets: parsed, not committed yet
        self._unparsed_others: deque[Answer] = deque()  # pages without a ticket: not parsed yet
        # Batch to pages without a ticket: parsed, not committed yet.
        self._parsed_others: dict[int, list[Answer]] = {}

    @property
    def outstanding(self) -> int:
        """Number of pages whose result is not back."""
        return len(self._unparsed) + len(self._unparsed_others)

    def hand_over(self, number: int, outcome: Answer) -> None:
        if not number:
            self._unparsed_others.append(outcome)
            return
        size = len(outcome.response.body) if outcome.response is not None else 0
        self._unparsed[number] = (outcome.link.url, size)
        self.bytes += size

    def book(self, parsed: Sequence[Parsed]) -> None:
        """Record the worker's results; those for pages without a ticket come in the order of sending."""
        for result in parsed:
            if not result.number:
                self._parsed_others.setdefault(result.batch, []).append(self._unparsed_others.popleft())
                continue
            _, size = self._unparsed.pop(result.number)
            self.bytes -= size
            self._parsed.setdefault(result.batch, []).append(result.number)

    def url_of(self, number: int) -> str:
        """The URL of the page with this ticket; "" if it is unknown or already parsed."""
        return self._unparsed[number][0] if number in self._unparsed else ""

    def count(self, batch: int) -> bool:
        """Record the commit of all batches up to `batch`; return whether there was anything."""
        tables = self._parsed, self._parsed_others
        return bool([table.pop(b) for table in tables for b in list(table) if b <= batch])

    def undo(self, reach: int, in_hand: int) -> tuple[list[int], list[Answer]]:
        """Undo everything that is not in a batch up to `reach`, because the worker died.

        Returns the tickets to fetch again, and the pages without a ticket for the next worker.
        """
        tickets = [n for batch, numbers in self._parsed.items() if batch > reach for n in numbers]
        tickets += self._unparsed
        owed = [page for batch, pages in self._parsed_others.items() if batch > reach for page in pages]
        if self._unparsed_others and not in_hand:
            self._unparsed_others.popleft()  # this page killed the worker; do not try it again
        owed += self._unparsed_others
        self._parsed = {b: numbers for b, numbers in self._parsed.items() if b <= reach}
        self._parsed_others = {b: pages for b, pages in self._parsed_others.items() if b <= reach}
        self._unparsed.clear()
        self._unparsed_others.clear()
        self.bytes = 0
        return tickets, owed


log = logging.getLogger(__name__)

MAX_DEATHS = 2  # of workers that had the same page in hand, before the page is blamed
KILLS = 4  # the same for SIGKILL, which is more often sent by a user or the system
MAX_FAILED_STARTS = 3  # consecutive workers that die before they are ready
PLUGINS = 3  # workers killed by plug-ins before the shard disables plug-ins
IN_VAIN = 6  # consecutive deaths that no page explains, with nothing stored in between


class Deaths:
    """Record of the workers that one shard lost."""

    def __init__(self, directory: Path, shard: int):
        self._directory, self._shard = directory, shard
        self._page_deaths: Counter[str] = Counter()
        self._plugin_deaths: Counter[str] = Counter()
        self._plugin_total = 0
        self._failed_starts = self._fruitless = 0

    def condemned(self, url: str) -> bool:
        """Whether this page has killed enough workers to be given up."""
        return bool(self._page_deaths) and self._page_deaths[url] >= KILLS

    def bare(self, url: str) -> bool:
        """Whether this page is to be read without plug-ins."""
        if self._plugin_total >= PLUGINS:
            return True
        return bool(self._plugin_deaths) and self._plugin_deaths[url] >= KILLS // MAX_DEATHS

    def was_born(self) -> None:
        self._failed_starts = 0

    def stored(self) -> None:
        """Reset the count of consecutive deaths: new pages were committed."""
        self._fruitless = 0

    def before_birth(self) -> CrawlDirError | None:
        """Record a death while opening the shard; return the error if there were too many."""
        self._failed_starts += 1
        if self._failed_starts < MAX_FAILED_STARTS:
            return None
        return CrawlDirError(
            f"the indexer of `{self._directory}` (shard {self._shard}) cannot start",
            f"`fieldmouse doctor {typed(self._directory)}` may find the cause; the last output is above",
        )

    def at_work(self, url: str, code: int, in_plugin: bool = False) -> CrawlDirError | None:
        """Record a death with the page `url` in hand ("" for none); return the error if a page is not the
        cause."""
        if code == -signal.SIGBUS:
            # Only a memory-mapped file raises SIGBUS, and pages are not mapped.
            return CrawlDirError(
                f"a file in `{self._directory}` cannot be read or written where it is mapped into memory",
                "the disk is full or failing, or a file was truncated; nothing is lost: repair that, then"
                f" `fieldmouse resume {typed(self._directory)}`",
            )
        if url and in_plugin:
            self._plugin_deaths[url] += 1 if code == -signal.SIGKILL else KILLS // MAX_DEATHS
            self._plugin_total += code != -signal.SIGKILL
            log.warning("a plug-in brought its worker down, on %s", url)
            if self._plugin_total == PLUGINS:
                log.warning("from now on shard %d reads pages without plug-ins", self._shard)
        elif url:
            self._page_deaths[url] += 1 if code == -signal.SIGKILL else KILLS // MAX_DEATHS
        if not url or code == -signal.SIGKILL:
            self._fruitless += 1
        if self._fruitless < IN_VAIN:
            return None
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return CrawlDirError(
            f"the indexer of `{self._directory}` (shard {self._shard}) died {IN_VAIN} times and stored"
            f" nothing in between (the last time: {how})",
            "nothing is lost; make sure that there is enough memory, then"
            f" `fieldmouse resume {typed(self._directory)}`",
        )


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
