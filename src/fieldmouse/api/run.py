"""Execution of a plan, in the calling thread and a new event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from fieldmouse.api.planning import Plan
from fieldmouse.errors import StoppedImmediately, StorageError
from fieldmouse.types.stats import LiveStats, Summary

if TYPE_CHECKING:
    from fieldmouse.crawler.builder import OpenDurable
    from fieldmouse.crawler.cluster import JoinRequest
    from fieldmouse.crawler.crawler import PageConsumer
    from fieldmouse.crawler.retry_failed import RetryFailed
    from fieldmouse.crawler.run import CrawlRun


class LoopRunner(Protocol):
    """`asyncio.run`, or another function that runs one coroutine in a new event loop."""

    def __call__(self, main: Coroutine[Any, Any, Summary], /) -> Summary: ...


def run(
    plan: Plan,
    *,
    runner: LoopRunner = asyncio.run,
    on_reading: Callable[[LiveStats], None] | None = None,
    on_open: Callable[[CrawlRun], None] = lambda life: None,
    mercy: RetryFailed | None = None,
    parts: Sequence[OpenDurable] = (),
    audience: PageConsumer | None = None,
) -> Summary:
    """Crawl as planned until done, stopped by a limit, or interrupted.

    `on_open` is called in the loop when everything is open. Signal handlers and other state of the process
    are left to the caller.
    """
    from fieldmouse.crawler.run import CrawlRun  # imports the whole crawler

    home = plan.open()
    try:
        listeners = [on_reading] if on_reading else []
        make = partial(
            CrawlRun, home, plan.settings, plan.seeds, order=plan.refresh_order, joining=_joining(plan)
        )
        life = make(listeners=listeners, on_open=on_open, mercy=mercy, parts=parts, audience=audience)
        summary = runner(life.run())
    except StoppedImmediately:
        # Threads may still write: keep the lock until the process ends.
        raise
    except BaseException as mistake:
        home.unlock()
        if isinstance(mistake, OSError):
            raise StorageError(home.path, mistake) from mistake
        raise
    home.unlock()
    return summary


def _joining(plan: Plan) -> JoinRequest | None:
    if not plan.coordinators:
        return None
    from fieldmouse.cluster.client.connect import open_coordinator
    from fieldmouse.crawler.cluster import JoinRequest

    return JoinRequest(open_coordinator(plan.coordinators, plan.crawl), plan.crawl)
