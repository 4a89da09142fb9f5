"""A crawl, put together from its settings and run to its end.

`crawl` is the one door: it opens the stages at the last checkpoint, wires them
(`agent.py`), listens for signals, and returns a `Summary`.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from collections.abc import Callable, Sequence

import uvloop

from fieldmouse.agent.agent import Agent
from fieldmouse.agent.build import build
from fieldmouse.agent.checkpoint import Checkpoint, read_checkpoint
from fieldmouse.crawldir import CrawlDir
from fieldmouse.records import Reading, Summary
from fieldmouse.settings import Settings
from fieldmouse.url import Url, parse

__all__ = ["Agent", "Checkpoint", "crawl", "read_checkpoint"]

log = logging.getLogger(__name__)


def crawl(
    home: CrawlDir,
    settings: Settings,
    seeds: Sequence[Url],
    *,
    on_reading: Callable[[Reading], None] | None = None,
) -> Summary:
    """Crawl in `home` until done, stopped by a limit, or interrupted; a resume brings no seeds."""
    home.lock()
    try:
        if not seeds and read_checkpoint(home) is None:
            # Killed before anything was durable: the settings still know where to begin.
            seeds = [url for url in map(parse, settings.crawl.seeds) if url is not None]
        return uvloop.run(_live(home, settings, seeds, on_reading or (lambda reading: None)))
    finally:
        home.unlock()


async def _live(
    home: CrawlDir, settings: Settings, seeds: Sequence[Url], on_reading: Callable[[Reading], None]
) -> Summary:
    crew = build(home, settings, on_reading)
    # Pages leave few cycles behind, and what is loaded by now stays: looking through it all is a waste.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _interrupted, crew.agent, number)
    try:
        return await crew.agent.crawl(seeds)
    finally:
        await crew.close()


def _interrupted(agent: Agent, number: int) -> None:
    agent.stop("signal")
    # A second one means now; the crawl is safe to resume either way.
    asyncio.get_running_loop().remove_signal_handler(number)
    signal.signal(number, signal.SIG_DFL)
