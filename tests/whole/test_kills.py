"""No accepted URL is ever lost, whatever is killed at any time.

SIGKILL at random moments, to the main process or to a worker, then resume; in the end the same set of
pages as an undisturbed crawl, each once in the index, and every WARC complete. FIELDMOUSE_KILLS sets the
number of kills; CI kills a few times.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections import Counter
from pathlib import Path

from fieldmouse.control.buffer_trace import BufferEvent, read_trace_rows
from meadowland import RunningMeadow, running_meadow
from search.searchable import searchable_urls

from .crawling import check_warcs, children, end, exported, run, start

KILLS = int(os.environ.get("FIELDMOUSE_KILLS", "8"))


def _killed(process: subprocess.Popen[bytes], rng: random.Random) -> bool:
    """Kill the crawl or one of its workers after a random while; True if the crawl itself was killed."""
    try:
        process.wait(rng.uniform(0.05, 1.5))
        return False
    except subprocess.TimeoutExpired:
        pass
    workers = children(process.pid)
    if workers and rng.random() < 0.4:
        os.kill(rng.choice(workers), signal.SIGKILL)
        return False
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    return True


def _crawl_with_kills(meadow: RunningMeadow, home: Path, rng: random.Random, wanted: int, *more: str) -> int:
    options = ("--delay", "0s", "--allow-private", "--set", "storage.checkpoint=300ms", *more)
    process = start("crawl", home, "--seed", meadow.seeds[0], *options)
    kills = 0
    while kills < wanted:
        kills += 1
        died = _killed(process, rng)
        if process.poll() is not None and not died:
            assert process.returncode == 0
            break
        if died:
            end(process)
            began = (home / "crawl.json").exists()
            process = start("resume", home) if began else start("crawl", home, "--seed", meadow.seeds[0], *options)
    assert process.wait(200) == 0
    end(process)
    return kills


def test_resume_after_kills_fetches_exactly_the_same_pages(tmp_path: Path) -> None:
    rng = random.Random(2026)
    home = tmp_path / "c"
    # The largest host has a fifth of the pages and takes 40 ms for each: no machine finishes it before the
    # last kill.
    with running_meadow(hosts=60, pages=250 * KILLS, seed=5, latency=0.04, latency_spread=0.0) as meadow:
        kills = _crawl_with_kills(meadow, home, rng, KILLS)
        assert kills == KILLS, "the crawl was over before all kills had fallen"
        last = run("resume", home)
        stored = [row["url"] for row in exported(home)]
        assert sorted(stored) == sorted(meadow.pages()), f"after {kills} kills"
        assert last["lost"] == last["waiting"] == 0
        assert last["pages"] == len(stored)
    check_warcs(home)
    held = Counter(searchable_urls(home))
    assert held == Counter(stored)
    assert run("doctor", home)["healthy"]


def test_pages_dropped_by_a_full_buffer_survive_a_kill(tmp_path: Path) -> None:
    """Room for four pages, and 64 fetch workers that overrun it: many fetches are wasted."""
    rng, kills, home = random.Random(2027), max(3, KILLS // 3), tmp_path / "c"
    rule = ("--control", "thresholds", "--set", "control.robots=[64,4]", "--set", "control.limits=[3]")
    options = {"latency": 0.04, "latency_spread": 0.0, "gamma": 0.3, "broken": 0.0, "server_error": 0.0}
    with running_meadow(hosts=80, pages=200 * kills, seed=6, **options) as meadow:
        assert _crawl_with_kills(meadow, home, rng, kills, *rule, "--set", "buffer.pages=4") == kills
        last = run("resume", home)
        stored = [row["url"] for row in exported(home)]
        assert sorted(stored) == sorted(meadow.pages())
        assert last["lost"] == last["waiting"] == 0
    rows = read_trace_rows(home / "pages.trace")
    assert (rows["fate"] == BufferEvent.DROPPED).sum() > 10, "the test is about these"
    assert run("doctor", home)["healthy"]
