"""Tests of the worker pool: workers killed at any time lose nothing permanently."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from warcio.archiveiterator import ArchiveIterator

from archive.test_warc_writer import passes
from fieldmouse.archive.warc_writer import parse_cdxj_line
from fieldmouse.config.rules_from_settings import PageProcessingConfig
from fieldmouse.errors import FieldmouseError
from fieldmouse.search.search import search_crawl
from fieldmouse.storage.checkpoint import ShardState
from fieldmouse.types.outcome import OutcomeRow, Page, WorkerResult
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.request import RequestKind
from fieldmouse.url import host_of
from fieldmouse.workers.pool import WorkerPool
from workers.responses import CONFIG, page, story


class Desk:
    """Stand-in for the crawler: records results, sends lost pages again, commits at checkpoints."""

    def __init__(self, folder: Path, config: PageProcessingConfig = CONFIG, shards: int = 2):
        self.folder, self.config, self.shards = folder, config, shards
        self.states: list[ShardState] | None = None  # content of the journal
        self.known: dict[int, WorkerResult] = {}
        self.answers: dict[int, WorkerResult] = {}  # the newest result of each page
        self.settled: dict[int, OutcomeRow] = {}
        self.lost: list[int] = []
        self.out: set[int] = set()  # sent, and neither committed nor lost
        self.indexer: WorkerPool

    def open(self) -> WorkerPool:
        self.known.clear()
        self.out.clear()
        self.indexer = WorkerPool(
            self.folder,
            shards=self.shards,
            states=self.states,
            config=self.config,
            on_parsed=self.on_parsed,
            on_undone=self.on_undone,
        )
        return self.indexer

    def on_parsed(self, parsed: Sequence[WorkerResult]) -> None:
        for one in parsed:
            if one.number:
                assert one.number not in self.known
                assert one.number not in self.settled
                self.known[one.number] = self.answers[one.number] = one

    def on_undone(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self.known.pop(number, None)
            self.out.discard(number)
            assert number not in self.settled, "what counts is never lost"
        self.lost += numbers

    async def send(self, number: int, answer: Page) -> None:
        lane = self.indexer.shard_of(host_of(answer.link.url))
        async with asyncio.timeout(60):
            while not self.indexer.has_room(lane):  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        if number:
            self.out.add(number)
        self.indexer.send(number, answer)

    async def checkpoint(self, *, journal: bool = True) -> None:
        states = await self.indexer.prepare_commit()
        assert self.out <= set(self.known), "what was sent is answered by now, or lost"
        if not journal:
            return
        self.states = states
        for number, one in list(self.known.items()):
            if one.batch <= states[one.shard].batch:
                self.settled[number] = msgspec.msgpack.decode(one.row, type=OutcomeRow)
                del self.known[number]
                self.out.discard(number)
        self.indexer.mark_committed()


def answer(number: int) -> Page:
    return page(f"http://h{number % 7}.example.org/{number}", story(number))


def archived(folder: Path) -> list[str]:
    urls = []
    for warc in sorted((folder / "archive").glob("*.warc.gz")):
        assert passes(warc)
        with warc.open("rb") as file:
            urls += [r.rec_headers["WARC-Target-URI"] for r in ArchiveIterator(file) if r.rec_type == "response"]
    return urls


def indexed(folder: Path) -> list[str]:
    return sorted(hit.url for hit in search_crawl(folder, "story", limit=10_000))


def test_sent_pages_become_searchable(tmp_path: Path) -> None:
    async def crawl() -> Desk:
        desk = Desk(tmp_path)
        indexer = desk.open()
        await indexer.start()
        await indexer.roll_back_and_accept()
        for number in range(1, 101):
            await desk.send(number, answer(number))
        await desk.send(0, page("http://h1.example.org/robots.txt", b"User-agent: *", kind=RequestKind.ROBOTS_TXT))
        await desk.checkpoint()
        assert indexer.outstanding_pages == 0
        assert indexer.peak_rss > 1 << 20
        await indexer.merge_indexes_and_cdxj_logs()
        await indexer.close()
        return desk

    desk = asyncio.run(crawl())
    assert sorted(desk.settled) == list(range(1, 101))
    urls = sorted(answer(number).link.url for number in range(1, 101))
    assert indexed(tmp_path) == urls
    assert sorted(archived(tmp_path)) == sorted([*urls, "http://h1.example.org/robots.txt"])
    lines = (tmp_path / "archive" / "index.cdxj").read_bytes().splitlines()
    assert lines == sorted(lines)
    assert sorted(parse_cdxj_line(line)[1].url for line in lines) == sorted(archived(tmp_path))


def kill_one(indexer: WorkerPool, chance: random.Random) -> int:
    """Kill a worker, if there is one; return the number killed."""
    if not indexer.pids:
        return 0
    os.kill(chance.choice(indexer.pids), signal.SIGKILL)
    return 1


@pytest.mark.parametrize("seed", range(2))
def test_random_kills_lose_and_duplicate_nothing(tmp_path: Path, seed: int) -> None:
    """Workers are killed while pages are sent, parsed, prepared and committed; sometimes all restart."""
    chance = random.Random(seed)
    config = msgspec.structs.replace(CONFIG, warc_size=20_000, generation=8_000)
    everything = range(1, 121)

    async def crawl() -> Desk:
        desk = Desk(tmp_path, config)
        indexer = desk.open()
        await indexer.start()
        await indexer.roll_back_and_accept()
        waiting = list(everything)
        kills = 0
        while waiting:
            waiting = [n for n in everything if n not in desk.settled and n not in desk.out]
            chance.shuffle(waiting)
            for number in waiting[: chance.randrange(10, 60)]:
                await desk.send(number, answer(number))
                if kills < 8 and chance.random() < 0.05:
                    kills += kill_one(indexer, chance)
                if chance.random() < 0.2:
                    await asyncio.sleep(chance.random() * 0.01)
            if kills < 8 and chance.random() < 0.5:
                checkpoint = asyncio.ensure_future(desk.checkpoint())
                await asyncio.sleep(chance.random() * 0.03)
                kills += kill_one(indexer, chance)
                await checkpoint
            elif chance.random() < 0.2:
                await desk.checkpoint(journal=False)  # the crawler is killed before the journal commit
                for pid in indexer.pids:
                    os.kill(pid, signal.SIGKILL)
                await indexer.close()
                indexer = desk.open()
                await indexer.start()
                await indexer.roll_back_and_accept()
            else:
                await desk.checkpoint()
            waiting = [n for n in everything if n not in desk.settled]
        await indexer.merge_indexes_and_cdxj_logs()
        await indexer.close()
        assert kills
        return desk

    desk = asyncio.run(crawl())
    urls = sorted(answer(number).link.url for number in everything)
    assert indexed(tmp_path) == urls
    assert sorted(archived(tmp_path)) == urls
    where = {(row.warc, row.offset) for row in desk.settled.values()}
    assert len(where) == len(urls)


def test_page_that_kills_its_worker_twice_is_given_up(tmp_path: Path) -> None:
    async def crawl() -> Desk:
        desk = Desk(tmp_path, shards=1)
        indexer = desk.open()
        await indexer.start()
        await indexer.roll_back_and_accept()
        for _ in range(3):
            await desk.send(2, answer(2))
            await desk.checkpoint()
            if 2 in desk.settled:
                break
        desk.lost.clear()
        bad = answer(1)
        # A timestamp outside every calendar simulates a bug of fieldmouse.
        bad = msgspec.structs.replace(bad, response=msgspec.structs.replace(bad.response, started_at=1e300))
        for _ in range(4):
            await desk.send(1, bad)
            await desk.checkpoint()
            if 1 in desk.settled:
                break
        await indexer.close()
        return desk

    desk = asyncio.run(crawl())
    assert desk.lost == [1, 1]
    assert (desk.settled[1].kind, desk.settled[1].reason) == ("failed", OutcomeReason.CRASHED.value)


def test_missing_warc_file_is_named_in_the_error(tmp_path: Path) -> None:
    async def crawl() -> None:
        desk = Desk(tmp_path, shards=1)
        desk.states = [ShardState(batch=3, serial=1, warc="gone.warc.gz", warc_length=1000)]
        indexer = desk.open()
        try:
            with pytest.raises(FieldmouseError, match=r"gone\.warc\.gz"):
                await indexer.start()
        finally:
            await indexer.close()

    asyncio.run(crawl())


def test_workers_exit_when_their_crawler_dies(tmp_path: Path) -> None:
    async def crawl() -> list[int]:
        indexer = Desk(tmp_path).open()
        await indexer.start()
        await indexer.roll_back_and_accept()
        pids = indexer.pids
        await indexer.close()
        return pids

    for pid in asyncio.run(crawl()):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
