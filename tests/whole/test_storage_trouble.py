"""Failures of our own disk: the crawl ends with an error message, loses no page, and a resume completes it.

The disk fails for any user: a limit on the size of files stands for a full disk, a link to /dev/full for a
file that cannot be written, a truncated file for one that cannot be read.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from meadowland import RunningMeadow, running_meadow
from search.searchable import searchable_urls

from .crawling import check_warcs, children, command, exported, run, start

MANNERS = (
    "--allow-private",
    "--delay",
    "0s",
    "--set",
    "storage.checkpoint=200ms",
    "--set",
    "storage.min_free=0",
    "--set",
    "index.shards=2",
)


@pytest.fixture(scope="module")
def meadow() -> Iterator[RunningMeadow]:
    with running_meadow(hosts=20, pages=250, seed=12, page_kb=8) as running:
        yield running


def crawl(
    meadow: RunningMeadow, home: Path, *, room: int | None = None, again: tuple[str, ...] = ("resume",)
) -> tuple[int, Any, str]:
    """A crawl, or `again` on it, whose files may not grow past `room` bytes: exit code, stdout, stderr."""

    def confine() -> None:
        if room is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))

    words: tuple[object, ...] = ("crawl", home, "--seed", meadow.seeds[0], *MANNERS)
    if (home / "crawl.json").exists():
        words = (again[0], home, *again[1:])
    done = subprocess.run([*command(*words), "--json"], capture_output=True, text=True, timeout=200, preexec_fn=confine)
    return done.returncode, json.loads(done.stdout), done.stderr


def refused(told: tuple[int, Any, str]) -> str:
    """Check that a crawl ended as it should after a disk failure; returns its message."""
    code, data, talk = told
    assert code == 1, told
    assert "Traceback" not in talk, talk
    assert set(data) == {"error", "hint"}
    return f"{data['error']} ({data['hint']})"


def has_everything(meadow: RunningMeadow, home: Path) -> None:
    last = run("resume", home)
    rows = exported(home)
    assert sorted(row["url"] for row in rows) == sorted(meadow.pages())
    assert last["lost"] == last["waiting"] == 0
    assert not any("killed its worker" in reason for reason in last["reasons"])
    assert last["failed"] == sum(1 for status, allowed in meadow.truth().values() if allowed and status >= 400)
    assert Counter(searchable_urls(home)) == Counter(row["url"] for row in rows)
    check_warcs(home)
    assert run("doctor", home)["healthy"]


@pytest.mark.parametrize("room", [0, 2_000, 9_000, 20_000, 60_000, 200_000])
def test_a_full_disk_is_reported_and_nothing_is_missing_after_a_resume(
    meadow: RunningMeadow, tmp_path: Path, room: int
) -> None:
    home = tmp_path / "c"
    told = refused(crawl(meadow, home, room=room))
    assert "make room" in told
    if not (home / "crawl.json").exists():  # then there was no room for a crawl at all
        shutil.rmtree(home)
        crawl(meadow, home)
    else:
        refused(crawl(meadow, home, room=room))  # and again, with what the first left
    has_everything(meadow, home)


def test_a_refresh_ended_by_the_disk_resumes_as_a_refresh(meadow: RunningMeadow, tmp_path: Path) -> None:
    """Other waiting URLs were not requested."""
    home = tmp_path / "c"
    run("crawl", home, "--seed", meadow.seeds[0], *MANNERS, "--pages", 30, expect=3)
    room = (home / "outcomes.log").stat().st_size + 10
    code, told, _ = crawl(meadow, home, room=room, again=("refresh", "--once"))
    assert (code, told["hint"].rpartition(": ")[2]) == (1, f"then continue with `fieldmouse refresh {home} --once`")
    code, summary, _ = crawl(meadow, home, again=("refresh", "--once"))
    assert (code, summary["lost"], summary["refreshed"]["polls"] >= 30) == (0, 0, True)


def replace_by_full(path: Path) -> None:
    """From now on writing to it fails, and reading gives nothing."""
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/full")


@pytest.mark.parametrize("name", ["outcomes.log", "archive/shard-1.cdxj"])
def test_a_file_that_cannot_be_written_ends_the_crawl_and_blames_no_page(
    meadow: RunningMeadow, tmp_path: Path, name: str
) -> None:
    home = tmp_path / "c"
    run("crawl", home, "--seed", meadow.seeds[0], *MANNERS, "--pages", 5, expect=3)
    whole = (home / name).read_bytes()
    replace_by_full(home / name)
    refused(crawl(meadow, home))
    (home / name).unlink()
    (home / name).write_bytes(whole)
    has_everything(meadow, home)


def disturbed(meadow: RunningMeadow, home: Path, disturb: Callable[[int], bool], *more: str) -> Any:
    """Disturb a crawl repeatedly once it has a checkpoint.

    Returns its exit code and output.
    """
    process = start("crawl", home, "--seed", meadow.seeds[0], *MANNERS, *more)
    enough = False
    while process.poll() is None:
        if not enough and (home / "journal").exists() and (home / "journal").stat().st_size:
            enough = disturb(process.pid)
    data = process.communicate()[0]
    return process.returncode, json.loads(data)


def test_a_truncated_memory_map_ends_the_crawl(meadow: RunningMeadow, tmp_path: Path) -> None:
    """Reading it kills a worker with SIGBUS, page after page: no page is at fault."""
    home = tmp_path / "c"
    digests = home / "archive" / "digests.lmdb"

    def cut(_: int) -> bool:
        os.truncate(digests, 0)
        return True

    code, told = disturbed(meadow, home, cut)
    assert code == 1
    assert set(told) == {"error", "hint"}
    digests.unlink()
    has_everything(meadow, home)


def test_damaged_digests_are_refused_and_can_be_deleted_without_loss(meadow: RunningMeadow, tmp_path: Path) -> None:
    home = tmp_path / "c"
    run("crawl", home, "--seed", meadow.seeds[0], *MANNERS, "--pages", 60, expect=3)
    digests = home / "archive" / "digests.lmdb"
    os.truncate(digests, 8192)
    assert "digests.lmdb" in refused(crawl(meadow, home))
    digests.unlink()
    has_everything(meadow, home)


def test_an_unreadable_frontier_ends_the_crawl(tmp_path: Path) -> None:
    """A queue on disk is read when its host's turn comes, long after everything has opened."""
    home = tmp_path / "c"
    # One elephant: its links wait on disk.
    with running_meadow(hosts=2, pages=1500, seed=3, links=60) as meadow:
        run("crawl", home, "--seed", meadow.seeds[0], *MANNERS, "--pages", 40, expect=3)
        logs = sorted((home / "frontier").glob("links-*.log"))
        if not logs:
            pytest.fail("nothing waits on disk: the test is about that")
        kept = {path: path.read_bytes() for path in logs}
        for path in logs:
            path.write_bytes(bytes(len(kept[path])))  # as long as noted, and nothing in it
        told = refused(crawl(meadow, home))
        assert "links-" in told
        for path, content in kept.items():
            path.write_bytes(content)
        assert run("resume", home, "--pages", 200, expect=3)["lost"] == 0


def test_a_worker_that_dies_repeatedly_ends_the_crawl(meadow: RunningMeadow, tmp_path: Path) -> None:
    """Every worker is killed as soon as it runs: nothing is stored, and the fetches are wasted."""
    home = tmp_path / "c"

    def kill(pid: int) -> bool:
        for worker in children(pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
        return False

    code, told = disturbed(meadow, home, kill, "--set", "storage.checkpoint=60s")
    assert code == 1
    assert "died" in told["error"] or "cannot start" in told["error"]
    has_everything(meadow, home)
