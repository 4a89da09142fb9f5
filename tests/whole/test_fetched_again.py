"""Pages that change, vanish or turn `noindex` between two visits: search, export, doctor and repair agree."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import lmdb
import msgspec
import pytest

from fieldmouse.clock import Clock
from fieldmouse.config.settings_file import Settings, render
from fieldmouse.crawler.builder import build_crawl
from fieldmouse.crawler.retry_failed import RetryFailed
from fieldmouse.doctor.check.examine import check_crawl
from fieldmouse.doctor.repair.repair import repair
from fieldmouse.frontier.frontier import Frontier
from fieldmouse.search.newest_versions import VERSION_TABLE
from fieldmouse.search.search import search_crawl
from fieldmouse.search.snapshot import remove_index_directory
from fieldmouse.storage.checkpoint import CrawlCounters, read_checkpoint, sealed_outcome_bytes, shard_states
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.log import Log
from fieldmouse.storage.outcome_log_reader import newest_page_rows
from fieldmouse.testing import virtual_time
from fieldmouse.types.outcome import Failed, Response
from fieldmouse.types.request import Request
from fieldmouse.url import Host, Url, path_of
from fieldmouse.workers.inline_worker import InlineWorker
from search.searchable import searchable_urls

HOST = "http://example.org"
PAGES = 30


class Site:
    """A site in versions, without a network. `now` is the current content of each page."""

    def __init__(self, clock: Clock, now: dict[str, str]):
        self._clock, self._now = clock, now

    async def fetch(
        self, link: Request, host: Host, address: str, *, body_limit: int | None = None
    ) -> Response | Failed:
        await self._clock.sleep(0.01)
        path = path_of(link.url)
        status, rules = 200, ""
        what = self._now.get(path, "robots" if path == "/robots.txt" else "gone")
        if what in ("gone", "robots"):
            status = 404
        elif what == "moved":
            status = 301
        elif what == "noindex":
            rules = "<meta name=robots content=noindex>"
        links = "".join(f"<a href=/{number}>n</a>" for number in range(PAGES)) if path == "/0" else ""
        body = f"<title>{what}</title>{rules}<p>{what} {path[1:]} {'mouse ' * 30}{links}".encode()
        at = self._clock.now()
        headers = [("content-type", "text/html"), ("content-length", str(len(body)))]
        if status == 301:
            headers.append(("location", "/0"))
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
        head = f"HTTP/1.1 {status} X\r\n{lines}\r\n"
        return Response(status, head.encode(), body, b"GET / HTTP/1.1\r\n\r\n", address, at, at, at, tuple(headers))

    async def close(self) -> None:
        pass


class PolledAgain(RetryFailed):
    """Polls known links through the frontier, at a moment when the crawler would."""

    def __init__(self, paths: list[str]):
        super().__init__(lambda forgiven: None)
        self._paths = paths

    def clear_verdicts(self, frontier: Frontier) -> None:
        pass

    def requeue(self, frontier: Frontier, outcomes: Log, tally: CrawlCounters, now: float) -> None:
        frontier.enqueue_polls([Request(Url(HOST + path), was="page") for path in self._paths])


def live(path: Path, now: dict[str, str], again: list[str] | None = None) -> None:
    wanted = {
        "crawl.seeds": [f"{HOST}/0"],
        "storage.checkpoint": "1s",
        "storage.min_free": "0B",
        "politeness.delay": "0s",
        "network.resolve": ["example.org=127.0.0.1"],
        "network.allow_private": True,
    }
    settings = Settings().override(wanted)
    home = CrawlDir.create(path, shards=1, settings=render(settings).encode()) if again is None else CrawlDir.open(path)

    async def life(clock: Clock) -> None:
        crew = build_crawl(home, settings, clock=clock, fetcher=Site(clock, now), lane=SmallLane)
        try:
            seeds = [Url(f"{HOST}/0")] if again is None else []
            await crew.crawler.crawl(seeds, retry_failed=None if again is None else PolledAgain(again))
        finally:
            await crew.close()

    virtual_time.run_in_virtual_time(life)


class SmallLane(InlineWorker):
    """Generations of a few pages."""

    def __init__(self, directory, shard, config, *rest):  # type: ignore[no-untyped-def]
        super().__init__(directory, shard, msgspec.structs.replace(config, generation=900), *rest)


def indexed(path: Path) -> list[str]:
    """Pages that the outcome log lists as searchable, as `export` lists them."""
    home = CrawlDir.open(path)
    last = read_checkpoint(home)
    assert last is not None
    return sorted(row.url for row in newest_page_rows(home, length=sealed_outcome_bytes(last)) if row.indexed)


def of_the_index(path: Path) -> Iterator[str]:
    return (found.says for found in check_crawl(CrawlDir.open(path)) if found.what == "index" and not found.healthy)


def agree(path: Path, now: dict[str, str]) -> None:
    truth = {HOST + at: what for at, what in now.items() if what not in ("gone", "noindex")}
    assert sorted(searchable_urls(path)) == sorted(truth) == indexed(path)
    assert {hit.url: hit.title for hit in search_crawl(path, "mouse", 1000)} == truth
    assert list(of_the_index(path)) == []


@pytest.fixture(scope="module")
def visited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A crawl whose pages were fetched again twice: some changed, some vanished, some came back."""
    path = tmp_path_factory.mktemp("again") / "c"
    now = {f"/{number}": "old" for number in range(PAGES)}
    live(path, now)
    agree(path, now)
    held = dict(now)
    for turn in range(2):
        for number in range(PAGES):
            now[f"/{number}"] = [f"changed{turn}", "gone", "noindex", "old", "moved"][(number + turn) % 5]
        live(path, now, sorted(now))
        # Whether the target of this redirect is stored is unknown here: so the stored copy stays searchable.
        held |= {at: what for at, what in now.items() if what != "moved"}
        agree(path, held)
    return path, held


