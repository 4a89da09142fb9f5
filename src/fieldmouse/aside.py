"""A function run in a thread of its own, for which neither the loop nor the process waits when it ends.

The threads that `asyncio.to_thread` uses are waited for when the loop ends, and again
when the process does. A crawl that was told to stop must not stand still until a rule
is found that nobody will follow.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from threading import Thread
from typing import ParamSpec, TypeVar

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
