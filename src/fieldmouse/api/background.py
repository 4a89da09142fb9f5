"""Crawl in a background thread with a private event loop.

So the caller may have a running event loop, be a thread itself, or block for an hour: the crawl stays
polite and alive. The thread is a daemon: a program that exits without stopping its crawl ends it like a
kill, which loses nothing.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from fieldmouse.api.hatch import Delivery, Hatch
from fieldmouse.api.plan import Plan
from fieldmouse.api.run import run
from fieldmouse.errors import FieldmouseError
from fieldmouse.records import Summary

if TYPE_CHECKING:
    from fieldmouse.agent import Life


class Background:
    """One run, started by the constructor. `hatch` delivers its pages."""

    def __init__(self, plan: Plan, hatch: Hatch):
        self._plan, self._hatch = plan, hatch
        self._stopping = threading.RLock()  # reentrant: garbage collection may drop a page loop at any point
        self._asked = False
        self._interrupt: Callable[[], object] = lambda: None
        self._summary: Summary | None = None
        self._mistake: BaseException | None = None
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._crawl, name=f"crawl {plan.directory.name}", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether the run can be stopped; False in a fork of the process that started it."""
        return not self._hatch.over and self._process == os.getpid()

    @property
    def stopping(self) -> bool:
        """Whether `stop` was called and the run has not ended."""
        return self._asked and self.running

    @property
    def mistake(self) -> BaseException | None:
        """The exception that ended the run, if any."""
        return self._mistake

    @property
    def summary(self) -> Summary:
        """Summary of the run; raises the exception that ended it."""
        if self._mistake is not None:
            raise self._mistake
        if self._summary is None:
            raise FieldmouseError(
                f"the crawl in `{self._plan.directory}` has not ended",
                "iterate its pages to the end, leave the loop, or `close` it",
            )
        return self._summary

    def wait(self) -> None:
        """Wait for the end of the run; `stop` may request it."""
        # Garbage collection may drop a page loop in the crawl's own thread, which cannot wait for itself.
        if self.running and threading.current_thread() is not self._thread:
            self._hatch.wait_for_end()
            self._thread.join()

    async def wait_in_loop(self) -> None:
        """The same, without blocking the running event loop."""
        over = asyncio.Event()
        self._hatch.listen(calling(asyncio.get_running_loop(), over.set))
        while self.running:
            over.clear()
            if self.running:
                await over.wait()

    def stop(self) -> None:
        """Request an orderly end, and return at once. May be called more than once."""
        if not self.running:
            return
        self._hatch.leave()
        with self._stopping:
            self._asked = True
            self._interrupt()

    def _opened(self, life: Life) -> None:
        with self._stopping:
            self._interrupt = calling(asyncio.get_running_loop(), life.interrupt)
            if self._asked:
                life.interrupt()

    def _crawl(self) -> None:
        try:
            delivery = partial(Delivery, hatch=self._hatch)
            self._summary = run(
                self._plan, runner=_in_new_loop, on_open=self._opened, audience=self._hatch, parts=[delivery]
            )
        except BaseException as mistake:  # raised again in the consumer's thread
            self._mistake = mistake
        finally:
            with self._stopping:
                self._interrupt = lambda: None
            self._hatch.close()


def calling(loop: asyncio.AbstractEventLoop, what: Callable[[], object]) -> Callable[[], None]:
    """A function that calls `what` in the loop from another thread; no-op once the loop is closed."""

    def call() -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(what)

    return call


def _in_new_loop(main: Coroutine[Any, Any, Summary]) -> Summary:
    """Run in a new event loop, independent of any patch of `asyncio.run`."""
    with asyncio.Runner() as runner:
        return runner.run(main)
