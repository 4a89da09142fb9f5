"""Long computations that Ctrl-C can interrupt.

A compiled kernel does not react to signals. So it runs in a daemon thread, and the main thread, which can be
interrupted, waits for it. (`aside` does the same for an event loop, but takes longer to import than most of
these computations run.)
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def interruptible(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` in a daemon thread and return or raise its result.

    >>> interruptible(divmod, 7, 3)
    (2, 1)
    """
    future: Future[T] = Future()

    def compute() -> None:
        try:
            future.set_result(work(*args, **kwargs))
        except BaseException as trouble:  # raised in the waiting thread
            future.set_exception(trouble)

    Thread(target=compute, daemon=True).start()
    return future.result()
