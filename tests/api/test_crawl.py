"""`fieldmouse.Crawl` within a process: in a loop, a running event loop, in threads, and its errors."""

from __future__ import annotations

import ast
import asyncio
import gc
import logging
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

import fieldmouse
from fieldmouse.api import background_run
from fieldmouse.errors import CrawlLocked, UsageError
from fieldmouse.frontier.durable_parts import frontier_state_of
from fieldmouse.storage.checkpoint import read_checkpoint, sealed_counters, sealed_outcome_bytes
from fieldmouse.storage.directory import CrawlDir
from meadowland import RunningMeadow, running_meadow
from whole.crawling import run

SETTINGS = {"storage.checkpoint": "100ms", "index.shards": 1}


@pytest.fixture(scope="module")
def meadow() -> Iterator[RunningMeadow]:
    with running_meadow(hosts=5, pages=60, seed=3, page_kb=4, latency=0.005) as running:
        yield running


@pytest.fixture(scope="module")
def wide() -> Iterator[RunningMeadow]:
    with running_meadow(hosts=12, pages=600, seed=4, page_kb=2, links=30, latency=0.03) as running:
        yield running


def crawl_of(meadow: RunningMeadow, home: Path, **more: Any) -> fieldmouse.Crawl:
    asked: dict[str, Any] = {"seeds": meadow.seeds, "delay": 0.0, "allow_private": True, "settings": SETTINGS}
    return fieldmouse.Crawl(home, **asked | more)


# -- delivery of pages


def test_each_page_comes_once_with_all_its_fields(meadow: RunningMeadow, tmp_path: Path) -> None:
    crawl = crawl_of(meadow, tmp_path / "c")
    pages = list(crawl)
    assert Counter(page.url for page in pages) == Counter(meadow.pages())
    summary = crawl.summary
    assert (summary.pages, summary.waiting, summary.lost, summary.exit) == (len(pages), 0, 0, 0)
    atlas = fieldmouse.open(tmp_path / "c")
    stored = {page.url: page for page in atlas.pages()}
    assert set(stored) == meadow.pages()
    for page in pages:
        twin = stored[page.url]
        assert (page.status, page.title, page.body) == (twin.status, twin.title, twin.body)
        assert page.status == 200
    html = [page for page in pages if page.mime == "text/html"]
    assert any(page.title and page.text and page.links and page.headers["content-type"] for page in html)
    assert list(crawl) == [], "a second time there is nothing left"
    url = html[0].url
    found = atlas.page(url)
    assert found is not None
    assert found.body == stored[url].body
    assert isinstance(atlas.search(html[0].title), list)
    assert url in {hit.url for hit in atlas.search(html[0].title, limit=100)}
    assert atlas.explain(url)
    assert all(finding.healthy for finding in atlas.doctor())
    assert atlas.status().pages == [*atlas.live_stats()][-1].pages == len(pages)


def test_undelivered_pages_come_first_in_the_next_run(meadow: RunningMeadow, tmp_path: Path) -> None:
    """However a loop is left, only the page in hand comes again."""
    home, given, in_hand = tmp_path / "c", Counter[str](), Counter[str]()

    def goes_wrong() -> None:
        for number, page in enumerate(crawl_of(meadow, home), 1):
            given[page.url] += 1
            if number == 4:
                in_hand[page.url] += 1
                raise ZeroDivisionError

    def breaks_off() -> None:
        crawl = crawl_of(meadow, home)
        for number, page in enumerate(crawl, 1):
            given[page.url] += 1
            if number == 6:
                in_hand[page.url] += 1
                break
        assert crawl.summary.lost == 0, "it has ended when the loop is left"

    def closes() -> None:
        with crawl_of(meadow, home) as crawl:
            pages = iter(crawl)
            for _ in range(5):
                page = next(pages)
                given[page.url] += 1
            in_hand[page.url] += 1
        assert crawl.summary.lost == 0
        assert next(pages, None) is None, "what was closed gives no more"

    breaks_off()
    with pytest.raises(ZeroDivisionError):
        goes_wrong()
    assert CrawlDir.open(home).owner_pid() is None, "an error in the loop stops the crawl, too"
    closes()
    given.update(page.url for page in crawl_of(meadow, home))
    assert given == Counter(meadow.pages()) + in_hand


def test_pages_crawled_without_a_loop_are_delivered_to_the_first_loop(meadow: RunningMeadow, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"delay": 0.0, "allow_private": True, "settings": SETTINGS}
    summary = fieldmouse.crawl(tmp_path / "c", seeds=meadow.seeds, pages=20, **asked)
    assert (summary.pages, summary.stopped_by, summary.exit) == (20, "pages", 3)
    resumed = fieldmouse.Crawl(tmp_path / "c", pages=30)
    assert len(list(resumed)) == 30, "pages are counted in all"
    assert resumed.summary.pages == 30
    rest = [page.url for page in fieldmouse.Crawl(tmp_path / "c", pages=0)]
    assert len(rest) == len(meadow.pages()) - 30


