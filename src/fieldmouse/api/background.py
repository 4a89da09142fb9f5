"""A crawl in a thread of its own, with an event loop of its own.

So it does not matter whether its owner has a loop that runs, is a thread himself, or
blocks for an hour: the crawl stays polite and alive. The thread is a daemon: a program
that ends without having stopped its crawl ends it as a kill does, which loses nothing.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fieldmouse.api.hatch import Delivery, Hatch
from fieldmouse.api.plan import Plan
from fieldmouse.api.run import run
from fieldmouse.errors import FieldmouseError
from fieldmouse.records import Summary

if TYPE_CHECKING:
    from fieldmouse.agent import Life


class Background:
    """One run, which begins when this is made. `hatch` is where its pages come out."""

    def __init__(self, plan: Plan, hatch: Hatch):
        self._plan, self._hatch = plan, hatch
        self._stopping = threading.RLock()  # garbage may be collected, and a loop be dropped, anywhere
        self._asked = False
        self._interrupt: Callable[[], None] = _nothing
        self._summary: Summary | None = None
        self._mistake: BaseException | None = None
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._crawl, name=f"crawl {plan.directory.name}", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether there is something to stop; in a fork of the process that began it there is not."""
        return not self._hatch.over and self._process == os.getpid()

    @property
    def stopping(self) -> bool:
        """Whether it was asked to stop and has not yet."""
        return self._asked and self.running

    @property
    def mistake(self) -> BaseException | None:
        """What ended it, if it did not end well."""
        return self._mistake

    @property
    def summary(self) -> Summary:
        """How it ended; raises what ended it."""
        if self._mistake is not None:
            raise self._mistake
        if self._summary is None:
            raise FieldmouseError(
                f"the crawl in `{self._plan.directory}` has not ended",
                "go through its pages to the end, leave the loop, or `close` it",
            )
        return self._summary

    def wait(self) -> None:
        """Wait for its end, which may be asked for by `stop`."""
        # A loop in a cycle of garbage may be dropped by the crawl's own thread, which cannot wait for itself.
        if self.running and threading.current_thread() is not self._thread:
            self._hatch.wait_for_end()
            self._thread.join()

    async def wait_in_loop(self) -> None:
        """The same, while other things in the loop go on."""
        over = asyncio.Event()
        self._hatch.listen(calling(asyncio.get_running_loop(), over.set))
        while self.running:
            over.clear()
            if self.running:
                await over.wait()

    def stop(self) -> None:
        """Ask it to come to an orderly end, and do not wait for that. May be asked twice."""
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
            self._summary = run(
                self._plan, runner=_in_a_loop, on_open=self._opened, audience=self._hatch,
                parts=[lambda home, last: Delivery(home, last, self._hatch)],
            )  # fmt: skip
        except BaseException as mistake:  # whoever takes the pages is told, whatever it is
            self._mistake = mistake
        finally:
            with self._stopping:
                self._interrupt = _nothing
            self._hatch.close()


def _nothing() -> None:
    pass


def calling(loop: asyncio.AbstractEventLoop, what: Callable[[], object]) -> Callable[[], None]:
    """What calls something in a loop from another thread, as long as there is that loop."""

    def call() -> None:
        with suppress(RuntimeError):  # it was closed
            loop.call_soon_threadsafe(what)

    return call


def _in_a_loop(main: Coroutine[Any, Any, Summary]) -> Summary:
    """In a loop as the process makes them, whatever others have done to `asyncio.run`."""
    with asyncio.Runner() as runner:
        return runner.run(main)
