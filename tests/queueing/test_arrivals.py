"""The four ways of saying how robots bring pages, held against robots that are simply put side by side."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldmouse.queueing.model import arrivals
from fieldmouse.queueing.model.arrivals import BatchArrivals
from fieldmouse.queueing.model.validation import FloatArray, ModelError
from queueing.models import square, streams

QUICK = settings(max_examples=25, deadline=None)


def merged(parts: list[tuple[FloatArray, FloatArray]]) -> FloatArray:
    """When batches come if several robots work side by side, up to when the first of them stops."""
    end = min(at[-1] for at, _ in parts)
    everything = np.sort(np.concatenate([at for at, _ in parts]))
    return everything[everything <= end]


def figures(at: FloatArray) -> tuple[float, float, float]:
    """Mean and variance of the intervals, and the correlation between neighbours."""
    apart = np.diff(at)
    return float(apart.mean()), float(apart.var()), float(np.corrcoef(apart[:-1], apart[1:])[0, 1])


BURSTY = BatchArrivals(([[-1.1, 0.1], [0.3, -9.3]], [[0.6, 0.0], [0.0, 8.0]], [[0.4, 0.0], [0.0, 1.0]]))  # type: ignore[arg-type]
STEADY = BatchArrivals(([[-2.0, 2.0], [0.0, -2.0]], [[0.0, 0.0], [2.0, 0.0]]))  # type: ignore[arg-type]


def test_independent_robots_are_streams_side_by_side() -> None:
    modes = arrivals.independent_robots([BURSTY, STEADY])
    rng = np.random.default_rng(3)
    seen = figures(merged([BURSTY.sample(rng, 700_000), STEADY.sample(rng, 700_000)]))  # type: ignore[list-item]
    both = modes[2]
    assert seen[0] == pytest.approx(both.intervals.mean, rel=0.02)
    assert seen[1] == pytest.approx(both.variance, rel=0.04)
    assert seen[2] == pytest.approx(both.correlation, abs=0.02)
    assert abs(both.correlation) > 0.1, "the test would not see a stream without memory"


@given(st.lists(streams(most=2), min_size=1, max_size=3))
@QUICK
def test_of_independent_robots_the_first_ones_work(robots: list[BatchArrivals]) -> None:
    modes = arrivals.independent_robots(robots)
    assert list(modes) == list(range(1, len(robots) + 1))
    for active, both in modes.items():
        assert both.phases == np.prod([one.phases for one in robots])
        assert both.rate == pytest.approx(sum(one.rate for one in robots[:active]))
        assert both.batch_rate == pytest.approx(sum(one.batch_rate for one in robots[:active]))
    alone = modes[1]
    assert alone.variance == pytest.approx(robots[0].variance)
    assert alone.correlation == pytest.approx(robots[0].correlation, abs=1e-8)


def test_a_thinned_stream_forgets_batches_by_the_toss_of_a_coin() -> None:
    rng = np.random.default_rng(4)
    at, sizes = BURSTY.sample(rng, 900_000)
    heads = rng.random(len(at)) < 0.4
    half = arrivals.thinned_stream(BURSTY, [0.4, 1.0])[1]
    seen = figures(at[heads])
    assert half.rate == pytest.approx(0.4 * BURSTY.rate)
    assert sizes[heads].mean() == pytest.approx(half.rate / half.batch_rate, rel=0.01)
    assert seen[0] == pytest.approx(half.intervals.mean, rel=0.02)
    assert seen[1] == pytest.approx(half.variance, rel=0.04)
    assert seen[2] == pytest.approx(half.correlation, abs=0.02)


@given(streams(), st.floats(0.05, 0.95))
@QUICK
def test_thinning_changes_no_phase(common: BatchArrivals, q: float) -> None:
    modes = arrivals.thinned_stream(common, [q, 1.0])
    assert modes[1].generator == pytest.approx(common.generator)
    assert modes[2].rate == pytest.approx(common.rate)
    assert modes[1].rate / modes[1].batch_rate == pytest.approx(common.rate / common.batch_rate)


@pytest.mark.parametrize(("q", "wrong"), [([0.0, 1.0], 0), ([0.5, 0.5], 1), ([0.5, 1.5], 1)])
def test_a_share_that_cannot_be_is_named(q: list[float], wrong: int) -> None:
    with pytest.raises(ModelError, match=rf"q\[{wrong}\] is {q[wrong]:g}"):
        arrivals.thinned_stream(BatchArrivals.poisson(1.0), q)


@st.composite
def marks(draw: st.DrawFn) -> tuple[FloatArray, list[list[FloatArray]]]:
    n, robots = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    brought = [[square(draw, n) + 0.1 for _ in range(draw(st.integers(1, 3)))] for _ in range(robots)]
    D0 = square(draw, n)
    np.fill_diagonal(D0, 0.0)
    total = D0 + sum(sum(one) for one in brought)
    return D0 - np.diag(total.sum(axis=1)), brought


@given(marks())
@QUICK
def test_marked_robots_share_one_phase(made: tuple[FloatArray, list[list[FloatArray]]]) -> None:
    D0, brought = made
    modes = arrivals.marked_stream(D0, brought)
    everyone = modes[len(brought)]
    before = 0.0
    for active, stream in modes.items():
        assert stream.generator == pytest.approx(everyone.generator)
        share = sum(k * (everyone.phase_shares @ D).sum() for k, D in enumerate(brought[active - 1], 1))
        assert stream.rate - before == pytest.approx(share)
        before = stream.rate


def test_independent_poisson_robots_can_be_told_in_all_four_ways() -> None:
    one = BatchArrivals.poisson(2.0)
    told = [
        arrivals.independent_robots([one, one]),
        arrivals.thinned_stream(BatchArrivals.poisson(4.0), [0.5, 1.0]),
        arrivals.marked_stream([[-4.0]], [[[[2.0]]], [[[2.0]]]]),
        arrivals.explicit_modes({1: one, 2: [[[-4.0]], [[4.0]]]}),
    ]
    for modes in told:
        assert [modes[1].rate, modes[2].rate] == pytest.approx([2.0, 4.0])
        assert [modes[1].variance, modes[2].variance] == pytest.approx([1 / 4, 1 / 16])


def test_a_wrong_entry_is_named_with_its_mode() -> None:
    with pytest.raises(ModelError, match=r"mode 2, D1\[0\]\[0\] is -4: it must not be negative"):
        arrivals.explicit_modes({1: BatchArrivals.poisson(2.0), 2: [[[-4.0]], [[-4.0]]]})
