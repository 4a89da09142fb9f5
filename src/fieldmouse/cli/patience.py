"""Long computing that Ctrl-C can end.

A compiled kernel hears nothing until it is done. So it works in a thread that dies
with us, and we, who can be interrupted, wait for it. (`aside` does the same for
an event loop; importing the agent would take as long as most of what is computed here.)
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def interruptible(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `work` returns or raises.

    >>> interruptible(divmod, 7, 3)
    (2, 1)
    """
    answer: Future[T] = Future()

    def compute() -> None:
        try:
            answer.set_result(work(*args, **kwargs))
        except BaseException as trouble:  # told to whoever waits
            answer.set_exception(trouble)

    Thread(target=compute, daemon=True).start()
    return answer.result()
