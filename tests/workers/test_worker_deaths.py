"""Tests of workers that die at critical moments: every page is answered or lost, once."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import msgspec
import pytest

from fieldmouse.errors import FieldmouseError
from fieldmouse.policy.scope import Scope
from fieldmouse.types.outcome import WorkerResult
from fieldmouse.types.request import RequestKind
from fieldmouse.url import Url
from fieldmouse.workers.pool import WorkerPool
from fieldmouse.workers.supervisor import MAX_KILLS, MAX_UNEXPLAINED_DEATHS, PagesInWorker, WorkerDeaths
from workers.responses import CONFIG, page
from workers.test_pool import Desk, answer, archived, indexed


def kill_all(indexer: WorkerPool) -> None:
    for pid in indexer.pids:
        os.kill(pid, signal.SIGKILL)


def wait_until_it_waits(pid: int, made: Path) -> None:
    """Wait until the worker has created this file and waits for the next message."""
    ends, waits = time.monotonic() + 60, 0
    while waits < 20:
        assert time.monotonic() < ends
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        waits = waits + 1 if made.exists() and state == "S" else 0
        time.sleep(0.001)


def children() -> set[str]:
    """Return every running child process."""
    every = Path("/proc/self/task").glob("*/children")
    pids = {pid for file in every for pid in file.read_text().split()}
    return {pid for pid in pids if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"}


def test_pages_sent_while_all_workers_are_dead_are_lost_and_stored_later(tmp_path: Path) -> None:
    async def crawl() -> Desk:
        desk = Desk(tmp_path)
        indexer = desk.open()
        await indexer.start()
        await indexer.roll_back_and_accept()
        kill_all(indexer)
        for number in range(1, 31):  # some are sent before the death is known, some after
            desk.out.add(number)
            indexer.send(number, answer(number))
            await asyncio.sleep(0.002)
        await desk.checkpoint()
        assert sorted([*desk.settled, *desk.lost]) == list(range(1, 31))
        assert desk.lost
        for number in list(desk.lost):
            await desk.send(number, answer(number))
        await desk.checkpoint()
        await indexer.merge_indexes_and_cdxj_logs()
        await indexer.close()
        return desk

    desk = asyncio.run(crawl())
    assert sorted(desk.settled) == list(range(1, 31))
    assert indexed(tmp_path) == sorted(answer(number).link.url for number in range(1, 31))


def test_robots_txt_is_archived_though_its_worker_dies(tmp_path: Path) -> None:
    """A robots.txt is not fetched again because of a worker: answered, unanswered or sent to a dead one."""
    urls = [f"http://h{n}.example.org/robots.txt" for n in range(12)]

    async def crawl() -> None:
        desk = Desk(tmp_path)
        indexer = desk.open()
        await indexer.start()
        await indexer.roll_back_and_accept()
        for url in urls[:4]:
            await desk.send(0, page(url, b"User-agent: *", kind=RequestKind.ROBOTS_TXT))
        while indexer.outstanding_pages:  # noqa: ASYNC110 - answered, in a batch that never counts
            await asyncio.sleep(0.001)
        for url in urls[4:8]:
            await desk.send(0, page(url, b"User-agent: *", kind=RequestKind.ROBOTS_TXT))
        for pid in indexer.pids:
            os.kill(pid, signal.SIGSTOP)  # these stay unanswered
        for url in urls[8:]:
            await desk.send(0, page(url, b"User-agent: *", kind=RequestKind.ROBOTS_TXT))
        kill_all(indexer)
        await desk.checkpoint()
        await desk.checkpoint()
        await indexer.merge_indexes_and_cdxj_logs()
        await indexer.close()

    asyncio.run(crawl())
    assert sorted(archived(tmp_path)) == sorted(urls)


@pytest.mark.parametrize("when", ["start", "begin"])
def test_workers_killed_while_opening_are_replaced_one_at_a_time(tmp_path: Path, when: str) -> None:
    async def crawl() -> Desk:
        desk = Desk(tmp_path)
        indexer = desk.open()
        opening = asyncio.ensure_future(indexer.start())
        if when == "begin":
            await opening
            opening = asyncio.ensure_future(indexer.roll_back_and_accept())
        killed: set[int] = set()
        while len(killed) < 2 and not opening.done():
            for pid in set(indexer.pids) - killed:
                killed.add(pid)
                os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(0)
        await opening
        if when == "start":
            await indexer.roll_back_and_accept()
        assert len(indexer.pids) == indexer.shards
        for number in range(1, 11):
            await desk.send(number, answer(number))
        await desk.checkpoint()
        await indexer.close()
        return desk

    assert sorted(asyncio.run(crawl()).settled) == list(range(1, 11))


def test_worker_that_dies_with_an_unread_message_is_replaced_once(tmp_path: Path) -> None:
    """Two successors would wait for each other's lock forever."""

    async def crawl() -> int:
        desk = Desk(tmp_path, shards=1)
        indexer = desk.open()
        await indexer.start()
        opening = asyncio.ensure_future(indexer.roll_back_and_accept())
        (pid,) = indexer.pids
        for _ in range(3):
            await asyncio.sleep(0)
        # Without reading the socket: its message and its end arrive together.
        wait_until_it_waits(pid, tmp_path / "archive" / "simhashes")
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222
        async with asyncio.timeout(60):
            await opening
            for number in range(1, 6):
                await desk.send(number, answer(number))
            await desk.checkpoint()
            while len(desk.settled) < 5:
                for number in desk.lost:
                    await desk.send(number, answer(number))
                desk.lost.clear()
                await desk.checkpoint()
        alive = children() - before
        await indexer.close()
        return len(alive)

    before = children()
    assert asyncio.run(crawl()) == 1


