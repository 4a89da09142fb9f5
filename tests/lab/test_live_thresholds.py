"""Live threshold control on small crawls: cheaper than fixed concurrency, and close to its predictions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fieldmouse_lab.papers.thresholds import live
from fieldmouse_lab.slow_indexer import SlowIndexerSetup, crawl_with_slow_indexer

SMALL = SlowIndexerSetup(live.UNEVEN_SERVICE, time=160.0, pages=6000)


@pytest.fixture(scope="module")
def one() -> live.LiveTrial:
    return live.run_trial(SMALL, 21, lambda done, what: None, control__every="30s", control__explore="5s")


def test_a_controlled_crawl_costs_less_than_any_fixed_concurrency(one: live.LiveTrial) -> None:
    assert sorted(one.fixed) == [1, 2, 3, 4]
    assert one.cost < min(one.fixed.values())
    assert one.saving > 0.1


def test_starvation_loss_and_response_are_close_to_the_prediction(one: live.LiveTrial) -> None:
    found = {agreement.measure: agreement for agreement in live.check_predictions(one.governed)}
    assert {"starvation", "loss", "response"} <= set(found)
    for agreement in found.values():
        assert agreement.agrees, agreement


def test_a_prediction_off_by_a_factor_of_two_is_detected(one: live.LiveTrial) -> None:
    """The allowance must not be so wide that everything agrees."""
    starvation = next(one for one in live.check_predictions(one.governed) if one.measure == "starvation")
    certain = replace(starvation, chance=0.0, measured=starvation.predicted)
    assert certain.agrees
    assert not replace(certain, predicted=2 * certain.measured).agrees
    assert not replace(certain, predicted=certain.measured / 2).agrees


def test_the_same_seed_gives_the_same_crawl(tmp_path: Path) -> None:
    small = replace(SMALL, time=20.0)
    ways = [crawl_with_slow_indexer(small, tmp_path / name, 3, {"fetch.concurrency": 2}).totals[-1] for name in "ab"]
    assert ways[0] == ways[1]
