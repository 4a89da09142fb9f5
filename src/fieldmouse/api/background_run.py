"""Crawl in a background thread, and delivery of its pages to the loop that consumes them.

The crawl has a private event loop, so the caller may have a running one, be a thread itself, or block for
an hour. The thread is a daemon: a program that exits without stopping its crawl ends it like a kill,
which loses nothing.

The crawl announces each checkpoint, and the loop reads the new pages from the outcome log. Pages are
never passed in memory, so nothing can be lost and there is no queue to bound. The loop reports one
number, its position in the log. If the loop is far behind, the crawl starts no fetches until it catches
up.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from fieldmouse.api.crawl_preparation import CrawlPlan, explain_failed_run, run_plan
from fieldmouse.errors import FieldmouseError
from fieldmouse.storage.checkpoint import Checkpoint, SealedPart
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.types.stats import Summary

if TYPE_CHECKING:
    from fieldmouse.crawler.retry_failed import RetryFailed
    from fieldmouse.crawler.run import CrawlRun

log = logging.getLogger(__name__)

#: Bytes of outcomes, about two hundred rows, that a loop may be behind the second-newest checkpoint.
MAX_LAG = 64 << 10

DELIVERY_PART = "delivery"


class DeliveryOffset(msgspec.Struct, frozen=True):
    """Checkpoint state: all pages before `reach`, in bytes of the outcome log, were delivered."""

    reach: int = 0


class DeliveryProgress:
    """Link between a crawl and the loop that consumes its pages. All methods are thread-safe."""

    def __init__(self) -> None:
        self._moved = threading.Condition()
        self._listeners: list[Callable[[], None]] = []
        self.log_position = 0  # of the loop in the outcome log, in bytes
        self.checkpoint_count = 0
        self.log_length = 0  # of the outcome log at the last checkpoint
        self._log_length_before = 0  # and at the checkpoint before it
        self._is_drained = False  # the loop has taken every page and waits
        self.is_abandoned = False  # the loop was left
        self.is_ended = False  # the crawl has ended

    # -- for the loop

    def advance_position(self, position: int) -> None:
        """Advance to `position`: the page that ends there was delivered, or there is no page before it."""
        self.log_position = max(self.log_position, position)

    def add_checkpoint_listener(self, listener: Callable[[], None]) -> None:
        """Call `listener` in the crawl's thread at each checkpoint and at the end."""
        self._listeners.append(listener)

    def mark_drained(self, seen: int) -> None:
        """Note that the loop has taken all pages up to checkpoint number `seen`."""
        with self._moved:
            self._is_drained = seen == self.checkpoint_count

    def has_newer_checkpoint(self, seen: int) -> bool:
        return self.is_ended or self.checkpoint_count != seen

    def wait_for_checkpoint(self, seen: int) -> None:
        """Wait for a checkpoint after number `seen`, or for the end."""
        with self._moved:
            self._moved.wait_for(lambda: self.has_newer_checkpoint(seen))

    def wait_for_end(self) -> None:
        with self._moved:
            self._moved.wait_for(lambda: self.is_ended)

    def stop_delivery(self) -> None:
        """Stop taking pages; the page in hand stays undelivered."""
        with self._moved:
            self.is_abandoned = True

    # -- for the crawl: the page consumer of `crawler/run.py`

    def is_too_far_behind(self) -> bool:
        """Whether the crawl should wait for the loop."""
        return not self.run_may_end() and self.log_position < self._log_length_before - MAX_LAG

    def run_may_end(self) -> bool:
        """Whether the loop has taken all pages, or was left."""
        return self.is_abandoned or self._is_drained

    def waits_for_checkpoint(self) -> bool:
        """Always False: an earlier checkpoint does not make the loop faster."""
        return False

    def announce_checkpoint(self, end: int) -> None:
        """Announce a checkpoint; `end` is the length of the outcome log."""
        with self._moved:
            self._log_length_before = self.log_length if self.checkpoint_count else end
            self.log_length = end
            self.checkpoint_count += 1
            self._is_drained = False
            self._notify()

    def announce_end(self) -> None:
        with self._moved:
            self.is_ended = True
            self._notify()

    def _notify(self) -> None:
        self._moved.notify_all()
        for listener in self._listeners:
            listener()


