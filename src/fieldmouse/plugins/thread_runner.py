"""Calls of plug-in functions beside an event loop, and the warnings about them.

Beside an event loop each call has its own thread and a time limit. A call that exceeds it gets an
exception raised in its thread and is not waited for; the thread ends with the process at the latest.
While too many calls have not returned, new ones fail at once.

A bug in a plug-in usually affects every page. The outcome of each page records it; the log shows only the
first few warnings of each kind.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import re
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from fieldmouse.plugins.runner import PluginError, PluginTimeout, call_untimed

T = TypeVar("T")

MAX_STUCK_CALLS = 8  # maximum number of calls that have not returned


class ThreadedCalls:
    """Calls of one plug-in."""

    def __init__(self, plugin: str, patience: float):
        self.plugin, self._patience = plugin, patience
        self._stuck: set[threading.Thread] = set()

    async def call(self, act: Callable[[], T]) -> T | PluginError:
        """Run `act` in a thread; return its result, or the error of the plug-in."""
        self._stuck = {thread for thread in self._stuck if thread.is_alive()}
        if len(self._stuck) >= MAX_STUCK_CALLS:
            return PluginError(
                self.plugin, f"was left out: {MAX_STUCK_CALLS} calls have not come back", timed_out=True
            )
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T | PluginError] = loop.create_future()

        def resolve(result: T | PluginError) -> None:
            if not answer.done():
                answer.set_result(result)

        def run() -> None:
            with suppress(PluginTimeout, RuntimeError):  # the caller gave up, or the loop is closed
                loop.call_soon_threadsafe(resolve, call_untimed(self.plugin, act))

        thread = threading.Thread(target=run, name=f"plug-in {self.plugin}", daemon=True)
        thread.start()
        try:
            async with asyncio.timeout(self._patience):
                return await answer
        except TimeoutError:
            self._stuck.add(thread)
            _stop(thread)
            return PluginError(self.plugin, f"took longer than {self._patience:g} s", timed_out=True)


def _stop(thread: threading.Thread) -> None:
    """Raise `PluginTimeout` in a thread at its next Python bytecode step."""
    if thread.ident is not None and thread.is_alive():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident), ctypes.py_object(PluginTimeout)
        )


log = logging.getLogger(__name__)

SHOWN_PER_KIND = 3  # of each kind
MAX_KINDS = 20
_KIND = re.compile(": |, on ")


class PluginWarnings:
    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def warn(self, complaint: str) -> None:
        kind = _KIND.split(complaint, 1)[0]
        if kind not in self._counts and len(self._counts) >= MAX_KINDS:
            return
        self._counts[kind] += 1
        if self._counts[kind] <= SHOWN_PER_KIND:
            log.warning("%s", complaint)
        if self._counts[kind] == SHOWN_PER_KIND:
            log.warning(
                "further warnings like this are not shown; `export --all` has one per page in `detail`"
            )
