"""Guarded calls of plug-in functions in threads, so that they do not block the event loop.

Each call has its own thread and a time limit. A call that exceeds it gets an exception
raised in its thread and is not waited for; the thread ends with the process at the latest.
While too many calls have not returned, new ones fail at once.
"""

from __future__ import annotations

import asyncio
import ctypes
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from fieldmouse.plugins.call import Complaint, TooLong, tried

T = TypeVar("T")

STUCK = 8  # maximum number of calls that have not returned


class Threads:
    """Calls of one plug-in."""

    def __init__(self, plugin: str, patience: float):
        self.plugin, self._patience = plugin, patience
        self._stuck: set[threading.Thread] = set()

    async def call(self, act: Callable[[], T]) -> T | Complaint:
        """Run `act` in a thread; return its result, or the error of the plug-in."""
        self._stuck = {thread for thread in self._stuck if thread.is_alive()}
        if len(self._stuck) >= STUCK:
            return Complaint(self.plugin, f"was left out: {STUCK} calls have not come back", late=True)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T | Complaint] = loop.create_future()

        def resolve(result: T | Complaint) -> None:
            if not answer.done():
                answer.set_result(result)

        def run() -> None:
            with suppress(TooLong, RuntimeError):  # the caller gave up, or the loop is closed
                loop.call_soon_threadsafe(resolve, tried(self.plugin, act))

        thread = threading.Thread(target=run, name=f"plug-in {self.plugin}", daemon=True)
        thread.start()
        try:
            async with asyncio.timeout(self._patience):
                return await answer
        except TimeoutError:
            self._stuck.add(thread)
            _stop(thread)
            return Complaint(self.plugin, f"took longer than {self._patience:g} s", late=True)


def _stop(thread: threading.Thread) -> None:
    """Raise `TooLong` in a thread at its next Python bytecode step."""
    if thread.ident is not None and thread.is_alive():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(TooLong))