class DeliveryCheckpointPart:
    """Checkpoint part that stores the position of the loop."""

    name = DELIVERY_PART

    def __init__(self, home: CrawlDir, last: Checkpoint | None, stream: DeliveryProgress):
        known = last is not None and DELIVERY_PART in last.parts
        self._state = (
            last.decode_part(DELIVERY_PART, DeliveryOffset) if last is not None and known else DeliveryOffset()
        )
        self._stream, self._outcomes = stream, home / "outcomes.log"
        self._end = 0

    def roll_back_to_checkpoint(self) -> None:
        self._stream.advance_position(self._state.reach)

    def seal(self) -> SealedPart[DeliveryOffset]:
        self._end = self._outcomes.stat().st_size  # the outcome log was sealed before
        return SealedPart(DeliveryOffset(self._stream.log_position))

    def on_checkpoint_committed(self) -> None:
        self._stream.announce_checkpoint(self._end)

    def close(self) -> None:
        """Nothing to close: this part has no files."""


class BackgroundRun:
    """One run, started by the constructor. `stream` delivers its pages; without it they stay undelivered."""

    def __init__(self, plan: CrawlPlan, stream: DeliveryProgress | None = None):
        self._plan, self._stream = plan, stream or DeliveryProgress()
        if stream is None:
            self._stream.stop_delivery()
        self._stopping = threading.RLock()  # reentrant: garbage collection may drop a page loop at any point
        self._stop_requested = False
        self._interrupt: Callable[[], object] = lambda: None
        self._summary: Summary | None = None
        self.exception: BaseException | None = None  # that ended the run
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._run_crawl, name=f"crawl {plan.directory.name}", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether the run can be stopped; False in a fork of the process that started it."""
        return not self._stream.is_ended and self._process == os.getpid()

    @property
    def stopping(self) -> bool:
        """Whether `stop` was called and the run has not ended."""
        return self._stop_requested and self.running

    @property
    def summary(self) -> Summary:
        """Summary of the run; raises the exception that ended it."""
        if self.exception is not None:
            raise self.exception
        if self._summary is None:
            raise FieldmouseError(
                f"the crawl in `{self._plan.directory}` has not ended",
                "iterate its pages to the end, leave the loop, or `close` it",
            )
        return self._summary

    def wait_until_ended(self) -> None:
        """Wait for the end of the run; `stop` may request it."""
        # Garbage collection may drop a page loop in the crawl's own thread, which cannot wait for itself.
        if self.running and threading.current_thread() is not self._thread:
            self._stream.wait_for_end()
            self._thread.join()

    def wait_for_summary(self) -> Summary:
        """Wait for the end, and return the summary; an interrupt of the wait stops the run first."""
        try:
            self.wait_until_ended()
        except BaseException:
            self.request_stop()
            self.wait_until_ended()
            raise
        return self.summary

    async def wait_until_ended_async(self) -> None:
        """The same, without blocking the running event loop."""
        over = asyncio.Event()
        self._stream.add_checkpoint_listener(call_in_loop(asyncio.get_running_loop(), over.set))
        while self.running:
            over.clear()
            if self.running:
                await over.wait()

    def request_stop(self) -> None:
        """Request an orderly end, and return at once. May be called more than once."""
        if not self.running:
            return
        self._stream.stop_delivery()
        with self._stopping:
            self._stop_requested = True
            self._interrupt()

    def _forward_stop_requests(self, life: CrawlRun) -> None:
        with self._stopping:
            self._interrupt = call_in_loop(asyncio.get_running_loop(), life.interrupt)
            if self._stop_requested:
                life.interrupt()

    def _retry_failed(self) -> RetryFailed | None:
        from fieldmouse.crawler.retry_failed import RetryFailed  # imports most of the package

        if not self._plan.retry_failed or self._plan.new:
            return None
        return RetryFailed(lambda counts: None, private=self._plan.settings.network.allow_private)

    def _run_crawl(self) -> None:
        try:
            delivery = partial(DeliveryCheckpointPart, stream=self._stream)
            self._summary = run_plan(
                self._plan,
                runner=_in_new_loop,
                on_open=self._forward_stop_requests,
                retry_failed=self._retry_failed(),
                audience=self._stream,
                parts=[delivery],
            )
            if self._summary.exit == 1:
                log.warning("%s (%s)", *explain_failed_run(self._summary, self._plan.directory))
        except BaseException as mistake:  # raised again in the consumer's thread
            self.exception = mistake
        finally:
            with self._stopping:
                self._interrupt = lambda: None
            self._stream.announce_end()


def call_in_loop(loop: asyncio.AbstractEventLoop, what: Callable[[], object]) -> Callable[[], None]:
    """A function that calls `what` in the loop from another thread; no-op once the loop is closed."""

    def call() -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(what)

    return call


def _in_new_loop(main: Coroutine[Any, Any, Summary]) -> Summary:
    """Run in a new event loop, independent of any patch of `asyncio.run`."""
    with asyncio.Runner() as runner:
        return runner.run(main)
