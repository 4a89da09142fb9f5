"""Connection to one worker: its process, its socket, the pages it has in hand, and the causes of its end.

For every page sent, the connection knows whether its result is back and in which batch it will be
committed. When the worker dies, the pages that are not in a committed batch are lost. Pages with a ticket
are fetched again, so only their tickets are kept. Pages without a ticket (a robots.txt) cannot be fetched
again: they are kept until the commit and passed to the next worker.

A page that kills its worker twice is given up. An error of the local disk or memory is not blamed on a
page: it ends the crawl with an error. Repeated deaths with nothing stored in between also end it, because
each of them makes the crawler fetch the same pages again. If a plug-in kills its worker, the page is sent
again and stored without plug-ins. After a few such deaths, all pages of the shard are.

A plain child with a socket, not a fork of the crawler: it shares none of its memory. A few bytes of shared
memory hold the page it is working on, readable even after it died.
"""

from __future__ import annotations

import asyncio
import logging
import mmap
import os
import signal
import socket
import struct
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from fieldmouse.config.rules_from_settings import PageProcessingConfig
from fieldmouse.errors import CrawlDirError, FieldmouseError, shell_quoted
from fieldmouse.plugins.runner import PluginWarnings
from fieldmouse.storage.checkpoint import ShardState
from fieldmouse.types.outcome import Failed, Moved, Page, Unchanged, WorkerResult
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.url import Url
from fieldmouse.workers import protocol

EXIT_GRACE = 0.5  # seconds between closing the connection and being gone
EXIT_TIMEOUT = 10.0  # seconds that a worker may take to exit by itself
_NUMBER = struct.Struct("<q")
_ENVIRONMENT = {
    # We multiply no matrices; numpy's threads for that would spin at every start, one for each core.
    "OPENBLAS_NUM_THREADS": "1",
    # A tree is built and freed for each page: keep glibc from returning its memory to the system each time.
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TOP_PAD_": str(1 << 20),
    "MALLOC_ARENA_MAX": "2",
}


