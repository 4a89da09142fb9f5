"""Politeness as the server sees it, judged only from its log of arrivals."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections import defaultdict
from pathlib import Path

import msgspec

from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.testing.meadow.plan import MeadowPlan
from fieldmouse.testing.meadow.server import Arrival
from meadowland import RunningMeadow, running_meadow

from .crawling import end, run, start


def _gaps(arrivals: list[Arrival], key: str) -> dict[str, list[float]]:
    times: dict[str, list[float]] = defaultdict(list)
    for arrival in arrivals:
        times[getattr(arrival, key)].append(arrival.t)
    gaps = {}
    for name, each in times.items():
        each.sort()
        gaps[name] = [later - sooner for sooner, later in itertools.pairwise(each)]
    return gaps


def _check(meadow: RunningMeadow, delay: float) -> None:
    arrivals = meadow.arrivals()
    assert arrivals
    for key in ("host", "address"):
        for name, gaps in _gaps(arrivals, key).items():
            assert all(gap >= delay for gap in gaps), f"{key} {name}: {min(gaps):.4f} s"
    assert not any(arrival.busy for arrival in arrivals)


def test_no_gap_to_a_host_is_shorter_than_the_delay(tmp_path: Path) -> None:
    with running_meadow(hosts=30, pages=90, seed=2, latency=0.03) as meadow:
        run("crawl", tmp_path / "c", "--seed", meadow.seeds[0], "--delay", "150ms", "--allow-private")
        meadow.stop()
        _check(meadow, 0.15)


def test_hosts_that_share_an_address_share_its_delay(tmp_path: Path) -> None:
    with running_meadow(hosts=24, pages=60, seed=2, hosts_per_address=6) as meadow:
        maps = [word for entry in meadow.resolve for word in ("--resolve", entry)]
        run("crawl", tmp_path / "c", "--seed", meadow.seeds[0], "--delay", "60ms", "--allow-private", *maps)
        meadow.stop()
        _check(meadow, 0.06)


def test_delays_hold_across_kills_and_resumes(tmp_path: Path) -> None:
    home = tmp_path / "c"
    with running_meadow(hosts=20, pages=80, seed=4) as meadow:
        process = start(
            "crawl",
            home,
            "--seed",
            meadow.seeds[0],
            "--delay",
            "400ms",
            "--allow-private",
            "--set",
            "storage.checkpoint=1s",
        )
        for moment in (1.3, 1.1, 1.7):
            time.sleep(moment)  # the time of the kill does not matter
            os.kill(process.pid, signal.SIGKILL)
            end(process)
            process = start("resume", home)
        assert process.wait(120) == 0
        end(process)
        meadow.stop()
        _check(meadow, 0.4)


def test_crawl_delay_and_retry_after_are_obeyed(tmp_path: Path) -> None:
    options = MeadowOptions(
        hosts=12, pages=40, seed=6, robots=1.0, crawl_delay_share=0.5, crawl_delay=1.0, busy=0.5, busy_seconds=2
    )
    with running_meadow(**msgspec.to_builtins(options, str_keys=True) | {"port": 0}) as meadow:
        run("crawl", tmp_path / "c", "--seed", meadow.seeds[0], "--delay", "50ms", "--allow-private")
        meadow.stop()
        _check(meadow, 0.05)
        arrivals = meadow.arrivals()
        habits = {site.origin.removeprefix("http://"): site.habits for site in MeadowPlan(options, meadow.port).sites}
    gaps = _gaps(arrivals, "host")
    slow = [host for host, habit in habits.items() if habit.crawl_delay and gaps[host]]
    assert slow
    for host in slow:
        assert min(gaps[host]) >= 1.0, host
    busy = [host for host, habit in habits.items() if habit.busy]
    assert busy
    for host in busy:
        # The first request for a page is answered 429; robots.txt is not.
        pages = [a for a in arrivals if a.host == host and not a.path.endswith("robots.txt")]
        assert pages[1].t - pages[0].t >= 2.0, host
