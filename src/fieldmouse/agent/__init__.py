"""A crawl, put together from its settings and run to its end.

`crawl` is the one door: it opens the stages at the last checkpoint, wires them
(`agent.py`), listens for signals, and returns a `Summary`.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Sequence

import uvloop

from fieldmouse.agent.agent import Agent
from fieldmouse.agent.build import Crew, build
from fieldmouse.agent.checkpoint import Checkpoint, read_checkpoint
from fieldmouse.agent.forgiveness import Forgiven, Mercy
from fieldmouse.agent.signals import Signals
from fieldmouse.crawldir import CrawlDir
from fieldmouse.errors import StoppedAtOnce, StorageError
from fieldmouse.records import Reading, Summary
from fieldmouse.settings import Settings
from fieldmouse.url import Url, parse

__all__ = ["Agent", "Checkpoint", "Forgiven", "Mercy", "Signals", "crawl", "read_checkpoint"]

log = logging.getLogger(__name__)


def crawl(
    home: CrawlDir,
    settings: Settings,
    seeds: Sequence[Url],
    *,
    on_reading: Callable[[Reading], None] | None = None,
    signals: Signals | None = None,
    mercy: Mercy | None = None,
) -> Summary:
    """Crawl in `home` until done, stopped by a limit, or interrupted; a resume brings no seeds.

    `signals` are those that the caller listens to already; without them we listen ourselves. With
    `mercy` hosts that were given up get another chance.
    """
    if signals is None:
        with Signals() as signals:
            return crawl(home, settings, seeds, on_reading=on_reading, signals=signals, mercy=mercy)
    home.lock()
    try:
        if not seeds and read_checkpoint(home) is None:
            # Killed before anything was durable: the settings still know where to begin.
            seeds = [url for url in map(parse, settings.crawl.seeds) if url is not None]
        tell = on_reading or (lambda reading: None)
        summary = uvloop.run(_live(home, settings, seeds, tell, signals, mercy))
    except StoppedAtOnce:
        # Threads may still write: the lock is theirs, too, until the process ends.
        raise
    except BaseException as mistake:
        home.unlock()
        if isinstance(mistake, OSError):
            raise StorageError(home.path, mistake) from mistake
        raise
    finally:
        signals.ended()
    home.unlock()
    return summary


async def _live(
    home: CrawlDir,
    settings: Settings,
    seeds: Sequence[Url],
    on_reading: Callable[[Reading], None],
    signals: Signals,
    mercy: Mercy | None,
) -> Summary:
    crew = build(home, settings, on_reading)
    # Pages leave few cycles behind, and what is loaded by now stays: looking through it all is a waste.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    loop = asyncio.get_running_loop()
    hurried = asyncio.Event()
    life = loop.create_task(_life(crew, seeds, hurried, mercy))
    haste = loop.create_task(hurried.wait())
    signals.obey(loop.call_soon_threadsafe, crew.agent.interrupt, hurried.set)
    await asyncio.wait({life, haste}, return_when=asyncio.FIRST_COMPLETED)
    haste.cancel()
    if life.done():
        return life.result()
    crew.indexer.abandon()
    raise StoppedAtOnce


async def _life(
    crew: Crew,
    seeds: Sequence[Url],
    hurried: asyncio.Event,
    mercy: Mercy | None,
) -> Summary:
    try:
        return await crew.agent.crawl(seeds, mercy=mercy)
    finally:
        # In haste nothing is put away: a thread may still be writing to what we would close.
        if not hurried.is_set():
            await crew.close()
