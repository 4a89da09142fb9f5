"""Controlled concurrency: nothing is lost, hosts get their delays, and rules are learned and kept."""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

from fieldmouse.cli.main import run_command as fieldmouse
from fieldmouse.control.buffer_trace import BufferEvent, read_trace_rows
from fieldmouse.control.concurrency_decision_log import control_periods
from fieldmouse.crawler.indexing_stage import MAX_DROPS
from fieldmouse.testing import virtual_time
from fieldmouse.testing.meadow.fetcher import MeadowFetcher
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.testing.meadow.server import Arrival
from fieldmouse_lab.slow_indexer import SlowIndexerLane, slow_lane_class

from .virtual_time import bottled_crawl, bottled_kill, outcomes

MEADOW = MeadowOptions(
    hosts=12, pages=150, seed=8, page_kb=1.0, links=20, latency=0.1, robots=1.0, busy=0.0, server_error=0.0, broken=0.0
)
TIGHT = {
    "network__allow_private": True,
    "politeness__delay": "300ms",
    "control__mode": "thresholds",
    "control__robots": [8, 2],
    "control__limits": [3],
    "buffer__pages": 6,
    "buffer__obsolete_after": "400ms",
}
"""Room for few pages, and a short time limit for those that wait."""


def lane(seed: int = 1, mean: float = 0.15) -> type[SlowIndexerLane]:
    chance = np.random.default_rng(seed)
    return slow_lane_class(lambda: float(chance.exponential(mean)))


def wanted(meadow: Meadow) -> list[str]:
    return sorted(fact.url for fact in meadow.true_urls() if fact.allowed and fact.status == 200)


def stored(path: Path) -> list[str]:
    return sorted(row.url for row in outcomes(path) if row.kind == "page")


def check_quiet(arrivals: list[Arrival], delay: float) -> None:
    visits: dict[str, list[float]] = defaultdict(list)
    for arrival in arrivals:
        assert not arrival.busy, "two requests overlap at one address"
        visits[arrival.host].append(arrival.t)
    for host, times in visits.items():
        gaps = [later - sooner for sooner, later in itertools.pairwise(times)]
        assert min(gaps) >= delay - 1e-6, host


def test_pages_dropped_for_room_or_age_are_fetched_again(tmp_path: Path) -> None:
    meadow = Meadow(MEADOW)
    summary, web = bottled_crawl(
        tmp_path / "c", lambda clock: MeadowFetcher(meadow, clock), meadow.seeds, lane=lane(), **TIGHT
    )
    fates = Counter(read_trace_rows(tmp_path / "c" / "pages.trace")["fate"].tolist())
    assert min(fates[BufferEvent.DROPPED], fates[BufferEvent.OBSOLETE]) > 10, "the test is about these"
    assert summary.exit == summary.lost == summary.waiting == 0
    assert stored(tmp_path / "c") == wanted(meadow)
    check_quiet(web.arrivals, 0.3)
    # Every answered request reached the buffer, and each of its pages has one outcome.
    arrived = fates[BufferEvent.SERVED] + fates[BufferEvent.DROPPED] + fates[BufferEvent.OBSOLETE]
    assert arrived == len(web.arrivals)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_killed_at_any_moment_no_dropped_page_loses_its_url(tmp_path: Path, seed: int) -> None:
    meadow, chance = Meadow(MEADOW), random.Random(seed)
    now, kills, dropped = virtual_time.EPOCH, 0, 0
    arrivals: list[Arrival] = []
    ended = None
    while ended is None:
        after = chance.uniform(0.2, 6.0) if kills < 8 else 1e6
        ended, web = bottled_kill(
            tmp_path / "c",
            lambda clock: MeadowFetcher(meadow, clock),
            meadow.seeds,
            after=after,
            epoch=now,
            lane=lane(chance.randrange(1000)),
            storage__checkpoint="1s",
            **TIGHT,
        )
        kills += ended is None
        now += after + chance.choice([0.0, 5.0])
        arrivals += web.arrivals
    rows = read_trace_rows(tmp_path / "c" / "pages.trace")
    dropped = int(np.isin(rows["fate"], (BufferEvent.DROPPED, BufferEvent.OBSOLETE)).sum())
    assert kills == 8
    assert dropped > 10
    assert ended.exit == ended.lost == ended.waiting == 0
    assert stored(tmp_path / "c") == wanted(meadow)
    check_quiet(arrivals, 0.3)


def test_a_page_that_cannot_wait_is_served_by_an_idle_shard(tmp_path: Path) -> None:
    meadow = Meadow(MEADOW)
    summary, _ = bottled_crawl(
        tmp_path / "c",
        lambda clock: MeadowFetcher(meadow, clock),
        meadow.seeds,
        crawl__time="1h",
        **{**TIGHT, "buffer__obsolete_after": "1e-9s"},
    )
    assert summary.exit == 0
    assert BufferEvent.OBSOLETE not in read_trace_rows(tmp_path / "c" / "pages.trace")["fate"]
    assert stored(tmp_path / "c") == wanted(meadow)


