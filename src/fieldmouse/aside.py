"""Work that nobody waits for: in a thread of its own, and tasks that are called off.

The threads that `asyncio.to_thread` uses are waited for when the loop ends, and again
when the process does. A crawl that was told to stop must not stand still until a rule
is found that nobody will follow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from concurrent.futures import Executor, Future
from threading import Thread
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Aside(Executor):
    """For `run_in_executor`: each piece of work has a thread of its own, which dies with the process."""

    def submit(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        answer: Future[T] = Future()

        def run() -> None:
            try:
                found = work(*args, **kwargs)
            except BaseException as mistake:  # whoever asked is told, whatever it is
                answer.set_exception(mistake)
            else:
                answer.set_result(found)

        answer.set_running_or_notify_cancel()
        Thread(target=run, name="aside", daemon=True).start()
        return answer


async def call_off(tasks: Collection[asyncio.Task[Any]], *, tries: int = 5, pause: float = 1.0) -> bool:
    """Cancel tasks until they have ended; False if some do not, which are left alone.

    Once may not do: up to Python 3.11 `asyncio.wait_for`, which clients of servers use, goes on as if
    nothing were when it is called off in the moment in which its answer comes.
    """
    left = {task for task in tasks if not task.done()}
    for _ in range(tries):
        if not left:
            break
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=pause)
    return not left