def test_a_crawl_without_a_page_is_reported_and_can_be_retried(
    meadow: RunningMeadow, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert list(crawl_of(meadow, tmp_path / "c", allow_private=False)) == []
    assert any("private" in message for message in caplog.messages)
    assert list(crawl_of(meadow, tmp_path / "c")) == []
    again = [page.url for page in crawl_of(meadow, tmp_path / "c", retry_failed=True)]
    assert sorted(again) == sorted(meadow.pages())


def test_a_finished_crawl_waits_until_its_pages_are_delivered(meadow: RunningMeadow, tmp_path: Path) -> None:
    crawl, given = crawl_of(meadow, tmp_path / "c"), []
    for page in crawl:
        if not given:
            atlas, done = fieldmouse.open(tmp_path / "c"), set()
            while len(done) < 5:  # checkpoints at which nothing was left to do
                status = atlas.status()
                assert status.process, "it is still there"
                if not status.waiting and status.pages == len(meadow.pages()):
                    done.add(status.at)
        given.append(page.url)
    assert Counter(given) == Counter(meadow.pages())
    assert crawl.summary.stopped_by == ""
    assert list(crawl) == [], "it knows of the last one, too"


def test_the_command_keeps_the_delivery_position(meadow: RunningMeadow, tmp_path: Path) -> None:
    home, given = tmp_path / "c", []
    for page in crawl_of(meadow, home):
        given.append(page.url)
        if len(given) == 6:
            break
    done = run("resume", home)
    assert done["pages"] == len(meadow.pages())
    assert run("doctor", home)["healthy"]
    given += [page.url for page in fieldmouse.Crawl(home)]
    assert Counter(given) == Counter([*meadow.pages(), given[5]])


# -- threads and event loops


def test_async_iteration_does_not_block_the_event_loop(meadow: RunningMeadow, tmp_path: Path) -> None:
    async def main() -> tuple[list[str], int]:
        turns, done = 0, False

        async def somebody_else() -> None:
            nonlocal turns
            while not done:
                turns += 1
                await asyncio.sleep(0)

        other = asyncio.create_task(somebody_else())
        urls = []
        async with crawl_of(meadow, tmp_path / "c") as crawl:
            async for page in crawl:
                urls.append(page.url)
                if len(urls) == 5:
                    break
        assert crawl.summary.lost == 0
        before = turns
        async for page in crawl:
            urls.append(page.url)
            if len(urls) == 10:
                break
        del page
        if "stopping" in repr(crawl):  # nearly always: nothing was blocked
            with pytest.raises(UsageError, match="was left and is still stopping") as busy:
                aiter(crawl)
            assert "`await crawl.aclose()` waits" in busy.value.hint
            with pytest.raises(CrawlLocked) as locked:
                await anext(aiter(crawl_of(meadow, tmp_path / "c")))
            assert "`await crawl.aclose()` waits" in locked.value.hint
        await crawl.aclose()  # without `async with` nothing waits for the end
        assert CrawlDir.open(crawl.path).owner_pid() is None
        urls += [page.url async for page in crawl]
        done = True
        await other
        return urls, turns - before

    urls, turns = asyncio.run(main())
    assert Counter(urls) == Counter([*meadow.pages(), urls[4], urls[9]])
    assert turns > 10


def test_a_crawl_of_a_cancelled_task_can_be_continued(meadow: RunningMeadow, tmp_path: Path) -> None:
    home = tmp_path / "c"

    async def main() -> list[str]:
        urls: list[str] = []
        third = asyncio.Event()

        async def collect() -> None:
            async with crawl_of(meadow, home) as crawl:
                async for page in crawl:
                    urls.append(page.url)
                    if len(urls) == 3:
                        third.set()
                        await asyncio.sleep(1000)

        task = asyncio.create_task(collect())
        await third.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert CrawlDir.open(home).owner_pid() is None
        return urls

    urls = asyncio.run(main())
    urls += [page.url for page in crawl_of(meadow, home)]
    assert Counter(urls) == Counter([*meadow.pages(), urls[2]])


CELLS = """
crawl = fieldmouse.Crawl(home / "a", seeds=seeds, delay=0.0, allow_private=True, settings=settings, pages=8)
first = [page.url for page in crawl]
---
second = []
crawl = fieldmouse.Crawl(home / "b", seeds=seeds, delay=0.0, allow_private=True, settings=settings)
async with crawl:
    async for page in crawl:
        second.append(page.url)
---
summary = fieldmouse.crawl(home / "c", seeds=seeds, delay=0.0, allow_private=True, settings=settings, pages=8)
"""


def test_a_crawl_runs_in_the_cells_of_a_notebook(meadow: RunningMeadow, tmp_path: Path) -> None:
    """As in a kernel: code with top-level `await`, run in an event loop that already runs."""
    room: dict[str, Any] = {"fieldmouse": fieldmouse, "home": tmp_path}
    room |= {"seeds": meadow.seeds, "settings": SETTINGS}

    async def kernel() -> None:
        for cell in CELLS.split("---\n"):
            code: CodeType = compile(cell, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            waiting = FunctionType(code, room)()
            if waiting is not None:
                await waiting

    asyncio.run(kernel())
    assert len(room["first"]) == 8
    assert Counter(room["second"]) == Counter(meadow.pages())
    assert room["summary"].pages == 8
    assert "crawling" not in repr(room["crawl"])
    assert "<b>Crawl</b>" in room["crawl"]._repr_html_()


def test_two_crawls_run_in_threads_of_one_process(meadow: RunningMeadow, tmp_path: Path) -> None:
    found: dict[str, list[str]] = {}

    def collect(name: str) -> None:
        found[name] = [page.url for page in crawl_of(meadow, tmp_path / name)]

    threads = [threading.Thread(target=collect, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(found["a"]) == Counter(found["b"]) == Counter(meadow.pages())


def test_two_crawls_can_be_iterated_in_turn(meadow: RunningMeadow, tmp_path: Path) -> None:
    one, other = (crawl_of(meadow, tmp_path / name) for name in "ab")
    pairs = list(zip(one, other, strict=True))
    assert {a.url for a, _ in pairs} == {b.url for _, b in pairs} == meadow.pages()


def test_a_crawl_does_not_change_the_state_of_the_process(meadow: RunningMeadow, tmp_path: Path) -> None:
    def process() -> list[object]:
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
        policy = asyncio.get_event_loop_policy()
        return [*handlers, gc.get_threshold(), gc.get_freeze_count(), policy, logging.root.handlers[:], Path.cwd()]

    before = process()
    threads = set(threading.enumerate())
    assert len(list(crawl_of(meadow, tmp_path / "c", pages=5))) == 5
    assert process() == before
    assert set(threading.enumerate()) <= threads


def test_a_crawl_continues_after_chdir(meadow: RunningMeadow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    urls = []
    for page in crawl_of(meadow, Path("c")):
        monkeypatch.chdir(tmp_path / "elsewhere")
        urls.append((page.url, len(page.body)))
    assert len(urls) == len(meadow.pages())
    assert not list((tmp_path / "elsewhere").iterdir())


# -- speed


def test_a_slow_loop_slows_the_crawl_and_loses_nothing(
    wide: RunningMeadow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_run, "MAX_LAG", 4000)
    home, urls, still = tmp_path / "c", [], 0
    for page in crawl_of(wide, home):
        if not urls:
            # The loop does not advance. Two checkpoints in a row hold the same: the crawl does not advance
            # either.
            seen: list[tuple[float, int]] = []
            while still < 5:
                last = read_checkpoint(CrawlDir.open(home))
                assert last is not None
                now = (last.at, last.decode_part("outcomes", int))
                if not seen or seen[-1] != now:
                    still = still + 1 if seen and seen[-1][1] == now[1] else 0
                    seen.append(now)
                assert CrawlDir.open(home).owner_pid() is not None, "it waits, and does not end"
            left = frontier_state_of(last).waiting
        urls.append(page.url)
    assert Counter(urls) == Counter(wide.pages())
    assert left > 50, "much was left to do when it stood"


def test_outcomes_without_a_page_are_read_once(meadow: RunningMeadow, tmp_path: Path) -> None:
    home = tmp_path / "c"
    pages = len(list(crawl_of(meadow, home)))
    seeds = [meadow.seeds[0] + f"no-such-page-{number}" for number in range(3)]
    assert list(crawl_of(meadow, home, seeds=seeds)) == []
    last = read_checkpoint(CrawlDir.open(home))
    assert last is not None
    assert sealed_counters(last).pages == pages
    assert last.decode_part(background_run.DELIVERY_PART, background_run.DeliveryOffset).reach == sealed_outcome_bytes(
        last
    )


# -- errors


def test_a_crawl_in_use_by_another_loop_or_process_raises(meadow: RunningMeadow, tmp_path: Path) -> None:
    home = tmp_path / "c"
    with crawl_of(meadow, home) as crawl:
        next(iter_ := iter(crawl))
        with pytest.raises(CrawlLocked, match="is in use by") as told:
            next(iter(fieldmouse.Crawl(home)))
        assert "`close` it" in told.value.hint
        with pytest.raises(UsageError, match="another loop iterates the pages") as twice:
            iter(crawl)
        assert "close" in twice.value.hint
        assert next(iter_).url, "the first one does not notice"


def test_a_crawl_that_is_not_iterated_creates_nothing(tmp_path: Path) -> None:
    with fieldmouse.Crawl(tmp_path / "c", seeds=["http://127.0.0.1:9/"]) as crawl:
        assert repr(crawl) == f"<Crawl {tmp_path / 'c'}: not begun>"
    with pytest.raises(fieldmouse.FieldmouseError, match="has not run") as told:
        _ = crawl.summary
    assert "fieldmouse.crawl" in told.value.hint
    assert not list(tmp_path.iterdir())
