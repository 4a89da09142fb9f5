"""Live threshold control on small crawls: cheaper than its opponents, and close to its predictions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fieldmouse.control.buffer_trace import BufferTotals
from fieldmouse.queueing.model.phase_type import PhaseType
from fieldmouse_lab.papers.thresholds import live, opponents
from fieldmouse_lab.slow_indexer import SlowIndexerSetup, crawl_with_slow_indexer

SMALL = SlowIndexerSetup(live.UNEVEN_SERVICE, time=160.0, pages=6000)


@pytest.fixture(scope="module")
def one() -> live.LiveTrial:
    return live.crawl_situation(SMALL, "small", 21, opponents.AUTO)


@pytest.mark.parametrize("rule", ["fixed-wait-3", "fixed-lose-2", "static-lose-4-1-at-3", "aimd"])
def test_a_controlled_crawl_costs_less_than_other_rules(one: live.LiveTrial, rule: str) -> None:
    assert one.cost < live.crawl_situation(SMALL, "small", 21, rule).cost


def test_starvation_and_response_are_close_to_the_prediction(one: live.LiveTrial) -> None:
    assert one.course is not None
    found = {agreement.measure: agreement for agreement in live.check_predictions(one.course)}
    assert {"starvation", "response"} <= set(found)
    for agreement in found.values():
        assert agreement.agrees, agreement


def test_a_prediction_off_by_a_factor_of_two_is_detected(one: live.LiveTrial) -> None:
    """The allowance must not be so wide that everything agrees."""
    assert one.course is not None
    starvation = next(told for told in live.check_predictions(one.course) if told.measure == "starvation")
    certain = replace(starvation, chance=0.0, measured=starvation.predicted)
    assert certain.agrees
    assert not replace(certain, predicted=2 * certain.measured).agrees
    assert not replace(certain, predicted=certain.measured / 2).agrees


def test_a_changed_indexer_is_followed() -> None:
    setup = replace(
        SMALL, service=PhaseType.exponential(10.0), service_after=PhaseType.exponential(3.0), change_at=60.0
    )
    course = live.crawl_situation(setup, "changing", 22, opponents.AUTO).course
    assert course is not None
    start = course.readings[0].at
    first = [part.decision for part in course.chapters if part.decision.predicted and part.decision.at < start + 60.0]
    last = course.chapters[-1].decision
    assert last.predicted is not None
    assert first[-1].predicted is not None
    assert last.predicted.rate < 0.5 * first[-1].predicted.rate, "the indexer takes three times as long"
    assert last.limits[0] < first[-1].limits[0], "a slow indexer is kept busy by fewer waiting pages"


def test_the_same_seed_gives_the_same_crawl(tmp_path: Path) -> None:
    small = replace(SMALL, time=20.0)
    ways = [crawl_with_slow_indexer(small, tmp_path / name, 3, {"fetch.concurrency": 2}).totals[-1] for name in "ab"]
    assert ways[0] == ways[1]


def test_the_best_static_rule_is_chosen_over_all_seeds() -> None:
    costs = dict.fromkeys(((rule, seed) for rule in opponents.live_rules(SMALL) for seed in (1, 2)), 9.0)
    costs |= {("fixed-wait-2", 1): 1.0, ("fixed-wait-3", 1): 2.0, ("fixed-wait-3", 2): 2.0, ("aimd", 1): 0.0}
    trials = [live.LiveTrial("exponential", seed, rule, cost) for (rule, seed), cost in costs.items()]
    best = live.static_best(trials)
    assert [(one.rule, one.seed, one.cost) for one in best] == [
        (opponents.STATIC_BEST, 1, 2.0),
        (opponents.STATIC_BEST, 2, 2.0),
    ]


def test_aimd_halves_the_workers_of_a_full_buffer() -> None:
    control = opponents.aimd(SMALL)
    empty, full = (BufferTotals(seconds=1.0, page_seconds=level) for level in (0.0, float(SMALL.capacity)))
    reading = None
    rules = [control(reading, totals) for totals in (empty, empty, empty, empty, full, full, empty)]  # type: ignore[arg-type]
    assert [rule.robots for rule in rules if rule] == [(2,), (3,), (4,), (4,), (2,), (1,), (2,)]


def test_the_gradient_limit_falls_while_responses_take_longer() -> None:
    control = opponents.gradient(SMALL)
    quick, slow = (BufferTotals(seconds=1.0, served=10, served_seconds=10 * time) for time in (0.1, 2.0))
    limits = []
    for totals in [quick] * 40 + [slow] * 20:
        rule = control(None, totals)  # type: ignore[arg-type]
        assert rule is not None
        limits.append(rule.robots[0])
    assert limits[39] == SMALL.robots
    assert limits[-1] < SMALL.robots
