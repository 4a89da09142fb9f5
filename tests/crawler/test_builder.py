"""Failed construction of a crawl leaves nothing open."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fieldmouse.clock import Clock
from fieldmouse.config.settings_file import Settings, render
from fieldmouse.crawler.builder import BuiltCrawl, build_crawl
from fieldmouse.errors import FieldmouseError
from fieldmouse.storage.checkpoint import Checkpoint, DurableLog
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.testing import virtual_time
from fieldmouse.testing.meadow.fetcher import MeadowFetcher
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.types.stats import LiveStats, Summary
from fieldmouse.url import Url
from fieldmouse.workers.inline_worker import InlineWorker

MEADOW = Meadow(MeadowOptions(hosts=2, pages=10, seed=3, page_kb=1.0, links=4))
SETTINGS = Settings().override(
    {
        "crawl.seeds": list(MEADOW.seeds),
        "storage.min_free": "0B",
        "politeness.delay": "1s",
        "network.allow_private": True,
        "control.mode": "auto",
        "frontier.record_decisions": "1MiB",
    }
)


def open_ledger(home: CrawlDir, last: Checkpoint | None) -> DurableLog:
    return DurableLog("ledger", home / "ledger.log", last)


def put_together(home: CrawlDir, clock: Clock, listeners: list[Callable[[LiveStats], None]]) -> BuiltCrawl:
    fetcher = MeadowFetcher(MEADOW, clock)
    return build_crawl(home, SETTINGS, listeners, clock=clock, fetcher=fetcher, lane=InlineWorker, parts=[open_ledger])


def crawl(home: CrawlDir, listeners: list[Callable[[LiveStats], None]]) -> Summary:
    async def life(clock: Clock) -> Summary:
        crew = put_together(home, clock, listeners)
        try:
            return await crew.crawler.crawl([Url(seed) for seed in MEADOW.seeds])
        finally:
            await crew.close()

    return virtual_time.run_in_virtual_time(life)


@pytest.fixture
def home(tmp_path: Path) -> CrawlDir:
    """A finished crawl."""
    home = CrawlDir.create(tmp_path / "c", shards=1, settings=render(SETTINGS).encode())
    crawl(home, [])
    return CrawlDir.open(home.path)


def open_files() -> set[tuple[str, str]]:
    """Every descriptor of this process, with its target."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add((name, os.readlink(f"/proc/self/fd/{name}")))
        except FileNotFoundError:
            continue  # the descriptor of the listing itself
    return found


def test_a_failed_open_closes_everything_opened_before(home: CrawlDir, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system refuses the n-th file, for each n until all can be opened."""
    real = os.open

    async def life(clock: Clock) -> list[int]:
        refusals = []
        for allowed in itertools.count():
            before, left = open_files(), allowed

            def refuse(*args: object, **given: object) -> int:
                nonlocal left
                left -= 1
                if left < 0:
                    raise OSError(errno.EMFILE, "no more files")
                return real(*args, **given)  # type: ignore[arg-type]

            monkeypatch.setattr(os, "open", refuse)
            try:
                crew = put_together(home, clock, [])
            except (OSError, FieldmouseError):
                refusals.append(allowed)
                crew = None
            finally:
                monkeypatch.undo()
            if crew is not None:
                await crew.close()
            assert open_files() == before, f"left open when file {allowed} was refused"
            if left >= 0:
                return refusals
        raise AssertionError

    refusals = virtual_time.run_in_virtual_time(life)
    assert len(refusals) >= 5, "frontier, outcomes and ledger were each refused in turn"


def test_a_failure_of_the_last_stage_leaves_nothing_open_or_locked(home: CrawlDir) -> None:
    def fail(home: CrawlDir, last: Checkpoint | None) -> DurableLog:
        raise OSError(errno.EIO, "the last of them")

    async def life(clock: Clock) -> None:
        before = open_files()
        with pytest.raises(OSError, match="the last of them"):
            build_crawl(home, SETTINGS, clock=clock, lane=InlineWorker, parts=[open_ledger, fail])
        assert open_files() == before

    virtual_time.run_in_virtual_time(life)
    home.lock()
    home.unlock()


def test_every_listener_gets_every_reading(tmp_path: Path) -> None:
    home = CrawlDir.create(tmp_path / "c", shards=1, settings=render(SETTINGS).encode())
    heard: list[list[LiveStats]] = [[], [], []]
    crawl(home, [ear.append for ear in heard])
    assert len(heard[0]) > 1
    assert heard[0] == heard[1] == heard[2]
