"""Choice of a rule from the trace: rates are found again, changes are followed, failed predictions noticed."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from fieldmouse.control.buffer_trace import ROW, BufferEvent, BufferTotals, Rows
from fieldmouse.control.cheapest_rule import FetchCount, choose_rule, newest_steady, observe
from fieldmouse.control.governor import FAILED_SECONDS, ControlRule, RuleHistory
from fieldmouse.policy.concurrency_thresholds import Thresholds
from fieldmouse.queueing.fit.phase_type_fit import FitError
from fieldmouse.queueing.model.model import CostWeights

WEIGHTS = CostWeights(loss=1.0, obs=1.0, sojourn=1.0, robots=0.05, star=10.0)


def served_in_turn(services: np.ndarray[tuple[int], np.dtype[np.float64]], expired_every: int = 0) -> Rows:
    """Pages of a server that is never idle; each waits 0.5 s, and some expire after 0.5 s."""
    rows = np.zeros(len(services), ROW)
    ends = np.cumsum(services)
    rows["at"], rows["stay"], rows["wait"] = 0.0, ends, 0.5
    if expired_every:
        rows["fate"][::expired_every] = BufferEvent.OBSOLETE
    return rows


def counts(rates: list[float], workers: float = 2.0) -> list[FetchCount]:
    """One count a second; `rates` are pages per second of one worker."""
    arrived = np.cumsum([0.0, *(workers * rate for rate in rates)])
    return [FetchCount(float(at), int(pages), workers * at) for at, pages in enumerate(arrived)]


@pytest.mark.parametrize("seed", range(5))
def test_rates_are_found_again(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = served_in_turn(rng.exponential(0.2, 2000), expired_every=5)
    seen = observe(rows, counts([5.0] * 60), since=0.0)
    assert seen.fetch_rate == pytest.approx(5.0)
    assert seen.service.mean == pytest.approx(0.25, rel=0.1), "four of five pages are served"
    assert seen.obsolescence == pytest.approx(0.2 / 0.5)
    assert seen.seconds == 60


@pytest.mark.parametrize("seed", range(5))
def test_only_measurements_after_a_change_are_used(seed: int) -> None:
    rng = np.random.default_rng(seed)
    before, after = rng.exponential(0.1, 2000), rng.exponential(0.3, 300)
    assert newest_steady(np.concatenate([before, after])).mean() == pytest.approx(0.3, rel=0.35)
    assert len(newest_steady(before)) == 2000
    seen = observe(served_in_turn(before), counts([20.0] * 100 + [5.0] * 40), since=0.0)
    assert seen.fetch_rate == pytest.approx(5.0, rel=0.3)


def test_steady_times_are_seldom_taken_for_changed() -> None:
    rng = np.random.default_rng(1)
    cut = sum(len(newest_steady(rng.exponential(1.0, 1000))) < 1000 for _ in range(300))
    assert cut <= 6


def test_too_few_pages_are_refused() -> None:
    rows = served_in_turn(np.ones(10))
    for known in ([], counts([5.0])[:1], counts([0.0] * 5)):
        with pytest.raises(FitError, match="too few"):
            observe(rows, known, since=0.0)


def test_the_chosen_rule_keeps_the_indexer_busy_and_the_buffer_short() -> None:
    rng = np.random.default_rng(1)
    seen = observe(served_in_turn(rng.exponential(0.1, 3000)), counts([5.0] * 60), since=0.0)
    chosen = choose_rule(seen, capacity=10, modes=(1, 2, 3, 4), weights=WEIGHTS, ways=("wait", "lose"))
    assert chosen.rule.robots[0] == 4
    assert chosen.rule.robots[-1] == 0
    assert chosen.predicted.starvation < 0.03
    assert chosen.cost < 0.75
    assert chosen.cost == pytest.approx(chosen.predicted.cost(WEIGHTS))


def totals(seconds: float, cost: float) -> BufferTotals:
    """Totals with this cost: all of it is starvation."""
    return BufferTotals(seconds=seconds, idle=seconds * cost / 10.0)


GOOD, BAD = (ControlRule(Thresholds((count,)), "wait") for count in (1, 2))


def test_after_a_failed_prediction_the_cheapest_rule_holds_for_longer_each_time() -> None:
    history = RuleHistory(WEIGHTS)
    history.add(GOOD, 0.0, totals(60.0, 1.0))
    now, waits = 0.0, []
    for _ in range(4):
        history.add(BAD, 0.9, totals(FAILED_SECONDS - 1, 3.0))
        assert history.fallback(now) is None, "too early to tell"
        history.add(BAD, 0.9, totals(1.0, 3.0))
        assert history.fallback(now) == GOOD
        waits.append(history.trusted_from - now)
        now = history.trusted_from
        history.add(GOOD, 0.0, totals(waits[-1], 1.0))
    assert waits == [FAILED_SECONDS * factor for factor in (2, 4, 8, 16)]


def test_a_rule_as_cheap_as_predicted_or_without_a_better_one_is_kept() -> None:
    history = RuleHistory(WEIGHTS)
    history.add(GOOD, 0.0, totals(60.0, 1.0))
    history.add(BAD, 0.9, totals(60.0, 1.0))
    assert history.fallback(0.0) is None
    history = RuleHistory(WEIGHTS)
    history.add(BAD, 0.9, totals(60.0, 3.0))
    assert history.fallback(0.0) is None, "nothing cheaper was seen"


def test_costs_from_before_a_change_are_forgotten() -> None:
    history = RuleHistory(WEIGHTS)
    history.add(GOOD, 1.0, totals(60.0, 1.0))
    history.add(BAD, 4.0, totals(60.0, 7.0))
    assert history.fallback(0.0) is None, "the cheap rule was measured while all was cheap"


def test_totals_are_added_field_by_field() -> None:
    one = BufferTotals(*range(1, len(BufferTotals.__struct_fields__) + 1))
    assert msgspec.structs.astuple(one.plus(one)) == tuple(2 * value for value in msgspec.structs.astuple(one))
    assert one.plus(one).since(one) == one