def test_unexplained_deaths_stop_the_crawl_unless_pages_were_stored(tmp_path: Path) -> None:
    deaths = WorkerDeaths(tmp_path, 0)
    for _ in range(3):
        assert [deaths.record_death("", 1) for _ in range(MAX_UNEXPLAINED_DEATHS - 1)] == [None] * (
            MAX_UNEXPLAINED_DEATHS - 1
        )
        deaths.record_commit()
    *before, last = [deaths.record_death("", 1) for _ in range(MAX_UNEXPLAINED_DEATHS)]
    assert not any(before)
    assert isinstance(last, FieldmouseError)


def test_page_is_blamed_for_crashes_but_not_for_disk_errors(tmp_path: Path) -> None:
    deaths = WorkerDeaths(tmp_path, 0)
    for _ in range(MAX_KILLS):
        assert deaths.record_death("http://a.example.org/", -signal.SIGBUS) is not None
    assert not deaths.should_give_up_page("http://a.example.org/")
    for _ in range(2):
        assert deaths.record_death("http://a.example.org/", -signal.SIGSEGV) is None
    assert deaths.should_give_up_page("http://a.example.org/")
    assert not deaths.should_give_up_page("http://b.example.org/")


def test_pages_of_a_dead_worker_are_reported_once() -> None:
    holdings = PagesInWorker()
    for number in range(1, 7):
        holdings.add_sent(number, answer(number))
    holdings.add_parsed([WorkerResult(n, 0, batch, "page", b"") for n, batch in ((1, 1), (2, 2), (3, 2))])
    lost, owed = holdings.take_lost(reach=1, in_hand=4)
    assert sorted(lost) == [2, 3, 4, 5, 6]
    assert owed == []
    assert holdings.take_lost(reach=1, in_hand=4) == ([], [])
    assert holdings.mark_committed(1)
    assert not holdings.mark_committed(1)
    assert (holdings.outstanding_pages, holdings.unparsed_bytes) == (0, 0)


def test_workers_and_their_successors_receive_scope_extensions(tmp_path: Path) -> None:
    """A worker that receives the message, one that reads the redirect target, and one that starts later."""
    seed, other = Url("http://e.test/"), Url("http://www.e.test/")
    scope = Scope.from_seeds([seed], "host")
    config = msgspec.structs.replace(CONFIG, scope=scope, scope_is_open=True)
    links = b"<a href=http://www.e.test/%d>x</a><a href=http://far.test/>y</a>"

    async def crawl() -> list[tuple[list[str], list[str]]]:
        desk, told = Desk(tmp_path, config, shards=1), []
        indexer = desk.open()
        await indexer.start()
        await indexer.roll_back_and_accept()

        async def read(number: int) -> None:
            await desk.send(number, page(f"{seed}{number}", links % number, depth=1))
            await desk.checkpoint()
            parsed = desk.answers[number]
            told.append(([link.url for link in parsed.links], [link.url for link in parsed.held]))

        await read(1)
        indexer.add_to_scope([other], True)
        await read(2)
        killed = set(indexer.pids)
        kill_all(indexer)
        while killed & set(indexer.pids):  # noqa: ASYNC110 (a successor may be there already)
            await asyncio.sleep(0.001)
        await desk.checkpoint()
        await read(3)
        indexer.add_to_scope([], False)
        await desk.send(4, page(str(seed), b"<a href=http://sub.e.test/>x</a>"))
        await desk.checkpoint()
        told.append(([link.url for link in desk.answers[4].links], [link.url for link in desk.answers[4].held]))
        await indexer.close()
        return told

    expected = [([], [f"{other}1"]), ([f"{other}2"], []), ([f"{other}3"], []), ([], [])]
    assert asyncio.run(crawl()) == expected
