"""Batches, pauses and modes in a trace: what was planted is found, and nothing is lost on the way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldmouse.queueing.fit.arrivals import find_batch_gap, find_pause_length, lag_correlations, split_arrivals_by_mode
from fieldmouse.queueing.fit.trace import Trace, TraceError

samples = st.integers(0, 2**32 - 1).map(np.random.default_rng)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Pages and switches at any times, some of them equal."""
    rng = draw(samples)
    pages, turns = draw(st.integers(1, 80)), draw(st.integers(0, 20))
    grid = draw(st.sampled_from([0.0, 0.1, 1.0]))
    arrived = np.sort(rng.exponential(3.0, pages).cumsum())
    switched = np.sort(rng.uniform(0, arrived[-1] * 1.2 + 1, turns))
    if grid:
        arrived, switched = np.round(arrived / grid) * grid, np.round(switched / grid) * grid
    mode = rng.integers(0, 4, turns)
    end = max(arrived[-1], switched[-1] if turns else 0.0)
    span = end - (switched[0] if turns else arrived[0])
    return Trace(arrived, rng.integers(1, 4, pages), span=span, switched=switched, mode=mode)


@settings(max_examples=150, deadline=None)
@given(traces(), st.sampled_from([0.0, 0.5, 5.0]), st.sampled_from([2.0, 10.0, np.inf]))
def test_every_page_every_interval_and_every_second_is_accounted_for(trace: Trace, gap: float, pause: float) -> None:
    seen = split_arrivals_by_mode(trace, gap, pause)
    found = list(seen.streams.values())
    assert sum(int(stream.sizes.sum()) for stream in found) == len(trace.arrived)
    batches = sum(len(stream.sizes) for stream in found)
    kept = sum(len(stream.whole) + len(stream.cut) for stream in found)
    # A switch in the very moment of a batch may leave nothing of an interval to be cut.
    assert batches - 1 - seen.pauses - len(trace.switched) <= kept <= batches - 1 - seen.pauses
    watched = sum(stream.seconds for stream in found)
    assert watched == pytest.approx(float(seen.pieces.lengths.sum()))
    assert int(seen.pieces.batch.sum()) == sum(stream.counted for stream in found)
    if pause == np.inf:
        start = min(trace.arrived[0], trace.switched[0]) if len(trace.switched) else trace.arrived[0]
        end = max(trace.arrived[-1], trace.switched[0] + trace.span) if len(trace.switched) else trace.arrived[-1]
        assert watched == pytest.approx(end - start)


@settings(max_examples=40, deadline=None)
@given(samples, st.integers(60, 5000), st.floats(1e-3, 1e3))
def test_pages_that_come_by_themselves_make_no_batches_and_no_pauses(
    rng: np.random.Generator, pages: int, mean: float
) -> None:
    """The rules are made so that a Poisson stream passes them but once in thousands of times."""
    steps = rng.exponential(mean, pages)
    assert find_batch_gap(steps) == 0.0
    assert find_pause_length(steps) == np.inf


@settings(max_examples=25, deadline=None)
@given(samples, st.floats(1e-3, 1e3), st.floats(1e-6, 1e-4))
def test_batches_that_were_planted_are_found(rng: np.random.Generator, mean: float, width: float) -> None:
    sizes = rng.choice([1, 2, 3, 8], 1000, p=[0.5, 0.3, 0.1, 0.1])
    at = np.repeat(rng.exponential(mean, 1000).cumsum(), sizes)
    arrived = np.sort(at + rng.uniform(0, width * mean, len(at)))
    seen = split_arrivals_by_mode(Trace(arrived, np.ones(len(at), np.int64)))
    assert seen.gap > 0
    found = np.bincount(seen.streams[1].sizes, minlength=9)[1:9] / len(seen.streams[1].sizes)
    # Two batches within a gap melt into one; the gap is far below the mean.
    assert found == pytest.approx(np.bincount(sizes, minlength=9)[1:9] / 1000, abs=0.03)


