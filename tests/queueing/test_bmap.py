"""Batch arrivals, held against closed forms, the paper's printed figures, and their own samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fieldmouse.queueing.model.arrivals import BatchArrivals, stationary_distribution
from fieldmouse.queueing.model.validation import IntArray, ModelError
from queueing.models import rates, streams, written

PRINTED = {  # robots: lambda, c_cor, lambda_g (section 7 of the paper)
    "1": (1.28, -0.218, 0.853),
    "2": (2.41, -0.111, 1.208),
    "3": (3.125, 0.02, 2.5),
    "4": (4.64, 0.035, 1.43),
}


@pytest.mark.parametrize("robots", PRINTED)
def test_the_streams_of_the_paper_have_the_printed_figures(robots: str) -> None:
    stream = BatchArrivals(written("thresholds")["modes"][robots])
    rate, correlation, group_rate = PRINTED[robots]
    assert stream.rate == pytest.approx(rate, abs=0.005)
    assert stream.correlation == pytest.approx(correlation, abs=0.001)
    assert stream.batch_rate == pytest.approx(group_rate, abs=0.002)


def test_the_inria_stream_has_the_printed_figures() -> None:
    stream = BatchArrivals(written("inria")["modes"]["1"])
    assert stream.rate == pytest.approx(0.0153, abs=0.00005)
    assert stream.rate / stream.batch_rate == pytest.approx(3.263389905223716, rel=1e-6)
    assert stream.intervals.mean == pytest.approx(212.03, rel=0.005)
    assert stream.variance == pytest.approx(51352.38, rel=0.03)
    assert stream.correlation == pytest.approx(0.0622, abs=0.006)


@given(rates, rates)
@settings(max_examples=30, deadline=None)
def test_a_poisson_stream_forgets(rate: float, twos: float) -> None:
    stream = BatchArrivals((np.array([[-rate - twos]]), np.array([[rate]]), np.array([[twos]])))
    assert stream.rate == pytest.approx(rate + 2 * twos)
    assert stream.batch_rate == pytest.approx(rate + twos)
    assert stream.rate / stream.batch_rate == pytest.approx((rate + 2 * twos) / (rate + twos))
    assert stream.variance == pytest.approx((rate + twos) ** -2)
    assert stream.correlation == pytest.approx(0, abs=1e-12)


@given(rates, rates, rates, rates)
@settings(max_examples=30, deadline=None)
def test_a_modulated_stream_has_the_textbook_moments(a: float, b: float, ab: float, ba: float) -> None:
    """Fischer and Meier-Hellstern (1993), for a switch between two Poisson streams."""
    stream = BatchArrivals((np.array([[-a - ab, ab], [ba, -b - ba]]), np.diag([a, b])))
    rate = (a * ba + b * ab) / (ab + ba)
    assert stream.rate == pytest.approx(rate)
    scv = 1 + 2 * ab * ba * (a - b) ** 2 / ((ab + ba) ** 2 * (a * b + a * ba + b * ab))
    assert stream.intervals.scv == pytest.approx(scv)
    fading = a * b / (a * b + a * ba + b * ab)
    for lag in (1, 2, 5):
        assert stream.lag_correlation(lag) == pytest.approx(fading**lag * (scv - 1) / (2 * scv), abs=1e-11)


@given(streams(phases=2), st.integers(1, 6))
@settings(max_examples=30, deadline=None)
def test_with_two_phases_correlations_fall_by_the_same_factor(stream: BatchArrivals, lag: int) -> None:
    jump = np.linalg.solve(-stream.D[0], stream.total_arrival_rates)
    factor = np.trace(jump) - 1  # the eigenvalue that is not 1
    assert stream.lag_correlation(lag + 1) == pytest.approx(factor * stream.lag_correlation(lag), abs=1e-10)


@given(rates, st.floats(0.1, 0.9), rates, rates)
@settings(max_examples=30, deadline=None)
def test_a_renewal_stream_is_uncorrelated(a: float, p: float, b: float, twos: float) -> None:
    out = np.array([a, b])
    again = np.outer(out, [p, 1 - p])
    share = twos / (1 + twos)
    stream = BatchArrivals((-np.diag(out), again * (1 - share), again * share))
    assert stream.correlation == pytest.approx(0, abs=1e-9)
    assert stream.intervals.mean == pytest.approx(p / a + (1 - p) / b)


@given(streams())
@settings(max_examples=30, deadline=None)
def test_shares_of_time_balance(stream: BatchArrivals) -> None:
    assert stream.phase_shares.sum() == pytest.approx(1, rel=1e-14)
    assert stream.phase_shares @ stream.generator == pytest.approx(np.zeros(stream.phases), abs=1e-10)


def test_shares_of_time_keep_their_digits_where_they_are_tiny() -> None:
    up, down = 1e-9, 1.0
    chain = np.diag([up] * 4, 1) + np.diag([down] * 4, -1)
    chain -= np.diag(chain.sum(axis=1))
    assert stationary_distribution(chain) / stationary_distribution(chain)[0] == pytest.approx(
        (up / down) ** np.arange(5.0), rel=1e-13
    )


@given(streams(), rates)
@settings(max_examples=30, deadline=None)
def test_a_faster_stream_is_the_same_stream(stream: BatchArrivals, factor: float) -> None:
    fast = stream.scaled(factor)
    assert fast.rate == pytest.approx(factor * stream.rate)
    assert fast.intervals.scv == pytest.approx(stream.intervals.scv)
    assert fast.correlation == pytest.approx(stream.correlation, abs=1e-9)


@given(streams(), st.integers(0, 2**32))
@settings(max_examples=15, deadline=None)
def test_samples_have_the_law_of_the_intervals_and_the_sizes(stream: BatchArrivals, seed: int) -> None:
    """Intervals may be correlated, so every 40th is taken; sizes likewise."""
    at, sizes = stream.sample(np.random.default_rng(seed), 120_000)
    apart = np.diff(at, prepend=0.0)[::40]
    assert stats.kstest(apart, stream.intervals.cdf).pvalue > 1e-7
    assert sizes.mean() == pytest.approx(stream.rate / stream.batch_rate, abs=6 * _error(sizes) + 1e-9)


def test_samples_are_correlated_as_they_should_be() -> None:
    for robots in PRINTED:
        stream = BatchArrivals(written("thresholds")["modes"][robots])
        apart = np.diff(stream.sample(np.random.default_rng(int(robots)), 400_000).times, prepend=0.0)
        apart -= stream.intervals.mean
        for lag in (1, 2):
            seen = float(np.mean(apart[:-lag] * apart[lag:]) / stream.variance)
            assert seen == pytest.approx(stream.lag_correlation(lag), abs=0.012)


def _error(sizes: IntArray) -> float:
    """Standard error of the mean of a sequence with memory, by stretches."""
    stretches = sizes[: len(sizes) // 60 * 60].reshape(60, -1).mean(axis=1)
    return float(stretches.std(ddof=1) / np.sqrt(60))


@pytest.mark.parametrize(
    ("D", "complaint"),
    [
        ([[[-1.0]]], "at least two matrices"),
        ([[[-1.0]], [[0.0]]], "brings no page"),
        ([[[-2.0, 1.0], [0.0, -1.0]], [[1.0, 0.0], [0.5, 0.6]]], "D0[1][1] is -1: row 1 of D0 + D1 + ... must"),
        ([[[-2.0, 1.0], [0.0, -1.0]], [[1.0, 0.0], [-0.5, 1.5]]], "D1[1][0] is -0.5: it must not be negative"),
        ([[[-2.0, 1.0], [0.0, 1.0]], [[1.0, 0.0], [0.5, 0.5]]], "D0[1][1] is +1: a diagonal entry must be"),
        ([[[-2.0, 1.0], [0.0, -1.0]], [[1.0, 0.0], [0.0, 1.0]]], "never gets from phase 1 to phase 0"),
        ([[[-2.0, 1.0], [0.0, -1.0]], [[1.0]]], "D1 has 1 row: it must have 2"),
    ],
)
def test_a_wrong_entry_is_named(D: list[list[list[float]]], complaint: str) -> None:
    with pytest.raises(ModelError) as trouble:
        BatchArrivals(D)  # type: ignore[arg-type]
    assert complaint in str(trouble.value)


def test_empty_batches_in_between_do_not_end_the_list() -> None:
    stream = BatchArrivals(([[-2.0]], [[1.0]], [[0.0]], [[0.0]], [[1.0]], [[0.0]]))  # type: ignore[arg-type]
    assert stream.largest_batch == 4
    assert stream.rate == pytest.approx(5.0)
    assert set(stream.sample(np.random.default_rng(1), 200).sizes.tolist()) == {1, 4}


def test_rounding_in_the_file_is_put_right() -> None:
    stream = BatchArrivals(written("inria")["modes"]["3"])  # printed shares of batches miss 1 by 4e-9
    assert abs(stream.generator.sum(axis=1)).max() < 1e-16
    assert -stream.D[0].diagonal() == pytest.approx(stream.total_arrival_rates.sum(axis=1), rel=1e-14)
