"""Reading beside a crawl that runs, is killed and resumed: pages seen once stay."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fieldmouse.errors import NotACrawl
from fieldmouse.reader.crawl_reader import CrawlReader, MultiCrawlReader
from fieldmouse.reader.status import CrawlState
from fieldmouse.storage.directory import CrawlDir
from meadowland import RunningMeadow, running_meadow
from whole.crawling import end, run, start

ENOUGH = 120.0  # seconds until a test gives up, on the slowest machine


@pytest.fixture(scope="module")
def meadow() -> Iterator[RunningMeadow]:
    with running_meadow(hosts=20, pages=300, seed=11, page_kb=2.0, links=12) as running:
        yield running


def until(happened: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    """Wait until a condition holds; the crawl must not end before."""
    deadline = time.monotonic() + ENOUGH
    while not happened():
        assert process.poll() is None, "the crawl ended too soon"
        assert time.monotonic() < deadline
        time.sleep(0.05)


def has_pages(home: Path, count: int) -> Callable[[], bool]:
    def looked() -> bool:
        try:
            return CrawlReader(home).status().pages >= count
        except NotACrawl:
            return False

    return looked


def test_pages_seen_by_a_reader_exist_after_a_kill_and_at_the_end(
    meadow: RunningMeadow, small_crawl: Path, tmp_path: Path
) -> None:
    home = tmp_path / "c"
    seeds = [word for seed in meadow.seeds for word in ("--seed", seed)]
    names = [word for name in meadow.resolve for word in ("--set", f"network.resolve={name}")]
    crawl = start(
        "crawl",
        home,
        *seeds,
        "--allow-private",
        "--delay",
        "800ms",  # its largest host alone takes a minute, so the crawl still runs when we look
        "--set",
        "storage.checkpoint=200ms",
        *names,
    )
    try:
        until(has_pages(home, 20), crawl)
        room = CrawlReader(home)
        beside = len(list(CrawlReader(small_crawl).pages()))
        both = MultiCrawlReader([small_crawl, home])
        looks = []
        for count in (40, 80):
            until(has_pages(home, count), crawl)
            looks.append([(page.url, end) for page, end in room.pages_from_offset(0)])
            newest = room.page(looks[-1][-1][0])
            assert newest is not None
            assert len(newest.body) == newest.size
            assert room.explain(newest.url).place == "done"
            assert room.explain(newest.url + "-nowhere").place == "never seen"
            assert len({page.url for page in room.pages()}) >= count
            assert all(finding.healthy for finding in room.doctor())
            assert room.search(newest.title)
            assert len({page.url for page in both.pages()}) >= count + beside
            assert {hit.directory for hit in both.search(newest.title)} == {home}
            assert {hit.directory for hit in both.search("hedgerow0")} == {small_crawl}
            assert both.explain(newest.url).directory == str(home)
            status = room.status()
            assert (status.standing, status.process) == (CrawlState.CRAWLING, crawl.pid)
        first, second = looks
        assert second[: len(first)] == first
        assert len(second) > len(first)
        held = room.pinned()
        before = [page.url for page in held.pages()]
        os.killpg(crawl.pid, signal.SIGKILL)
        crawl.wait()
    finally:
        end(crawl)
    assert room.status().standing is CrawlState.KILLED
    run("resume", home, "--delay", "0s")
    after = [(page.url, end) for page, end in room.pages_from_offset(0)]
    assert after[: len(second)] == second
    assert [page.url for page in held.pages()] == before, "time stands still there"
    assert {url for url, _ in after} == meadow.pages()
    assert room.status().standing is CrawlState.DONE
    assert len(list(room.live_stats())) >= 2


def test_reading_takes_no_lock_and_changes_nothing(small_crawl: Path) -> None:
    def everything() -> dict[str, tuple[int, int]]:
        files = (path for path in small_crawl.rglob("*") if path.is_file())
        return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in files}

    before = everything()
    home = CrawlDir.open(small_crawl)
    home.lock()
    try:
        room = CrawlReader(small_crawl)
        for page in room.pages():
            assert len(page.body) == page.size
            assert page.text is not None
        assert room.search("mouse")
        assert room.status().process == os.getpid()
        assert room.explain(next(room.pages()).url).outcomes
    finally:
        home.unlock(as_found=True)
    changed = {name for name, told in everything().items() if before.get(name) != told}
    assert {Path(name).name for name in changed} <= {"lock", ".tantivy-meta.lock"}