class WorkerProcess:
    """A running worker; create it with `start`."""

    def __init__(self, child: subprocess.Popen[bytes], memory: mmap.mmap):
        self._child, self._memory = child, memory
        self.pid = child.pid

    @classmethod
    def start(cls) -> tuple[WorkerProcess, socket.socket]:
        """Start a worker; return it and our end of its socket."""
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        memory = os.memfd_create("in-hand")
        os.ftruncate(memory, _NUMBER.size)
        scrap = mmap.mmap(memory, _NUMBER.size)
        _NUMBER.pack_into(scrap, 0, protocol.NO_PAGE)
        handles = (theirs.fileno(), memory)
        # A child inherits our signal mask: no signal reaches it before it can ignore them.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, protocol.IGNORED_SIGNALS)
        try:
            # -P: a file in the current directory must not shadow an installed module.
            child = subprocess.Popen(
                [sys.executable, "-P", "-m", "fieldmouse.workers.worker", *map(str, (*handles, os.getpid()))],
                pass_fds=handles,
                stdin=subprocess.DEVNULL,
                env=os.environ | _ENVIRONMENT,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        theirs.close()
        os.close(memory)
        ours.setblocking(False)
        return cls(child, scrap), ours

    @property
    def current_page(self) -> int:
        """Number of the page that it is processing, or `NO_PAGE`."""
        number: int = _NUMBER.unpack_from(self._memory)[0]
        return protocol.toggle_plugin_mark(number) if number < protocol.NO_PAGE else number

    @property
    def in_plugin(self) -> bool:
        """Whether plug-in code is processing the page."""
        return bool(_NUMBER.unpack_from(self._memory)[0] < protocol.NO_PAGE)

    def wait_or_kill(self, grace: float) -> int:
        """Wait `grace` seconds for its own exit, then kill it; return the exit code, negative for a signal."""
        try:
            return self._child.wait(grace)
        except subprocess.TimeoutExpired:
            self._child.kill()
            return self._child.wait()

    def kill(self) -> None:
        self._child.kill()


StorableOutcome = Page | Unchanged | Moved | Failed


class PagesInWorker:
    def __init__(self) -> None:
        self.unparsed_bytes = 0  # of pages with a ticket that are not parsed yet
        self._unparsed: dict[int, tuple[str, int]] = {}  # ticket to URL and size: not parsed yet
        self._parsed: dict[int, list[int]] = {}  # batch to tickets: parsed, not committed yet
        self._unparsed_others: deque[StorableOutcome] = deque()  # pages without a ticket: not parsed yet
        # Batch to pages without a ticket: parsed, not committed yet.
        self._parsed_others: dict[int, list[StorableOutcome]] = {}

    @property
    def outstanding_pages(self) -> int:
        """Number of pages whose result is not back."""
        return len(self._unparsed) + len(self._unparsed_others)

    def add_sent(self, number: int, outcome: StorableOutcome) -> None:
        if not number:
            self._unparsed_others.append(outcome)
            return
        size = len(outcome.response.body) if outcome.response is not None else 0
        self._unparsed[number] = (outcome.link.url, size)
        self.unparsed_bytes += size

    def add_parsed(self, parsed: Sequence[WorkerResult]) -> None:
        """Record the worker's results; those for pages without a ticket come in the order of sending."""
        for result in parsed:
            if not result.number:
                self._parsed_others.setdefault(result.batch, []).append(self._unparsed_others.popleft())
                continue
            _, size = self._unparsed.pop(result.number)
            self.unparsed_bytes -= size
            self._parsed.setdefault(result.batch, []).append(result.number)

    def url_of(self, number: int) -> str:
        """The URL of the page with this ticket; "" if it is unknown or already parsed."""
        return self._unparsed[number][0] if number in self._unparsed else ""

    def mark_committed(self, batch: int) -> bool:
        """Record the commit of all batches up to `batch`; return whether there was anything."""
        tables = self._parsed, self._parsed_others
        return bool([table.pop(b) for table in tables for b in list(table) if b <= batch])

    def take_lost(self, reach: int, in_hand: int) -> tuple[list[int], list[StorableOutcome]]:
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
        self.unparsed_bytes = 0
        return tickets, owed


log = logging.getLogger(__name__)

MAX_DEATHS = 2  # of workers that had the same page in hand, before the page is blamed
MAX_KILLS = 4  # the same for SIGKILL, which is more often sent by a user or the system
MAX_FAILED_STARTS = 3  # consecutive workers that die before they are ready
MAX_PLUGIN_DEATHS = 3  # workers killed by plug-ins before the shard disables plug-ins
MAX_UNEXPLAINED_DEATHS = 6  # consecutive deaths that no page explains, with nothing stored in between


class WorkerDeaths:
    """Record of the workers that one shard lost."""

    def __init__(self, directory: Path, shard: int):
        self._directory, self._shard = directory, shard
        self._page_deaths: Counter[str] = Counter()
        self._plugin_deaths: Counter[str] = Counter()
        self._plugin_total = 0
        self._failed_starts = self._fruitless = 0

    def should_give_up_page(self, url: str) -> bool:
        """Whether this page has killed enough workers to be given up."""
        return bool(self._page_deaths) and self._page_deaths[url] >= MAX_KILLS

    def should_skip_plugins(self, url: str) -> bool:
        """Whether this page is to be read without plug-ins."""
        if self._plugin_total >= MAX_PLUGIN_DEATHS:
            return True
        return bool(self._plugin_deaths) and self._plugin_deaths[url] >= MAX_KILLS // MAX_DEATHS

    def reset_failed_starts(self) -> None:
        self._failed_starts = 0

    def record_commit(self) -> None:
        """Reset the count of consecutive deaths: new pages were committed."""
        self._fruitless = 0

    def record_failed_start(self) -> CrawlDirError | None:
        """Record a death while opening the shard; return the error if there were too many."""
        self._failed_starts += 1
        if self._failed_starts < MAX_FAILED_STARTS:
            return None
        return CrawlDirError(
            f"the indexer of `{self._directory}` (shard {self._shard}) cannot start",
            f"`fieldmouse doctor {shell_quoted(self._directory)}` may find the cause; the last output is above",
        )

    def record_death(self, url: str, code: int, in_plugin: bool = False) -> CrawlDirError | None:
        """Record a death with the page `url` in hand ("" for none); return the error if a page is not the
        cause."""
        if code == -signal.SIGBUS:
            # Only a memory-mapped file raises SIGBUS, and pages are not mapped.
            return CrawlDirError(
                f"a file in `{self._directory}` cannot be read or written where it is mapped into memory",
                "the disk is full or failing, or a file was truncated; nothing is lost: repair that, then"
                f" `fieldmouse resume {shell_quoted(self._directory)}`",
            )
        if url and in_plugin:
            self._plugin_deaths[url] += 1 if code == -signal.SIGKILL else MAX_KILLS // MAX_DEATHS
            self._plugin_total += code != -signal.SIGKILL
            log.warning("a plug-in brought its worker down, on %s", url)
            if self._plugin_total == MAX_PLUGIN_DEATHS:
                log.warning("from now on shard %d reads pages without plug-ins", self._shard)
        elif url:
            self._page_deaths[url] += 1 if code == -signal.SIGKILL else MAX_KILLS // MAX_DEATHS
        if not url or code == -signal.SIGKILL:
            self._fruitless += 1
        if self._fruitless < MAX_UNEXPLAINED_DEATHS:
            return None
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return CrawlDirError(
            f"the indexer of `{self._directory}` (shard {self._shard}) died {MAX_UNEXPLAINED_DEATHS} "
            "times and stored"
            f" nothing in between (the last time: {how})",
            "nothing is lost; make sure that there is enough memory, then"
            f" `fieldmouse resume {shell_quoted(self._directory)}`",
        )


MAX_OUTSTANDING_PAGES = 48
MAX_OUTSTANDING_BYTES = 32 << 20


class WorkerConnection(asyncio.Protocol):
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
        """`batch` is the first one; 0 means the one after the state's."""
        self._directory, self._shard, self._config = directory, shard, config
        self._on_parsed, self._on_undone = on_parsed, on_undone
        self.committed_state = state  # committed to the journal
        self._batch = batch or state.batch + 1  # number of the batch being sent
        self._prepared: ShardState | None = None  # durable, and possibly committed to the journal
        self._holdings, self._deaths = PagesInWorker(), WorkerDeaths(directory, shard)
        self._plugin_warnings = PluginWarnings()
        self._undelivered: list[StorableOutcome] = []  # pages without a ticket, for the next worker
        self._added_to_scope: list[Url] = []  # added to the scope since the crawl was opened
        self._scope_is_open: bool = config.scope_is_open
        self._frames = protocol.FrameReader()
        self._out: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._worker: WorkerProcess | None = None
        self._begun = False  # the worker accepts pages
        self._closing = False
        self._reply: asyncio.Future[None] | None = None  # reply of a worker that is opening its shard
        self._preparing: asyncio.Future[None] | None = None
        self._finished: asyncio.Future[None] | None = None
        self._starting: asyncio.Task[None] | None = None
        self.error: FieldmouseError | None = None
        self._peak = self._earlier_peak = 0

    # -- life and death of the worker

    async def start(self) -> None:
        """Start a worker that locks and verifies the shard; nothing is changed yet."""
        await self._start_process()
        if self.error is not None:
            raise self.error

    async def roll_back_and_accept(self) -> None:
        """Restore the shard to its committed state, and accept pages."""
        while self._may_restart:
            if self._transport is None:
                await self._start_process()
                continue
            if await self._send_and_wait(protocol.RollBack()):
                # Set here and not when the reply arrives: a worker that dies in between was never at work.
                self._begun = True
                self._deaths.reset_failed_starts()
                self._queue_message(protocol.AddToScope(tuple(self._added_to_scope), self._scope_is_open))
                undelivered, self._undelivered = self._undelivered, []
                for page in undelivered:
                    self.send(0, page)
                return
            self.error = self.error or self._deaths.record_failed_start()
        if self.error is not None:
            raise self.error

    async def _start_process(self) -> None:
        while self._may_restart:
            self._worker, ours = WorkerProcess.start()
            self._frames = protocol.FrameReader()
            self._out.clear()
            await asyncio.get_running_loop().create_connection(lambda: self, sock=ours)
            start = protocol.OpenShard(
                str(self._directory), self._shard, self._config, self.committed_state, self._batch
            )
            if await self._send_and_wait(start):
                return
            self.error = self.error or self._deaths.record_failed_start()

    @property
    def _may_restart(self) -> bool:
        return self.error is None and not self._closing

    async def _send_and_wait(self, message: protocol.ToWorker) -> bool:
        """Send a message to an opening worker; return whether it is still alive after its reply."""
        if self._transport is None:
            return False
        self._reply = asyncio.get_running_loop().create_future()
        self._queue_message(message)
        await self._reply
        return self._transport is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, _: Exception | None) -> None:
        self._transport = None
        assert self._worker is not None
        in_hand, in_plugin = self._worker.current_page, self._worker.in_plugin
        code = self._worker.wait_or_kill(EXIT_GRACE)
        self._worker = None
        self._earlier_peak = max(self._earlier_peak, self._peak)
        begun, self._begun = self._begun, False
        _resolve(self._finished)
        if not begun or self._closing:
            _resolve(self._reply)
        else:
            if self.error is None:  # the worker has not reported the error itself
                self.error = self._deaths.record_death(self._holdings.url_of(in_hand), code, in_plugin)
            # A prepared state is safe on disk; only the journal decides whether it is committed.
            reach = self._prepared.batch if self._prepared else self.committed_state.batch
            tickets, undelivered = self._holdings.take_lost(reach, in_hand)
            self._undelivered += undelivered
            self._on_undone(tickets)
            if self._preparing is not None:
                self._preparing.set_result(None)
                self._preparing = None
            elif self._prepared is None and self.error is None:
                self._restart()

    def _restart(self) -> None:
        self._starting = asyncio.get_running_loop().create_task(self.roll_back_and_accept())
        self._starting.add_done_callback(lambda task: task.cancelled() or task.exception())

    # -- pages

    @property
    def outstanding_pages(self) -> int:
        return self._holdings.outstanding_pages

    @property
    def has_room(self) -> bool:
        holdings = self._holdings
        return (
            self._begun
            and holdings.outstanding_pages < MAX_OUTSTANDING_PAGES
            and holdings.unparsed_bytes < MAX_OUTSTANDING_BYTES
        )

    def send(self, number: int, outcome: StorableOutcome) -> None:
        if self._deaths.should_give_up_page(outcome.link.url):
            at = outcome.at if isinstance(outcome, Failed) else outcome.response.ended_at
            outcome = Failed(outcome.link, OutcomeReason.CRASHED, at, "the page killed its worker twice")
        if self._begun:
            self._holdings.add_sent(number, outcome)
            self._queue_message(protocol.PageJob(number, outcome, self._deaths.should_skip_plugins(outcome.link.url)))
        elif number:
            # The worker died between `has_room` and now.
            asyncio.get_running_loop().call_soon(self._on_undone, [number])
        else:
            self._undelivered.append(outcome)

    def add_to_scope(self, joined: Sequence[Url], is_open: bool) -> None:
        """Add these pages to the scope, for this worker and its successors."""
        self._added_to_scope += joined
        self._scope_is_open = is_open
        if self._begun:
            self._queue_message(protocol.AddToScope(tuple(joined), is_open))

    def _queue_message(self, message: protocol.ToWorker) -> None:
        payload = protocol.encode(message)
        if not self._out:
            asyncio.get_running_loop().call_soon(self._flush)
        self._out.append(protocol.FRAME_LENGTH.pack(len(payload)))
        self._out.append(payload)

    def _flush(self) -> None:
        if self._out and self._transport is not None:
            self._transport.write(b"".join(self._out))
        self._out.clear()

    def data_received(self, piece: bytes) -> None:
        for payload in self._frames.split_frames(piece):
            message = protocol.decode_from_worker(payload)
            match message:
                case protocol.ParsedPages(parsed):
                    self._holdings.add_parsed(parsed)
                    for page in parsed:
                        if page.complaint:
                            self._plugin_warnings.warn(page.complaint)
                    self._on_parsed(parsed)
                case protocol.PrepareCommitReply(state, peak):
                    self._peak = peak
                    self._prepared = state
                    if self._preparing is not None:
                        self._preparing.set_result(None)
                        self._preparing = None
                case protocol.ShardOpened() | protocol.WorkerReady():
                    _resolve(self._reply)
                case protocol.MergesFinished(peak):
                    self._peak = peak
                    _resolve(self._finished)
                case protocol.WorkerFailed(words, hint):
                    self.error = CrawlDirError(words, hint)

    # -- checkpoints

    async def prepare_commit(self) -> ShardState:
        """The newest durable state, of everything sent so far; the last committed one if the worker died."""
        assert self._prepared is None, "the last checkpoint is still pending"
        while self._starting is not None:
            starting, self._starting = self._starting, None
            await asyncio.wait([starting])
        if self.error is None and self._begun:
            self._preparing = asyncio.get_running_loop().create_future()
            self._queue_message(protocol.PrepareCommit())
            self._batch += 1
            await self._preparing
        else:
            self._batch += 1
        if self.error is not None:
            raise self.error
        return self._prepared or self.committed_state

    def mark_committed(self) -> None:
        """Record that the journal holds the state that `prepare` returned."""
        if self._prepared is not None:
            self.committed_state, self._prepared = self._prepared, None
            if self._holdings.mark_committed(self.committed_state.batch):
                self._deaths.record_commit()
            self._queue_message(protocol.ConfirmCommit(self.committed_state.batch))
        if self._transport is None and self._may_restart and self._starting is None:
            self._restart()

    async def finish_merges(self) -> None:
        if not self._begun:
            return
        self._finished = asyncio.get_running_loop().create_future()
        self._queue_message(protocol.FinishMerges())
        await self._finished
        if self.error is not None:
            raise self.error

    @property
    def peak_rss(self) -> int:
        return max(self._peak, self._earlier_peak)

    @property
    def pid(self) -> int:
        """Process id of the worker, or 0 if there is none."""
        return self._worker.pid if self._worker is not None else 0

    def kill(self) -> None:
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
            await asyncio.to_thread(self._worker.wait_or_kill, EXIT_TIMEOUT)


def _resolve(reply: asyncio.Future[None] | None) -> None:
    if reply is not None and not reply.done():
        reply.set_result(None)
