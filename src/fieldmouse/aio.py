"""Helpers for asyncio: a daemon-thread executor, cancellation that waits, and a wake-up signal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from concurrent.futures import Executor, Future
from threading import Thread
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class DaemonExecutor(Executor):
    """Executor for `run_in_executor` that runs each call in a new daemon thread."""

    def submit(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()

        def run() -> None:
            try:
                result = work(*args, **kwargs)
            except BaseException as error:  # the caller gets every exception, whatever it is
                future.set_exception(error)
            else:
                future.set_result(result)

        future.set_running_or_notify_cancel()
        Thread(target=run, name="daemon-executor", daemon=True).start()
        return future


async def cancel_and_wait(tasks: Collection[asyncio.Task[Any]], *, tries: int = 5, pause: float = 1.0) -> bool:
    """Cancel tasks until they have ended; False if some do not end, which are running alone.

    One `cancel` may not be enough: up to Python 3.11 `asyncio.wait_for`, which server clients use,
    swallows the cancellation if the result arrives at the same time.
    """
    running = {task for task in tasks if not task.done()}
    for _ in range(tries):
        if not running:
            break
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=pause)
    return not running


class WakeUpCallbacks:
    """Rung by parts that need not know the fetch pool; heard by the fetch pool."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[], None]] = []

    def add_listener(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def fire(self) -> None:
        for listener in self._listeners:
            listener()