def test_search_export_and_doctor_agree_after_a_refetch(visited: tuple[Path, dict[str, str]]) -> None:
    path, now = visited
    agree(path, now)
    last = read_checkpoint(CrawlDir.open(path))
    assert last is not None
    (state,) = shard_states(last)
    assert state.generation >= 3  # or nothing was replaced across generations
    assert state.copies


def test_a_rebuilt_index_holds_exactly_the_newest_versions(
    visited: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    path = tmp_path / "c"
    shutil.copytree(visited[0], path)
    remove_index_directory(path / "index/shard-0/00001")
    assert list(of_the_index(path))
    assert any("built again" in told for told in repair(CrawlDir.open(path)))
    agree(path, visited[1])


def flip(path: Path, place: int) -> None:
    held = bytearray(path.read_bytes())
    held[place] ^= 0x10
    path.write_bytes(held)


@pytest.mark.parametrize("harm", ["cut", "flipped", "gone"])
def test_an_index_is_rebuilt_without_the_damaged_version_log(
    harm: str, visited: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    path = tmp_path / "c"
    shutil.copytree(visited[0], path)
    log = path / "index/shard-0.copies"
    if harm == "flipped":
        flip(log, 40)
    else:
        log.write_bytes(log.read_bytes()[:-3]) if harm == "cut" else log.unlink()
    assert any("shard-0.copies" in says for says in of_the_index(path))
    assert any("begin anew" in told for told in repair(CrawlDir.open(path)))
    agree(path, visited[1])
    now = visited[1] | {"/0": "newest", "/1": "gone"}
    live(path, now, ["/0", "/1"])
    agree(path, now)


@pytest.mark.parametrize("place", [3, 9, 14])
def test_a_flipped_byte_in_the_version_table_is_detected_and_rebuilt_from_logs(
    place: int, visited: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    """In the key of a page, or in the number of its current version."""
    path = tmp_path / "c"
    shutil.copytree(visited[0], path)
    table = path / "index" / VERSION_TABLE
    with lmdb.open(str(table), subdir=False, readonly=True, lock=False) as env, env.begin() as txn:
        entry = next(bytes(key) + bytes(value) for key, value in txn.cursor() if len(key) == 8)
    # Flip it everywhere: replaced pages of the table contain it as well, and do not count.
    for found in re.finditer(re.escape(entry), table.read_bytes()):
        flip(table, found.start() + place)
    assert any(VERSION_TABLE in says for says in of_the_index(path))
    assert any(VERSION_TABLE in told for told in repair(CrawlDir.open(path)))
    agree(path, visited[1])
