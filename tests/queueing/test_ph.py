"""Phase types, held against integrals, other people's closed forms, and their own samples."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg, stats

from fieldmouse.queueing.model.phase_type import PhaseType
from fieldmouse.queueing.model.validation import ModelError
from queueing.models import phase_types, rates


@given(phase_types(), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_a_moment_is_an_integral_of_the_tail(law: PhaseType, k: int) -> None:
    slowest = -max(np.linalg.eigvals(law.S).real)
    edges = np.concatenate([[0.0], np.geomspace(1e-3 * law.mean, 60 / slowest, 60)])  # beyond is below 1e-20
    nodes, weights = np.polynomial.legendre.leggauss(12)
    half = np.diff(edges)[:, None] / 2
    t = edges[:-1, None] + half * (1 + nodes)
    area = (half * weights * k * t ** (k - 1) * law.survival(t)).sum()
    assert law.moment(k) == pytest.approx(area, rel=1e-7)


@given(phase_types(), st.floats(0, 8))
@settings(max_examples=60, deadline=None)
def test_tail_and_density_are_those_of_the_matrix_exponential(law: PhaseType, means: float) -> None:
    t = means * law.mean
    at = law.alpha @ linalg.expm(law.S * t)
    assert float(law.survival(t)) == pytest.approx(at.sum(), rel=1e-9, abs=1e-13)
    assert float(law.cdf(t)) == pytest.approx(1 - at.sum(), abs=1e-12)
    assert float(law.pdf(t)) == pytest.approx(at @ -law.S.sum(axis=1), rel=1e-8, abs=1e-12)


@given(st.integers(1, 12), rates)
@settings(max_examples=30, deadline=None)
def test_an_erlang_time_is_a_gamma_time(n: int, rate: float) -> None:
    law, known = PhaseType.erlang(n, rate), stats.gamma(n, scale=1 / rate)
    t = np.linspace(0, 4, 9) * known.mean()
    assert law.mean == pytest.approx(known.mean(), rel=1e-12)
    assert law.variance == pytest.approx(known.var(), rel=1e-10)
    assert law.scv == pytest.approx(1 / n, rel=1e-10)
    assert law.cdf(t) == pytest.approx(known.cdf(t), abs=1e-12)
    assert law.pdf(t) == pytest.approx(known.pdf(t), rel=1e-9, abs=1e-12)


def test_a_tail_keeps_its_digits_where_it_is_tiny() -> None:
    law = PhaseType.hyperexponential([0.25, 0.75], [0.5, 40.0])
    for t in (1.0, 30.0, 400.0):
        assert float(law.survival(t)) == pytest.approx(0.25 * math.exp(-0.5 * t), rel=1e-11)


def test_there_is_no_time_before_zero() -> None:
    law = PhaseType.exponential(2.0)
    assert law.cdf([-1.0, 0.0]).tolist() == [0.0, 0.0]
    assert law.pdf(-1.0) == 0.0


@given(phase_types(), st.integers(0, 2**32))
@settings(max_examples=15, deadline=None)
def test_samples_follow_the_law(law: PhaseType, seed: int) -> None:
    drawn = law.sample(np.random.default_rng(seed), 4000)
    assert stats.kstest(drawn, law.cdf).pvalue > 1e-7


@given(phase_types(), rates)
@settings(max_examples=30, deadline=None)
def test_a_faster_clock_shortens_every_moment(law: PhaseType, factor: float) -> None:
    fast = law.with_scaled_rates(factor)
    assert fast.mean == pytest.approx(law.mean / factor)
    assert fast.scv == pytest.approx(law.scv)


def test_an_exponential_law_is_known_whatever_its_phases() -> None:
    paper = PhaseType([0.3, 0.7], [[-0.6, 0.4], [0.1, -0.3]])  # left at rate 0.2 from both
    assert paper.is_exponential
    assert paper.rate == pytest.approx(0.2, rel=1e-15)
    settled = PhaseType([0.5, 0.5], [[-3.0, 0.5], [1.0, -2.5]])  # alpha S = -2 alpha, though exits differ
    assert settled.is_exponential
    assert settled.survival([0.5, 3.0]) == pytest.approx(np.exp(-2 * np.array([0.5, 3.0])))
    assert PhaseType([1.0, 0.0], [[-2.0, 0.0], [0.0, -9.0]]).is_exponential  # the second is never entered
    apart = [[-0.6, 0.4, 0.0], [0.1, -0.3, 0.0], [1.0, 1.0, -9.0]]
    assert PhaseType([0.3, 0.7, 0.0], apart).is_exponential  # nor is the third
    assert not PhaseType([0.4, 0.6], [[-3, 1], [2, -3]]).is_exponential
    assert not PhaseType.erlang(2, 1.0).is_exponential


@given(phase_types())
@settings(max_examples=30, deadline=None)
def test_an_exponential_law_is_claimed_only_where_the_moments_are_exponential(law: PhaseType) -> None:
    if law.is_exponential:
        assert law.scv == pytest.approx(1.0, rel=1e-9)
        assert law.moment(3) == pytest.approx(6 * law.mean**3, rel=1e-9)
    assert law.rate == pytest.approx(1 / law.mean)


def test_a_time_that_never_ends() -> None:
    never = PhaseType.never()
    assert never.is_never
    assert never.is_exponential
    assert never.mean == math.inf
    assert never.rate == 0
    assert never.survival([0.0, 1e9]).tolist() == [1.0, 1.0]
    assert np.isinf(never.sample(np.random.default_rng(0), 3)).all()


@pytest.mark.parametrize(
    ("alpha", "S", "complaint"),
    [
        ([0.4, 0.5], [[-3, 1], [2, -3]], "alpha sums to 0.9, not 1"),
        ([1.2, -0.2], [[-3, 1], [2, -3]], "alpha[1] is -0.2: it must not be negative"),
        ([0.4, 0.6], [[-3, 1], [2, 3]], "S[1][1] is +3: a diagonal entry must be negative"),
        ([0.4, 0.6], [[-3, -1], [2, -3]], "S[0][1] is -1: only diagonal entries may be negative"),
        ([0.4, 0.6], [[-3, 1], [4, -3]], "row 1 of S sums to +1"),
        ([0.4, 0.6], [[-3, 3], [2, -2]], "never ends once in phase 0"),
        ([1.0], [[-3, 1], [2, -3]], "S has 2 rows: it must have 1"),
        ([0.4, 0.6], [[-3, 1], [2]], "S[1] has 1 entry: it must have 2"),
        ([0.4, 0.6], [[-3, 1], [2, math.nan]], "S[1][1] is nan: it must be finite"),
        ([0.4, 0.6], [[-3, "1"], [2, -3]], 'S[0][1] is "1": it must be a number'),
        ([], [], "alpha is empty"),
    ],
)
def test_a_wrong_entry_is_named(alpha: list[float], S: list[list[float]], complaint: str) -> None:
    with pytest.raises(ModelError) as trouble:
        PhaseType(alpha, S)  # type: ignore[arg-type]
    assert complaint in str(trouble.value)


def test_rounding_in_the_file_is_put_right() -> None:
    rounded = PhaseType([0.3, 0.7000000003], [[-3.0, 3.00000002], [1.0, -2.0]])
    assert rounded.alpha.sum() == pytest.approx(1.0, rel=1e-15)
    assert rounded.exit_rates.tolist() == [0.0, 1.0]
    assert rounded.S[0].sum() == 0
