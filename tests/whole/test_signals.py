"""Signals are answered with a message, and leave a crawl that resumes where it stopped."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from meadowland import RunningMeadow, running_meadow

from .crawling import children, command, exported, run, start

MANNERS = ("--allow-private", "--delay", "0s", "--set", "storage.checkpoint=60s")
"""A checkpoint a minute: pages not saved at the stop are lost."""


@pytest.fixture(scope="module")
def meadow() -> Iterator[RunningMeadow]:
    # A page takes 20 ms, and the largest host has a fifth of them: no crawl is done before the signal.
    with running_meadow(hosts=40, pages=4000, seed=11, latency=0.02, latency_spread=0.0) as running:
        yield running


class Crawl:
    """A crawl left running in a new process group, whose output is read as it comes."""

    def __init__(self, *words: object, terminal: bool = False):
        ours, theirs = pty.openpty() if terminal else os.pipe()
        self._words, self.heard = ours, ""
        self.process = subprocess.Popen(command(*words), stdout=subprocess.PIPE, stderr=theirs, start_new_session=True)
        os.close(theirs)

    def hear(self, *wanted: str) -> None:
        """Wait until all of these messages were printed."""
        while not all(one in self.heard for one in wanted):
            assert select.select([self._words], [], [], 60)[0], f"it said nothing but {self.heard!r}"
            assert self._read(), f"it ended, and said {self.heard!r}"

    def _read(self) -> bool:
        try:
            piece = os.read(self._words, 65536).decode(errors="replace")
        except OSError:  # error of a terminal whose other end is closed
            return False
        self.heard += piece
        return bool(piece)

    def end(self) -> tuple[int, str]:
        """Wait for its end; the exit code and stdout."""
        data = self.process.communicate(timeout=60)[0].decode()
        while self._read():
            pass
        os.close(self._words)
        return self.process.returncode, data


def until(true: Callable[[], object]) -> None:
    ends = time.monotonic() + 60
    while not true():
        assert time.monotonic() < ends
        time.sleep(0.01)


def stored(home: Path) -> bool:
    """Whether pages have reached the archive."""
    return sum(path.stat().st_size for path in home.glob("archive/*.warc.gz")) > 300_000


@contextlib.contextmanager
def crawling(meadow: RunningMeadow, home: Path, *more: object, terminal: bool = False) -> Iterator[Crawl]:
    crawl = Crawl("crawl", home, "--seed", meadow.seeds[0], *MANNERS, *more, terminal=terminal)
    try:
        until(lambda: stored(home))
        yield crawl
    finally:
        if crawl.process.poll() is None:
            os.killpg(crawl.process.pid, signal.SIGKILL)
            crawl.process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_process_group_loses_no_page(
    meadow: RunningMeadow, tmp_path: Path, number: signal.Signals
) -> None:
    home = tmp_path / "c"
    with crawling(meadow, home) as crawl:
        assert children(crawl.process.pid)
        os.killpg(crawl.process.pid, number)
        crawl.hear("stopping: ", "repeat to stop at once")
        code, _ = crawl.end()
    assert code == 130
    assert "worker died" not in crawl.heard
    assert "Traceback" not in crawl.heard
    # With a checkpoint a minute these pages were all held by workers when the signal came.
    assert len(exported(home)) > 50
    assert run("doctor", home)["healthy"]


def test_the_same_signal_twice_at_once_counts_once(meadow: RunningMeadow, tmp_path: Path) -> None:
    """`timeout` sends the signal to us, and then to our group."""
    home = tmp_path / "c"
    with crawling(meadow, home) as crawl:
        crawl.process.send_signal(signal.SIGTERM)
        os.killpg(crawl.process.pid, signal.SIGTERM)
        code, _ = crawl.end()
    assert code == 130
    assert "stopped at once" not in crawl.heard
    assert len(exported(home)) > 50


def test_a_second_signal_stops_at_once_with_a_message(meadow: RunningMeadow, tmp_path: Path) -> None:
    home = tmp_path / "c"
    with crawling(meadow, home) as crawl:
        workers = children(crawl.process.pid)
        for worker in workers:  # so that the orderly end never comes
            os.kill(worker, signal.SIGSTOP)
        os.killpg(crawl.process.pid, signal.SIGINT)
        crawl.hear("stopping: ")
        while "stopped at once" not in crawl.heard:  # a second one too soon is taken for the first
            time.sleep(0.1)
            os.killpg(crawl.process.pid, signal.SIGINT)
            if crawl.process.poll() is not None:
                break
            select.select([crawl._words], [], [], 0.1)[0] and crawl._read()
        code, _ = crawl.end()
    assert code == 130
    assert "nothing is lost" in crawl.heard
    assert "Traceback" not in crawl.heard
    until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))
    assert run("doctor", home)["healthy"]
    assert run("resume", home, "--pages", 5, expect=3)["lost"] == 0


def test_on_a_terminal_messages_are_above_the_progress_line(meadow: RunningMeadow, tmp_path: Path) -> None:
    with crawling(meadow, tmp_path / "c", terminal=True) as crawl:
        crawl.hear(" pages  ")  # the progress line
        os.killpg(crawl.process.pid, signal.SIGINT)
        crawl.hear("stopping: ", "repeat to stop at", "stopped by you")
        assert crawl.end()[0] == 130


def test_a_closed_terminal_stops_the_crawl_cleanly(meadow: RunningMeadow, tmp_path: Path) -> None:
    home = tmp_path / "c"
    with crawling(meadow, home, terminal=True) as crawl:
        os.close(crawl._words)  # from now on every write is an error
        os.killpg(crawl.process.pid, signal.SIGHUP)
        assert crawl.process.wait(60) == 130
    assert len(exported(home)) > 50


def test_json_output_is_one_summary_without_messages(meadow: RunningMeadow, tmp_path: Path) -> None:
    with crawling(meadow, tmp_path / "c", "--json") as crawl:
        crawl.process.send_signal(signal.SIGTERM)
        crawl.hear("stopping: ")
        code, data = crawl.end()
    summary = json.loads(data)
    assert (code, summary["exit"], summary["stopped_by"]) == (130, 130, "signal")
    assert summary["pages"] > 50


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("moment", ["crawl.json", "lock", "journal", "index/shard-1.lock"])
def test_a_signal_while_opening_causes_no_traceback(
    meadow: RunningMeadow, tmp_path: Path, moment: str, number: signal.Signals
) -> None:
    home = tmp_path / "c"
    crawl = Crawl("crawl", home, "--seed", meadow.seeds[0], *MANNERS, "--set", "index.shards=2")
    until((home / moment).exists)
    os.killpg(crawl.process.pid, number)
    code, _ = crawl.end()
    assert code in (130, -number)  # before the handler is installed it ends as any program does
    assert "Traceback" not in crawl.heard
    assert run("resume", home, "--pages", 5, expect=3)["lost"] == 0


def test_workers_ignore_signals_from_their_start(meadow: RunningMeadow, tmp_path: Path) -> None:
    home = tmp_path / "c"
    process = start("crawl", home, "--seed", meadow.seeds[0], *MANNERS, "--pages", 60)
    seen: set[int] = set()
    while process.poll() is None:
        for worker in set(children(process.pid)) - seen:
            seen.add(worker)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                os.kill(worker, number)
    summary = json.loads(process.communicate()[0])
    assert seen
    assert summary["pages"] == 60
    assert len(seen) == len(os.sched_getaffinity(0)), "none was started twice"