def test_pages_of_one_moment_are_one_batch_on_any_clock() -> None:
    arrived = np.repeat(np.arange(40.0), 3)
    assert set(split_arrivals_by_mode(Trace(arrived, np.ones(120, np.int64))).streams[1].sizes.tolist()) == {3}


@settings(max_examples=25, deadline=None)
@given(samples, st.integers(1, 5))
def test_stops_of_the_crawl_are_left_out(rng: np.random.Generator, stops: int) -> None:
    steps = rng.exponential(1.0, 800)
    steps[rng.choice(800, stops, replace=False)] = rng.uniform(500, 5000, stops)
    seen = split_arrivals_by_mode(Trace(steps.cumsum(), np.full(800, 2)))
    assert seen.pauses in (stops, stops - 1), "a stop before the first page is none"
    assert seen.streams[2].seconds == pytest.approx(steps[1:][steps[1:] < 400].sum())


def test_long_intervals_that_belong_to_the_process_are_no_pauses() -> None:
    rng = np.random.default_rng(3)
    steps = np.where(rng.random(5000) < 0.01, rng.exponential(300.0, 5000), rng.exponential(1.0, 5000))
    assert find_pause_length(steps) == np.inf


def test_a_switch_just_after_a_page_cuts_no_interval() -> None:
    arrived = np.arange(1.0, 101.0)
    robots = np.where(np.arange(100) < 50, 4, 1)
    trace = Trace(arrived, robots, span=100.0, switched=np.array([0.0, 50.0 + 1e-5]), mode=np.array([4, 1]))
    seen = split_arrivals_by_mode(trace)
    assert len(seen.streams[4].whole) == 49
    assert len(seen.streams[1].whole) == 50
    assert seen.streams[4].cut.tolist() == []


def test_an_interval_that_sees_its_mode_end_is_kept_as_cut() -> None:
    trace = Trace(
        np.array([1.0, 2.0, 5.0]), np.array([4, 4, 1]), span=6.0, switched=np.array([0.0, 3.5]), mode=np.array([4, 1])
    )
    seen = split_arrivals_by_mode(trace)
    assert seen.streams[4].whole.tolist() == [1.0]
    assert seen.streams[4].cut.tolist() == [1.5]
    assert seen.streams[1].whole.tolist() == []
    assert (seen.streams[4].seconds, seen.streams[1].seconds) == (3.5, 2.5)
    assert (seen.streams[4].counted, seen.streams[1].counted) == (2, 1)


@settings(max_examples=20, deadline=None)
@given(samples, st.floats(-0.8, 0.8))
def test_correlations_are_those_of_the_intervals(rng: np.random.Generator, decay: float) -> None:
    """An autoregressive sequence has correlations decay, decay^2, ..."""
    x = np.empty(4000)
    x[0] = 0.0
    for i, step in enumerate(rng.normal(size=3999)):
        x[i + 1] = decay * x[i] + step
    trace = Trace(np.concatenate(([0.0], (x - x.min() + 1).cumsum())), np.ones(4001, np.int64))
    found = lag_correlations(split_arrivals_by_mode(trace, gap=0.0).streams[1], 4)
    # Bartlett's bound on the deviation of an estimated correlation, five times.
    assert found == pytest.approx([decay**k for k in range(1, 5)], abs=5 * np.sqrt(4.6 / 4000))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"arrived": [2.0, 1.0], "robots": [1, 1]}, r"`arrived`\[1\] .* before"),
        ({"arrived": [1.0], "robots": [1, 1]}, "1 times in `arrived` and 2 numbers in `robots`"),
        ({"arrived": [1.0], "robots": [-1]}, "-1 is fewer than none"),
        ({"arrived": [np.nan], "robots": [1]}, r"`arrived`\[0\] of the trace is nan"),
        ({"arrived": [], "robots": [], "service": [1.0, -2.0]}, r"`service`\[1\] of the trace is -2"),
        ({"arrived": [], "robots": [], "span": -1.0}, "spans -1"),
    ],
)
def test_a_trace_that_contradicts_itself_is_refused_by_name(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(TraceError, match=says):
        Trace(**wrong)  # type: ignore[arg-type]
