"""One run of a crawl, from its last checkpoint to its end, in any event loop.

It changes nothing of the process: no signal handler, no choice of a loop, no garbage collection settings. The
command line does that for its own process; several runs can share one process in threads. Change notifications
are added only if `[notify]` names channels; otherwise their code is not loaded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from fieldmouse.clock import Clock, WallClock
from fieldmouse.config.sections import Order
from fieldmouse.config.settings_file import Settings
from fieldmouse.crawler.builder import Crew, OpenPart, build
from fieldmouse.crawler.crawler import Audience, Listener, Together
from fieldmouse.crawler.retry_failed import Mercy
from fieldmouse.errors import StoppedAtOnce
from fieldmouse.storage.checkpoint import Checkpoint, Part, read_checkpoint
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.types.stats import Summary
from fieldmouse.url import Url

if TYPE_CHECKING:
    from fieldmouse.crawler.builder import OpenPart
    from fieldmouse.crawler.cluster import Joining
    from fieldmouse.notify.dispatcher import Notifier


class Notifying:
    """The notifier of one run, if any. The directory is locked, so its last checkpoint is final."""

    def __init__(self, home: CrawlDir, settings: Settings, clock: Clock | None = None):
        self._notifier: Notifier | None = None
        if settings.notify.channels:
            from fieldmouse.notify.setup import notifier_of

            self._notifier = notifier_of(home, read_checkpoint(home), settings, clock or WallClock())

    @property
    def parts(self) -> Sequence[OpenPart]:
        return [self._opened] if self._notifier is not None else []

    def _opened(self, home: CrawlDir, last: Checkpoint | None) -> Part:
        assert self._notifier is not None
        return self._notifier

    def audience_with(self, other: Audience | None) -> Audience | None:
        """The page consumer combined with the notifier."""
        if self._notifier is None or other is None:
            return self._notifier or other
        return Together(other, self._notifier)

    async def summed_up(self, summary: Summary) -> Summary:
        """The summary with the number of undelivered notifications."""
        if self._notifier is None:
            return summary
        return msgspec.structs.replace(summary, untold=await self._notifier.waiting())


class Life:
    """One run of a crawl. The caller holds the lock of the directory.

    `on_open` is called in the loop once all stages are open; from then on `interrupt` and `hurry` work.
    `listeners` get every reading. With `mercy`, failed hosts and URLs are tried again. `parts` are
    checkpointed with the crawl, and `audience` consumes its pages. `order` requests polls of known pages,
    whatever the settings say. With `joining` the run is an agent of a cluster.
    """

    def __init__(
        self,
        home: CrawlDir,
        settings: Settings,
        seeds: Sequence[Url],
        *,
        listeners: Sequence[Listener] = (),
        on_open: Callable[[Life], None] = lambda life: None,
        mercy: Mercy | None = None,
        parts: Sequence[OpenPart] = (),
        audience: Audience | None = None,
        order: Order | None = None,
        joining: Joining | None = None,
    ):
        self._home, self._settings, self._seeds = home, settings, seeds
        self._listeners, self._on_open, self._mercy = listeners, on_open, mercy
        self._parts, self._audience, self._order, self._joining = parts, audience, order, joining
        self._crew: Crew | None = None
        self._hurried = asyncio.Event()

    def interrupt(self) -> str:
        """Stop at the request of the user; returns a sentence about the remaining work."""
        assert self._crew is not None
        return self._crew.agent.interrupt()

    def hurry(self) -> None:
        """Stop at once, which is as safe as a kill: `run` raises `StoppedAtOnce`."""
        self._hurried.set()

    async def run(self) -> Summary:
        """Crawl until done, stopped by a limit, or interrupted."""
        notifying = Notifying(self._home, self._settings)
        self._crew = build(
            self._home,
            self._settings,
            self._listeners,
            parts=[*self._parts, *notifying.parts],
            audience=notifying.audience_with(self._audience),
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
        self._crew.stages.intake.indexer.abandon()
        raise StoppedAtOnce

    async def _crawl(self, crew: Crew, notifying: Notifying) -> Summary:
        try:
            return await notifying.summed_up(await crew.agent.crawl(self._seeds, mercy=self._mercy))
        finally:
            # After `hurry` nothing is closed: a thread may still be writing to the files.
            if not self._hurried.is_set():
                await crew.close()
