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

from fieldmouse.clock import WallClock
from fieldmouse.config.sections import RefreshRunMode
from fieldmouse.config.settings_file import Settings
from fieldmouse.crawler.builder import BuiltCrawl, OpenDurable, build_crawl
from fieldmouse.crawler.crawler import CombinedConsumerStatus, ConsumerBackpressure, StatsListener
from fieldmouse.crawler.retry_failed import RetryFailed
from fieldmouse.errors import StoppedImmediately
from fieldmouse.storage.checkpoint import Durable, read_checkpoint
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.types.stats import Summary
from fieldmouse.url import Url

if TYPE_CHECKING:
    from fieldmouse.crawler.cluster_agent import CrawlToJoin
    from fieldmouse.notify.dispatcher import Notifier


class CrawlRun:
    """One run of a crawl. The caller holds the lock of the directory.

    `on_open` is called in the loop once all stages are open; from then on `interrupt` and `stop_at_once`
    work. `listeners` get every reading. With `retry_failed`, failed hosts and URLs are tried again. `parts` are
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
        retry_failed: RetryFailed | None = None,
        parts: Sequence[OpenDurable] = (),
        audience: ConsumerBackpressure | None = None,
        order: RefreshRunMode | None = None,
        joining: CrawlToJoin | None = None,
    ):
        self._home, self._settings, self._seeds = home, settings, seeds
        self._listeners, self._on_open, self._retry_failed = listeners, on_open, retry_failed
        self._parts, self._audience, self._order, self._joining = parts, audience, order, joining
        self._crawl_parts: BuiltCrawl | None = None
        self._hurried = asyncio.Event()

    def interrupt(self) -> str:
        """Stop at the request of the user; returns a sentence about the remaining work."""
        assert self._crawl_parts is not None
        return self._crawl_parts.crawler.stop_by_user()

    def stop_at_once(self) -> None:
        """Stop at once, which is as safe as a kill: `run` raises `StoppedImmediately`."""
        self._hurried.set()

    async def run(self) -> Summary:
        """Crawl until done, stopped by a limit, or interrupted."""
        parts, consumers, notifier = list(self._parts), [self._audience] if self._audience else [], None
        if self._settings.notify.channel_names:
            from fieldmouse.notify.setup import build_notifier

            # The directory is locked, so its last checkpoint is final.
            notifier = build_notifier(self._home, read_checkpoint(self._home), self._settings, WallClock())
            parts.append(_already_open(notifier))
            consumers.append(notifier)
        self._crawl_parts = build_crawl(
            self._home,
            self._settings,
            self._listeners,
            parts=parts,
            audience=CombinedConsumerStatus(*consumers) if consumers else None,
            order=self._order,
            joining=self._joining,
        )
        crawl = asyncio.create_task(self._crawl(self._crawl_parts, notifier))
        hurry = asyncio.create_task(self._hurried.wait())
        self._on_open(self)
        await asyncio.wait({crawl, hurry}, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        if crawl.done():
            return crawl.result()
        self._crawl_parts.stages.indexing.indexer.kill()
        raise StoppedImmediately

    async def _crawl(self, crawl_parts: BuiltCrawl, notifier: Notifier | None) -> Summary:
        try:
            summary = await crawl_parts.crawler.crawl(self._seeds, retry_failed=self._retry_failed)
            if notifier is not None:
                summary = msgspec.structs.replace(summary, untold=await notifier.undelivered_counts())
            return summary
        finally:
            # After `hurry` nothing is closed: a thread may still be writing to the files.
            if not self._hurried.is_set():
                await crawl_parts.close()


def _already_open(part: Durable) -> OpenDurable:
    return lambda home, last: part
