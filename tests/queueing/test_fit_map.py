"""Arrival processes of order two from moments and correlations, held against the processes themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fieldmouse.queueing.fit.map_fit import LEAST_SCV, OrderTwoMap, fit_decay, match_order_two_map, third_moment_range
from fieldmouse.queueing.model.arrivals import BatchArrivals

rates = st.floats(0.05, 20.0)
means = st.floats(1e-3, 1e3)
shares = st.floats(0.0, 1.0)


def process(found: OrderTwoMap) -> BatchArrivals:
    return BatchArrivals((found.D0, found.D1))


@st.composite
def any_process(draw: st.DrawFn) -> BatchArrivals:
    """Any Markovian arrivals of two phases, all rates between 1/20 and 20."""
    D1 = np.array([[draw(rates), draw(rates)], [draw(rates), draw(rates)]])
    D0 = np.array([[0.0, draw(rates)], [draw(rates), 0.0]])
    return BatchArrivals((D0 - np.diag((D0 + D1).sum(axis=1)), D1))


@settings(max_examples=80, deadline=None)
@given(any_process())
def test_every_process_of_two_phases_is_found_again_from_three_moments_and_its_decay(known: BatchArrivals) -> None:
    law = known.intervals
    # The further from exponential, the better three moments tell two phases apart.
    assume(abs(law.scv - 1) > 1e-3)
    decay = np.linalg.det(np.linalg.solve(-known.D[0], known.D[1]))  # the second eigenvalue of that matrix
    least, _ = third_moment_range(law.mean, law.scv)
    assume(law.moment(3) > least)  # nearer to the bound one phase would take no time
    found = process(match_order_two_map(law.mean, law.scv, law.moment(3), decay))
    for k in (1, 2, 3, 4, 5):  # the fourth and fifth moments were not told
        assert found.intervals.moment(k) == pytest.approx(law.moment(k), rel=1e-6)
    for lag in (1, 2, 3):
        assert found.lag_correlation(lag) == pytest.approx(known.lag_correlation(lag), abs=1e-7)


@settings(max_examples=80, deadline=None)
@given(means, st.floats(0.0, 40.0), st.floats(0.2, 20.0), st.floats(-2.0, 2.0))
def test_mean_and_variance_are_met_whatever_else_is_asked_for(
    mean: float, scv: float, third: float, decay: float
) -> None:
    found = match_order_two_map(mean, scv, third * 6 * mean**3, decay)
    law = process(found).intervals
    assert law.mean == pytest.approx(mean, rel=1e-6)
    assert law.scv == pytest.approx(max(scv, LEAST_SCV), rel=1e-5, abs=2e-6)
    assert law.moment(3) == pytest.approx(found.third, rel=1e-5)
    assert process(found).correlation == pytest.approx(found.first_correlation, abs=1e-6)
    if scv < LEAST_SCV:
        assert any("vary less" in miss for miss in found.misses)
    if abs(decay) > 1:
        assert found.misses


@settings(max_examples=80, deadline=None)
@given(means, st.floats(1.01, 40.0), st.floats(0.0, 0.99))
def test_what_varies_more_than_exponential_can_hang_together_as_long_as_one_likes(
    mean: float, scv: float, decay: float
) -> None:
    found = match_order_two_map(mean, scv, None, decay)
    assert found.misses == ()
    assert found.D0[0, 1] == found.D0[1, 0] == 0, "as Diamond and Alfa have it"
    assert process(found).correlation == pytest.approx(decay * (scv - 1) / (2 * scv), abs=1e-9)


@settings(max_examples=80, deadline=None)
@given(st.floats(0.55, 30.0), st.floats(-0.95, 0.95))
def test_the_decay_is_read_off_correlations(scv: float, decay: float) -> None:
    assume(abs(scv - 1) > 0.05)
    correlations = [decay**k * (scv - 1) / (2 * scv) for k in range(1, 9)]
    assert fit_decay(correlations, scv) == pytest.approx(decay, abs=1e-4)


def test_no_correlations_mean_no_decay() -> None:
    assert fit_decay([], 3.0) == 0.0
    assert fit_decay([0.1, 0.1], 1.0) == 0.0, "exponential intervals cannot hang together in two phases"


def test_a_renewal_process_of_order_two_may_vary_as_little_as_erlang() -> None:
    found = process(match_order_two_map(3.0, 0.5))
    assert found.intervals.scv == pytest.approx(0.5)
    assert found.correlation == pytest.approx(0.0, abs=1e-12)


def test_the_printed_moments_of_the_inria_crawler_give_nearly_the_printed_process() -> None:
    """The paper prints correlations ten times too large for a process of order two (see the notes)."""
    mean, variance = 212.03, 51352.38
    scv = variance / mean**2
    decay = fit_decay([0.0622, 0.0574, 0.0555, 0.0537, 0.0523, 0.0507], scv)
    found = match_order_two_map(mean, scv, None, decay)
    assert found.misses == ()
    printed = np.array([[0.0037, 6.58e-5], [1.3e-4, 0.0064]])
    assert np.diag(found.D1) == pytest.approx(np.diag(printed), rel=0.02)
    assert found.D1[0, 1] == pytest.approx(printed[0, 1], rel=0.05)
    assert found.D1[1, 0] == pytest.approx(printed[1, 0], rel=0.2), "the smallest rate hangs on the last digits"
    ours, theirs = process(found), BatchArrivals((-np.diag(printed.sum(axis=1)), printed))
    assert ours.rate == pytest.approx(theirs.rate, rel=0.01)
    assert ours.variance == pytest.approx(theirs.variance, rel=0.02)
    for lag in range(1, 7):
        assert ours.lag_correlation(lag) == pytest.approx(theirs.lag_correlation(lag), abs=0.002)


def test_correlations_as_printed_cannot_be_had_and_this_is_said() -> None:
    scv = 51352.38 / 212.03**2
    found = match_order_two_map(212.03, scv, None, decay=10.0)
    assert "out of reach" in found.misses[0]
    assert process(found).correlation < 0.0623
