"""The judge is fair: what the benchmarks count is what happened. Nothing here tests a figure."""

from __future__ import annotations

import importlib
import itertools
import json
import random
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.testing.meadow.paths import SpecialPath, path_of, special_path
from fieldmouse.testing.meadow.server import Arrival

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
bench_setup: ModuleType = importlib.import_module("bench_setup")
delays: ModuleType = importlib.import_module("delays")
timed_run: ModuleType = importlib.import_module("timed_run")
compare_commits: ModuleType = importlib.import_module("compare_commits")
duplicates: ModuleType = importlib.import_module("duplicates")

ticks = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 3), st.integers(0, 2)), max_size=60)


@given(ticks)
def test_gaps_are_those_between_neighbours_of_one_host(moments):
    """Times are whole quarters of a second, so that differences are exact."""
    delay = 2.5
    arrivals = [Arrival(t / 4, f"h{h}", f"a{h // 2}", "/", busy, "") for t, h, busy in sorted(moments)]
    judged = delays.manners(arrivals, delay)

    def gaps(key):
        found = []
        for name in {getattr(a, key) for a in arrivals}:
            times = [a.t for a in arrivals if getattr(a, key) == name]
            found += [later - sooner for sooner, later in itertools.pairwise(times)]
        return found

    assert judged.gaps == len(gaps("host"))
    assert judged.short == sum(gap < delay for gap in gaps("host"))
    assert judged.short_by_address == sum(gap < delay for gap in gaps("address"))
    assert judged.shortest == min(gaps("host"), default=float("inf"))
    assert judged.overlaps == sum(a.busy > 0 for a in arrivals)


@given(st.lists(st.integers(1, 60), max_size=8), st.integers(0, 40))
def test_the_ideal_is_what_a_crawler_reaches_that_never_keeps_a_host_waiting(sizes, turns):
    left, fetched = list(sizes), 0
    for _ in range(turns):
        fetched += sum(1 for n in left if n)
        left = [max(0, n - 1) for n in left]
    assert delays.ideal_pages(sizes, seconds=turns * 0.2, delay=0.2) == fetched


def test_a_page_counts_once_and_only_pages_count():
    with bench_setup.fresh_meadow(hosts=3, pages=60, server_error=0.0, busy=0.0) as field:
        site = field.plan.sites[0]
        pages = [path_of(site, page) for page in range(10)]
        for path in [*pages, *pages, "/robots.txt", special_path(SpecialPath.GONE, 20), "/nothing"]:
            _ask(site.origin + path)
        seen = field.verdict()
    assert (seen.pages, seen.hosts, seen.requests) == (10, 1, 23)
    assert seen.per_host == {0: 10}
    assert seen.first_at < seen.last_at


def _ask(url: str) -> None:
    try:
        urllib.request.urlopen(url, timeout=30).close()
    except urllib.error.HTTPError as answer:
        answer.close()


GREEDY_CHILD = """
import signal, subprocess, sys
child = "import signal; hoard = b'x' * (80 << 20); print('up', flush=True); signal.pause()"
held = subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE)
held.stdout.readline()
print("ready", flush=True)
signal.pause()
"""


def test_a_contestant_is_stopped_when_its_time_is_up_and_its_children_weigh_in(tmp_path):
    ran = timed_run.run([sys.executable, "-c", GREEDY_CHILD], seconds=3.0, cwd=tmp_path)
    assert ran.stopped
    assert ran.exit == -15
    if ran.stdout:  # else three seconds were too few to start Python twice
        assert ran.peak_rss_mb > 80


def test_a_contestant_that_ends_by_itself_is_left_alone(tmp_path):
    ran = timed_run.run([sys.executable, "-c", "print(6 * 7)"], seconds=60.0, cwd=tmp_path)
    assert (ran.stdout, ran.exit, ran.stopped) == (b"42\n", 0, False)
    assert ran.cpu_seconds > 0


def test_an_unknown_benchmark_is_named_and_refused():
    ran = subprocess.run([sys.executable, BENCHMARKS / "run.py", "sped"], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "`sped`" in ran.stderr


@pytest.mark.timeout(240)
def test_the_memory_benchmark_runs_two_crawls_to_their_limit():
    command = [sys.executable, BENCHMARKS / "memory.py", "--small", "60", "--large", "120", "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    small, large = json.loads(ran.stdout)["runs"]
    assert small["pages"] >= 60
    assert large["pages"] >= 120
    assert small["peak_rss_mb"] > 0
    assert {small["exit"], large["exit"]} == {3}


@given(st.integers(6, 15))
def test_the_interval_holds_the_median_as_often_as_it_says(count):
    """All ways in which values fall below or above the median are equally likely: count them."""
    low, high = compare_commits.interval([float(value) for value in range(count)])
    held = sum(
        low < below <= high  # so many of the values lie below the median
        for below in (bits.bit_count() for bits in range(2**count))
    )
    assert held / 2**count >= 0.95
    narrower = sum(low + 1 < bits.bit_count() <= high - 1 for bits in range(2**count))
    assert narrower / 2**count < 0.95


@given(st.lists(st.lists(st.sampled_from("a b c d e".split()), max_size=12), max_size=6))
def test_the_truth_about_duplicates_is_the_jaccard_index_of_their_shingles(pages):
    def shingles(words):
        return {tuple(words[at : at + 4]) for at in range(len(words) - 3)}

    found = duplicates.alike([" ".join(words) for words in pages])
    for (i, one), (j, other) in itertools.combinations(enumerate(map(shingles, pages)), 2):
        share = len(one & other) / len(one | other) if one | other else 0.0
        assert found.get((i, j), 0.0) == pytest.approx(share if share >= 0.4 else 0.0)


def test_marks_are_judged_by_their_predictions_for_later_pages():
    rng = random.Random(5)
    words = [f"word{n}" for n in range(4000)]
    original = [rng.choice(words) for _ in range(400)]
    copy = [*original[:200], "changed", *original[200:]]
    others = [[rng.choice(words) for _ in range(400)] for _ in range(20)]
    judged = duplicates.score([" ".join(page) for page in (original, copy, *others)], rng)
    assert (judged.pages, judged.named, judged.rightly) == (22, 1, 1)
    assert (judged.pairs, judged.followers, judged.followers_named) == (1, 1, 1)
