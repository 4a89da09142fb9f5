"""One run of a crawl, from its last checkpoint to its end, in any event loop.

It changes nothing of the process: no signal handler, no choice of a loop, no garbage collection settings.
The command line does that for its own process; several runs can share one process in threads. Change
notifications are added only if `[notify]` names channels; otherwise their code is not loaded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from fieldmouse.clock import Clock, WallClock
from fieldmouse.config.sections import RefreshOrder
from fieldmouse.config.settings_file import Settings
from fieldmouse.crawler.builder import CrawlParts, OpenDurable, build
from fieldmouse.crawler.crawler import CombinedConsumer, PageConsumer, StatsListener
from fieldmouse.crawler.retry_failed import RetryFailed
from fieldmouse.errors import StoppedImmediately
from fieldmouse.storage.checkpoint import Checkpoint, Durable, read_checkpoint
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.types.stats import Summary
from fieldmouse.url import Url

if TYPE_CHECKING:
    from fieldmouse.crawler.builder import OpenDurable
    from fieldmouse.crawler.cluster import JoinRequest
    from fieldmouse.notify.dispatcher import Notifier


class RunNotifications:
    """The notifier of one run, if any. The directory is locked, so its last checkpoint is final."""

    def __init__(self, home: CrawlDir, settings: Settings, clock: Clock | None = None):
        self._notifier: Notifier | None = None
        if settings.notify.channels:
            from fieldmouse.notify.setup import build_notifier

            self._notifier = build_notifier(home, read_checkpoint(home), settings, clock or WallClock())

    @property
    def durables(self) -> Sequence[OpenDurable]:
        return [self._opened] if self._notifier is not None else []

    def _opened(self, home: CrawlDir, last: Checkpoint | None) -> Durable:
        assert self._notifier is not None
        return self._notifier

    def combine_consumers(self, other: PageConsumer | None) -> PageConsumer | None:
        """The page consumer combined with the notifier."""
        if self._notifier is None or other is None:
            return self._notifier or other
        return CombinedConsumer(other, self._notifier)

    async def add_to_summary(self, summary: Summary) -> Summary:
        """The summary with the number of undelivered notifications."""
        if self._notifier is None:
            return summary
        return msgspec.structs.replace(summary, untold=await self._notifier.waiting())


class CrawlRun:
    """One run of a crawl. The caller holds the lock of the directory.

    `on_open` is called in the loop once all stages are open; from then on `interrupt` and `stop_at_once`
    work. `listeners` get every reading. With `mercy`, failed hosts and URLs are tried again. `parts` are
    checkpointed with the crawl, and `audience` consumes its pages. `order` requests polls of known pages,
    whatever the settings say. With `joining` the run is an agent of a cluster.
    """

    def __init__(
        self,
        home: CrawlDir,
        settings: Settings,
        seeds: Sequence[Url],
        *,
        listeners: Sequence[StatsListener] = (),
        on_open: Callable[[CrawlRun], None] = lambda life: None,
        mercy: RetryFailed | None = None,
        parts: Sequence[OpenDurable] = (),
        audience: PageConsumer | None = None,
        order: RefreshOrder | None = None,
        joining: JoinRequest | None = None,
    ):
        self._home, self._settings, self._seeds = home, settings, seeds
        self._listeners, self._on_open, self._mercy = listeners, on_open, mercy
        self._parts, self._audience, self._order, self._joining = parts, audience, order, joining
        self._crew: CrawlParts | None = None
        self._hurried = asyncio.Event()

    def interrupt(self) -> str:
        """Stop at the request of the user; returns a sentence about the remaining work."""
        assert self._crew is not None
        return self._crew.crawler.interrupt()

    def stop_at_once(self) -> None:
        """Stop at once, which is as safe as a kill: `run` raises `StoppedImmediately`."""
        self._hurried.set()

    async def run(self) -> Summary:
        """Crawl until done, stopped by a limit, or interrupted."""
        notifying = RunNotifications(self._home, self._settings)
        self._crew = build(
            self._home,
            self._settings,
            self._listeners,
            parts=[*self._parts, *notifying.durables],
            audience=notifying.combine_consumers(self._audience),
            order=self._order,
            joining=self._joining,
        )
        crawl = asyncio.create_task(self._crawl(self._crew, notifying))
        hurry = asyncio.create_task(self._hurried.wait())
        self._on_open(self)
        await asyncio.wait({crawl, hurry}, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        if crawl.done():
            return crawl.result()
        self._crew.stages.indexing.indexer.kill()
        raise StoppedImmediately

    async def _crawl(self, crew: CrawlParts, notifying: RunNotifications) -> Summary:
        try:
            return await notifying.add_to_summary(await crew.crawler.crawl(self._seeds, mercy=self._mercy))
        finally:
            # After `hurry` nothing is closed: a thread may still be writing to the files.
            if not self._hurried.is_set():
                await crew.close()
