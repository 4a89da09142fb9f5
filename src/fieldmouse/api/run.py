"""Execution of a plan, in the calling thread and a new event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from fieldmouse.api.planning import Plan
from fieldmouse.errors import StoppedAtOnce, StorageError
from fieldmouse.types.stats import Reading, Summary

if TYPE_CHECKING:
    from fieldmouse.crawler.builder import OpenPart
    from fieldmouse.crawler.cluster import Joining
    from fieldmouse.crawler.crawler import Audience
    from fieldmouse.crawler.retry_failed import Mercy
    from fieldmouse.crawler.run import Life


class LoopRunner(Protocol):
    """`asyncio.run`, or another function that runs one coroutine in a new event loop."""

    def __call__(self, main: Coroutine[Any, Any, Summary], /) -> Summary: ...


def run(
    plan: Plan,
    *,
    runner: LoopRunner = asyncio.run,
    on_reading: Callable[[Reading], None] | None = None,
    on_open: Callable[[Life], None] = lambda life: None,
    mercy: Mercy | None = None,
    parts: Sequence[OpenPart] = (),
    audience: Audience | None = None,
) -> Summary:
    """Crawl as planned until done, stopped by a limit, or interrupted.

    `on_open` is called in the loop when everything is open. Signal handlers and other state of the process
    are left to the caller.
    """
    from fieldmouse.crawler.run import Life  # imports the whole crawler

    home = plan.open()
    try:
        listeners = [on_reading] if on_reading else []
        make = partial(Life, home, plan.settings, plan.seeds, order=plan.order, joining=_joining(plan))
        life = make(listeners=listeners, on_open=on_open, mercy=mercy, parts=parts, audience=audience)
        summary = runner(life.run())
    except StoppedAtOnce:
        # Threads may still write: keep the lock until the process ends.
        raise
    except BaseException as mistake:
        home.unlock()
        if isinstance(mistake, OSError):
            raise StorageError(home.path, mistake) from mistake
        raise
    home.unlock()
    return summary


def _joining(plan: Plan) -> Joining | None:
    if not plan.boards:
        return None
    from fieldmouse.cluster.client.connect import open_board
    from fieldmouse.crawler.cluster import Joining

    return Joining(open_board(plan.boards, plan.crawl), plan.crawl)