def test_a_page_is_dropped_only_a_limited_number_of_times(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    meadow = Meadow(MEADOW)
    # No page can wait: room for one page, in service, and each takes longer than many fetches do.
    summary, web = bottled_crawl(
        tmp_path / "c",
        lambda clock: MeadowFetcher(meadow, clock),
        meadow.seeds,
        lane=lane(mean=8.0),
        **{**TIGHT, "buffer__pages": 1, "control__robots": [8], "control__limits": []},
    )
    asked = Counter((arrival.host, arrival.path) for arrival in web.arrivals)
    assert summary.exit == summary.lost == summary.waiting == 0
    assert stored(tmp_path / "c") == wanted(meadow)
    assert max(asked.values()) == MAX_DROPS + 1, "the test is about these"
    assert len([record for record in caplog.records if "was fetched and dropped" in record.message]) == 1
    check_quiet(web.arrivals, 0.3)


def test_with_fixed_concurrency_a_full_buffer_makes_workers_wait(tmp_path: Path) -> None:
    meadow = Meadow(MEADOW)
    summary, web = bottled_crawl(
        tmp_path / "c",
        lambda clock: MeadowFetcher(meadow, clock),
        meadow.seeds,
        lane=lane(),
        **{**TIGHT, "control__mode": "fixed", "buffer__obsolete_after": "never"},
    )
    assert summary.exit == 0
    assert stored(tmp_path / "c") == wanted(meadow)
    asked = Counter((arrival.host, arrival.path) for arrival in web.arrivals)
    fates = Counter(read_trace_rows(tmp_path / "c" / "pages.trace")["fate"].tolist())
    assert fates[BufferEvent.DROPPED] == fates[BufferEvent.OBSOLETE] == 0
    assert set(asked.values()) == {1}


AUTO = {
    "network__allow_private": True,
    "politeness__delay": "0s",
    "robots__count": 4,
    "control__mode": "auto",
    "control__modes": [1, 4],
    "control__every": "20s",
    "control__pages": 50,
    "buffer__pages": 8,
    "cost__starvation": 10.0,
    "cost__response": 1.0,
}


def crawl_under_auto(path: Path, seconds: int, *, epoch: float = virtual_time.EPOCH, mean: float = 0.1) -> None:
    meadow = Meadow(MeadowOptions(hosts=30, pages=4000, seed=2, page_kb=1.0, links=10, latency=0.2, robots=0.0))
    bottled_crawl(
        path,
        lambda clock: MeadowFetcher(meadow, clock),
        meadow.seeds,
        lane=lane(mean=mean),
        epoch=epoch,
        crawl__time=f"{seconds}s",
        **AUTO,
    )


def test_a_learned_rule_survives_resume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c"
    crawl_under_auto(path, 80)
    told = control_periods(path / "control.log")
    first, *learned = [part.decision for part in told]
    assert (first.robots, first.limits, first.predicted) == ((4, 0), (4,), None)
    assert learned
    for decision in learned:
        # Four fetch workers overrun this indexer, and one starves it.
        assert decision.robots[0] == 4
        assert decision.robots[-1] == 0
        assert decision.predicted is not None
        assert decision.predicted.starvation < 0.1
    measured = told[-1].period
    assert measured is not None
    assert measured.measured.starvation < 0.15
    assert measured.measured.loss == 0.0
    assert [part.decision.number for part in told] == list(range(1, len(told) + 1))

    # Stopped before it could decide again, it still knows the learned rule in the next run.
    crawl_under_auto(path, 8, epoch=virtual_time.EPOCH + 1000.0)
    crawl_under_auto(path, 8, epoch=virtual_time.EPOCH + 2000.0)
    after = [part.decision for part in control_periods(path / "control.log")[len(told) :]]
    assert len(after) == 2
    for decision in after:
        assert (decision.robots, decision.limits) == (told[-1].decision.robots, told[-1].decision.limits)
        assert "resumed" in decision.why

    assert fieldmouse(["control", str(path), "--last", "3"]) == 0
    out, err = capsys.readouterr()
    assert out.count("measured") == 3
    assert "newest rule: as before the crawl was resumed" in err


def test_all_workers_run_where_the_indexer_is_not_the_limit(tmp_path: Path) -> None:
    crawl_under_auto(tmp_path / "c", 80, mean=0.01)
    told = [part.decision for part in control_periods(tmp_path / "c" / "control.log")]
    assert [(decision.robots, decision.limits) for decision in told] == [((4, 0), (4,))] * 2
    assert "the indexer is not the limit" in told[1].why


def test_with_auto_no_page_is_dropped_and_none_is_fetched_twice(tmp_path: Path) -> None:
    meadow = Meadow(MEADOW)
    summary, web = bottled_crawl(
        tmp_path / "c",
        lambda clock: MeadowFetcher(meadow, clock),
        meadow.seeds,
        lane=lane(mean=0.3),
        **{**TIGHT, "control__mode": "auto", "buffer__obsolete_after": "never", "control__pages": 20},
    )
    assert summary.exit == summary.lost == summary.waiting == 0
    assert stored(tmp_path / "c") == wanted(meadow)
    fates = Counter(read_trace_rows(tmp_path / "c" / "pages.trace")["fate"].tolist())
    assert fates[BufferEvent.DROPPED] == fates[BufferEvent.OBSOLETE] == 0
    assert len(control_periods(tmp_path / "c" / "control.log")) > 1, "the test is about a chosen rule"
    assert set(Counter((arrival.host, arrival.path) for arrival in web.arrivals).values()) == {1}
