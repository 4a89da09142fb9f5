"""Whole crawls in virtual time: all stages are real except the network and the worker processes."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from fieldmouse.clock import Clock
from fieldmouse.config.sections import RefreshRunMode
from fieldmouse.config.settings_file import Settings, render
from fieldmouse.crawler.builder import build_crawl
from fieldmouse.crawler.retry_failed import RetryCounts, RetryFailed
from fieldmouse.http.client import Fetcher
from fieldmouse.http.dns import DnsBackend
from fieldmouse.storage.checkpoint import read_checkpoint, sealed_outcome_bytes
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.outcome_log_reader import outcome_rows
from fieldmouse.testing import virtual_time
from fieldmouse.types.outcome import OutcomeRow
from fieldmouse.types.stats import Summary
from fieldmouse.url import Url
from fieldmouse.workers.inline_worker import InlineWorker

F = TypeVar("F", bound=Fetcher)

CALM = {"storage.checkpoint": "10m", "storage.min_free": "0B"}
"""Frequent checkpoints would only cost test time: the disk is real."""


def bottled_crawl(
    path: Path,
    web: Callable[[Clock], F],
    seeds: Sequence[str],
    *,
    epoch: float = virtual_time.EPOCH,
    lane: type[InlineWorker] = InlineWorker,
    dns: Callable[[Clock], DnsBackend] | None = None,
    on_retried: Callable[[RetryCounts], None] | None = None,
    order: RefreshRunMode | None = None,
    **changes: object,
) -> tuple[Summary, F]:
    """Crawl from `seeds`, or resume the crawl in `path`; settings as `section__key=value`."""
    summary, fetcher = _live(path, web, seeds, epoch, lane, None, dns, on_retried, order, changes)
    assert summary is not None
    return summary, fetcher


def bottled_kill(
    path: Path,
    web: Callable[[Clock], F],
    seeds: Sequence[str],
    *,
    after: float,
    epoch: float = virtual_time.EPOCH,
    lane: type[InlineWorker] = InlineWorker,
    dns: Callable[[Clock], DnsBackend] | None = None,
    on_retried: Callable[[RetryCounts], None] | None = None,
    order: RefreshRunMode | None = None,
    **changes: object,
) -> tuple[Summary | None, F]:
    """As `bottled_crawl`, but everything stops dead `after` that number of seconds, unless done before.

    Then there is no last checkpoint and no summary.
    """
    return _live(path, web, seeds, epoch, lane, after, dns, on_retried, order, changes)


def _live(
    path: Path,
    web: Callable[[Clock], F],
    seeds: Sequence[str],
    epoch: float,
    lane: type[InlineWorker],
    after: float | None,
    dns: Callable[[Clock], DnsBackend] | None,
    on_retried: Callable[[RetryCounts], None] | None,
    order: RefreshRunMode | None,
    changes: dict[str, object],
) -> tuple[Summary | None, F]:
    dotted = {name.replace("__", "."): value for name, value in changes.items()}
    settings = Settings().override({"crawl.seeds": list(seeds), **CALM, **dotted})
    resumed = (path / "crawl.json").exists()
    if resumed:
        gc.collect()  # drops the index writer of a crawl that was killed here, whose threads still write files
    home = CrawlDir.open(path) if resumed else CrawlDir.create(path, shards=1, settings=render(settings).encode())

    async def life(clock: Clock) -> tuple[Summary | None, F]:
        fetcher = web(clock)
        crew = build_crawl(
            home, settings, clock=clock, fetcher=fetcher, lane=lane, dns=dns(clock) if dns else None, order=order
        )
        began = resumed and read_checkpoint(home) is not None
        begin_at = [] if began else [Url(seed) for seed in seeds]
        private = settings.network.allow_private
        retry_failed = RetryFailed(on_retried, private=private) if on_retried else None
        crawling = asyncio.ensure_future(crew.crawler.crawl(begin_at, retry_failed=retry_failed))
        try:
            await asyncio.wait({crawling}, timeout=after)
            # If it is not done, no task gets another turn: their state is lost.
            return crawling.result() if crawling.done() else None, fetcher
        finally:
            await crew.close()

    return virtual_time.run_in_virtual_time(life, epoch=epoch)


def outcomes(path: Path) -> list[OutcomeRow]:
    home = CrawlDir.open(path)
    last = read_checkpoint(home)
    assert last is not None
    return list(outcome_rows(home, length=sealed_outcome_bytes(last)))
