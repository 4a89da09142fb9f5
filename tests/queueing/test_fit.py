"""From traces of known queues back to their models: what was put in comes out, and what does not is said."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg

from fieldmouse.queueing.fit import map_fit
from fieldmouse.queueing.fit.arrivals import rate_growth_exponent
from fieldmouse.queueing.fit.fit import fit
from fieldmouse.queueing.fit.map_fit import match_order_two_map
from fieldmouse.queueing.fit.phase_type_fit import FitError
from fieldmouse.queueing.fit.trace import Trace
from fieldmouse.queueing.model.arrivals import BatchArrivals
from fieldmouse.queueing.model.model import CostWeights
from fieldmouse.queueing.model.model_file import ModelFileContent, read_model, write_model
from fieldmouse.queueing.solve.solve import solve

Draw = Callable[[], float]


class Limit:
    """Four robots up to a level, then one."""

    def __init__(self, level: int):
        self.level = level

    def concurrency_at(self, level: int) -> int:
        return 4 if level <= self.level else 1


def play(
    modes: dict[int, BatchArrivals], rule: Limit, serve: Draw, pages: int, capacity: int, rng: np.random.Generator
) -> tuple[Trace, float, float]:
    """A queue written down plainly; its trace, and the shares of time starved and of pages lost."""
    now, level, phase, done, idle, lost = 0.0, 0, 0, np.inf, 0.0, 0
    arrived, robots, switched, mode, services = [], [], [0.0], [rule.concurrency_at(0)], []
    while len(arrived) < pages:
        stream = modes[rule.concurrency_at(level)]
        D0, D1 = stream.D[0], stream.D[1]
        wait = rng.exponential(-1 / D0[phase, phase])
        if now + wait < done:
            idle += wait * (level == 0)
            now += wait
            ways = np.concatenate((np.where(np.arange(len(D0)) == phase, 0.0, D0[phase]), D1[phase]))
            way = int(rng.choice(len(ways), p=ways / ways.sum()))
            phase = way % len(D0)
            if way >= len(D0):
                arrived.append(now)
                robots.append(rule.concurrency_at(level))
                lost += level == capacity
                level = min(level + 1, capacity)
                if level == 1 and done == np.inf:
                    services.append(serve())
                    done = now + services[-1]
        else:
            now, level = done, level - 1
            done = np.inf
            if level:
                services.append(serve())
                done = now + services[-1]
        if rule.concurrency_at(level) != mode[-1]:
            switched.append(now + 1e-7)
            mode.append(rule.concurrency_at(level))
    trace = Trace(
        np.array(arrived),
        np.array(robots),
        np.array(services),
        span=now,
        switched=np.array(switched),
        mode=np.array(mode),
    )
    return trace, idle / now, lost / pages


def blocks(arrivals: BatchArrivals, modes: tuple[int, ...], groups: int, rng: np.random.Generator) -> Trace:
    """Modes that take turns slowly, as in an exploration; each as fast as its number of robots."""
    times, robots, now = [], [], 0.0
    for mode in modes:
        at, sizes = arrivals.scaled(mode).sample(rng, groups)
        times.append(now + np.repeat(at, sizes))
        robots.append(np.full(len(times[-1]), mode))
        now = float(times[-1][-1])
    return Trace(np.concatenate(times), np.concatenate(robots), rng.exponential(0.02, 300), span=now)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.6, 5.0), st.floats(0.0, 0.8), st.floats(0.01, 10.0), st.floats(0.1, 1.0))
def test_arrivals_of_each_mode_are_found_again(seed: int, scv: float, decay: float, mean: float, alone: float) -> None:
    rng = np.random.default_rng(seed)
    if scv < 1.2:
        decay = 0.0  # what varies little can hardly hang together in two phases
    found = match_order_two_map(mean, scv, None, decay)
    truth = BatchArrivals((found.D0, alone * found.D1, (1 - alone) * found.D1))
    fitted = fit(blocks(truth, (1, 4), 6000, rng), capacity=20, gap=0.0)
    # Successive intervals tell less than as many independent ones would.
    deviations = 5 * np.sqrt(scv * (1 + 2 * decay / (1 - decay) * (scv - 1) / (2 * scv)) / 6000)
    for mode, arrivals in fitted.model.modes.items():
        assert arrivals.batch_rate * mean / mode == pytest.approx(1, rel=deviations)
        assert arrivals.rate / arrivals.batch_rate == pytest.approx(2 - alone, abs=5 * 0.5 / np.sqrt(6000))
        assert arrivals.intervals.scv == pytest.approx(scv, rel=0.1 + 6 * deviations)
        assert arrivals.correlation == pytest.approx(truth.correlation, abs=0.1)


@pytest.mark.parametrize(("scv", "decay", "reach"), [(1.0, 0.0, 0.1), (4.0, 0.7, 0.4), (0.6, 0.0, 0.1)])
def test_arrivals_under_control_are_found_again_although_each_mode_is_seen_in_chosen_phases(
    scv: float, decay: float, reach: float
) -> None:
    """`reach` is about four deviations of a rate over such traces: of 12 % where a phase is seldom seen."""
    rng = np.random.default_rng(4)
    modes = {}
    for robots, mean in ((1, 2.0), (4, 0.5)):
        found = match_order_two_map(mean, scv, None, decay)
        modes[robots] = BatchArrivals((found.D0, found.D1))
    rule = Limit(2)
    trace, starved, lost = play(modes, rule, lambda: rng.exponential(1.0), 8000, 10, rng)
    fitted = fit(trace, capacity=10)
    for robots, arrivals in fitted.model.modes.items():
        assert arrivals.rate == pytest.approx(modes[robots].rate, rel=reach)
        assert arrivals.intervals.scv == pytest.approx(scv, rel=reach)
        assert arrivals.correlation == pytest.approx(modes[robots].correlation, abs=0.06)
    if scv > 1:
        busy = trace.robots == 1
        at = np.append(trace.switched, trace.span)
        naive = busy.sum() / np.diff(at)[trace.mode == 1].sum()
        assert naive > 1.5 * modes[1].rate, "what one would read off alone is far off"
    assert fitted.report.is_acceptable
    predicted = solve(fitted.model, rule)
    # Seen over traces like this one, deviations are 0.002 and 0.006.
    assert predicted.star == pytest.approx(starved, abs=0.01)
    assert predicted.loss == pytest.approx(lost, abs=0.025)


def turns(rng: np.random.Generator, pieces: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return rng.exponential(1.0, pieces), rng.integers(0, 2, pieces), rng.integers(0, 2, pieces)


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_expected_turns_point_where_the_likelihood_rises(seed: int) -> None:
    """Against the plain product of matrix exponentials, and its slopes (Fisher's identity)."""
    rng = np.random.default_rng(seed)
    lengths, modes, batch = turns(rng, 12)
    start = np.array([0.3, 0.7])
    D1 = rng.exponential(1.0, (2, 2, 2))
    inner = rng.exponential(1.0, (2, 2, 2)) * (1 - np.eye(2))

    def likelihood(inner: np.ndarray, D1: np.ndarray) -> float:
        row, height = start, 0.0
        for length, mode, came in zip(lengths, modes, batch, strict=True):
            D0 = inner[mode] - np.diag((inner[mode] + D1[mode]).sum(axis=1))
            row = row @ linalg.expm(D0 * length)
            row = row @ D1[mode] if came else row
            height += np.log(row.sum())
            row = row / row.sum()
        return float(height)

    D0 = inner - np.stack([np.diag((inner[r] + D1[r]).sum(axis=1)) for r in range(2)])
    parts = map_fit._split_long_pieces(D0, lengths, modes, batch)
    spent, brought, first, _, found = map_fit._expectation_step(start, D0, D1, *parts)
    assert found == pytest.approx(likelihood(inner, D1))
    assert first.sum() == pytest.approx(1.0)
    for r in range(2):
        assert np.trace(spent[r]) == pytest.approx(lengths[modes == r].sum())
        assert brought[r].sum() == pytest.approx(batch[modes == r].sum())
        for i in range(2):
            for j in range(2):
                shift = np.zeros((2, 2, 2))
                shift[r, i, j] = 1e-6
                slope = (likelihood(inner, D1 + shift) - likelihood(inner, D1 - shift)) / 2e-6
                assert brought[r, i, j] / D1[r, i, j] - spent[r, i, i] == pytest.approx(slope, rel=1e-4, abs=1e-4)
                if i != j:
                    slope = (likelihood(inner + shift, D1) - likelihood(inner - shift, D1)) / 2e-6
                    assert spent[r, j, i] - spent[r, i, i] == pytest.approx(slope, rel=1e-4, abs=1e-4)


def test_turns_are_told_the_same_uncompiled() -> None:
    rng = np.random.default_rng(2)
    lengths, modes, batch = turns(rng, 30)
    found = match_order_two_map(1.0, 3.0, None, 0.5)
    D0, D1 = np.stack([found.D0, 2 * found.D0]), np.stack([found.D1, 2 * found.D1])
    plain = getattr(map_fit._expectation_step, "py_func", map_fit._expectation_step)
    start = np.array([0.5, 0.5])
    for one, other in zip(
        map_fit._expectation_step(start, D0, D1, lengths, modes, batch),
        plain(start, D0, D1, lengths, modes, batch),
        strict=True,
    ):
        assert one == pytest.approx(other)


@pytest.fixture(scope="module")
def calm() -> Trace:
    """Poisson arrivals with 1 and with 4 robots, which bring twice as much."""
    rng = np.random.default_rng(8)
    times = np.concatenate((rng.exponential(1.0, 1500).cumsum(), 1600 + rng.exponential(0.5, 3000).cumsum()))
    return Trace(
        times,
        np.repeat([1, 4], [1500, 3000]),
        rng.gamma(3.0, 0.1, 2000),
        span=float(times[-1]),
        expired=np.empty(0),
        outlived=rng.exponential(0.1, 2000),
    )


def test_what_cannot_be_told_from_a_poisson_stream_is_one(calm: Trace) -> None:
    fitted = fit(calm, capacity=30)
    assert fitted.model.arrival_phases == 1
    assert fitted.model.lifetime.is_never
    assert fitted.model.service.scv == pytest.approx(1 / 3, abs=0.03)
    assert fitted.report.is_acceptable
    assert any("endless" in sentence for sentence in fitted.report.warnings())


def test_a_mode_never_seen_follows_the_trend_of_those_seen_and_this_is_said(calm: Trace) -> None:
    fitted = fit(calm, capacity=30, modes=(1, 2, 4, 16))
    rates = {mode: arrivals.rate for mode, arrivals in fitted.model.modes.items()}
    assert rates[2] == pytest.approx(np.sqrt(2), rel=0.1)
    assert rates[16] == pytest.approx(4.0, rel=0.15), "four times the robots bring twice as much, again"
    said = " ".join(fitted.report.warnings())
    assert "2 robots were hardly seen" in said
    assert "16 robots were hardly seen" in said
    by_ratio = fit(calm, capacity=30, modes=(16,), unseen="ratio").model.modes[16].rate
    assert by_ratio == pytest.approx(8.0, rel=0.1)
    with pytest.raises(FitError, match="16 robots were never seen"):
        fit(calm, capacity=30, modes=(16,), unseen="refuse")


def test_a_mode_remembered_compares_with_its_neighbour_as_it_did_then(calm: Trace) -> None:
    """Also when the neighbour has become faster since; what is seen now counts before any memory."""
    seen = fit(calm, capacity=30).rates
    assert set(seen) == {1, 4}
    before = {4: seen[4] / 3, 16: seen[4] / 2, 1: 99.0}
    fitted = fit(calm, capacity=30, modes=(1, 4, 16), remembered=before)
    assert fitted.model.modes[16].rate == pytest.approx(1.5 * seen[4])
    assert fitted.model.modes[1].rate == pytest.approx(seen[1])
    assert fitted.rates == pytest.approx(seen)
    assert "16 robots were not seen lately" in " ".join(fitted.report.warnings())
    alone = fit(calm, capacity=30, modes=(16,), remembered={16: 2.5}).model.modes[16].rate
    assert alone == pytest.approx(2.5), "nothing is known of the neighbour then: the rate is as it was"


def test_rates_grow_with_robots_by_a_power_between_none_and_all() -> None:
    assert rate_growth_exponent({4: 3.0}) == 1.0
    assert rate_growth_exponent({1: 1.0, 2: 2.0, 8: 8.0}) == pytest.approx(1.0)
    assert rate_growth_exponent({1: 1.0, 8: 100.0}) == 1.0
    assert rate_growth_exponent({1: 1.0, 8: 0.5}) == 0.0


def test_modes_share_their_phases_also_where_one_needs_none() -> None:
    rng = np.random.default_rng(3)
    wild = match_order_two_map(1.0, 5.0, None, 0.6)
    first = BatchArrivals((wild.D0, wild.D1)).sample(rng, 3000).times
    second = first[-1] + rng.exponential(0.4, 3000).cumsum()
    trace = Trace(np.concatenate((first, second)), np.repeat([1, 2], 3000), rng.exponential(0.2, 100))
    model = fit(trace, capacity=10).model
    assert model.arrival_phases == 2
    assert model.modes[2].rate == pytest.approx(2.5, rel=0.1)
    assert model.modes[2].intervals.scv == pytest.approx(1.0)
    assert model.modes[2].correlation == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("capacity", [4, 200])
def test_lifetimes_are_given_phases_only_where_they_can_be_solved(capacity: int) -> None:
    rng = np.random.default_rng(6)
    life, wait = rng.gamma(4.0, 0.25, 3000), rng.exponential(1.0, 3000)
    times = rng.exponential(1.0, 200).cumsum()
    trace = Trace(
        times, np.ones(200, np.int64), rng.exponential(0.5, 200), expired=life[life <= wait], outlived=wait[wait < life]
    )
    fitted = fit(trace, capacity)
    if capacity == 4:
        assert fitted.model.lifetime.mean == pytest.approx(1.0, rel=0.06)
        assert fitted.model.lifetime.scv == pytest.approx(0.25, abs=0.08)
    else:
        assert fitted.model.lifetime.is_exponential
        assert fitted.model.lifetime.rate == pytest.approx((life <= wait).sum() / np.minimum(life, wait).sum())
        assert any("away from exponential" in sentence for sentence in fitted.report.warnings())


def test_what_does_not_hold_is_said() -> None:
    rng = np.random.default_rng(9)
    times = rng.exponential(1.0, 500).cumsum()
    trace = Trace(times, np.ones(500, np.int64), rng.uniform(1.0, 1.1, 500))
    report = fit(trace, capacity=5, draws=20, rng=rng).report
    assert not report.is_acceptable
    assert any(sentence.startswith("service:") and "does not tell" in sentence for sentence in report.warnings())
    service = report.parts[-1]
    assert service.played
    assert service.chance == pytest.approx(1 / 21)
    assert json.loads(json.dumps(report.to_dict()))["holds"] is False


def test_a_true_model_is_seldom_doubted() -> None:
    """The chance that is played out is even for a true model: over many traces half are above one half."""
    chances = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        times = rng.exponential(1.0, 300).cumsum()
        trace = Trace(times, np.ones(300, np.int64), rng.exponential(0.5, 300))
        parts = fit(trace, 5, service="exponential", draws=30, rng=rng).report.parts
        chances += [part.chance for part in parts if part.chance is not None]
    assert len(chances) == 24
    assert np.mean(chances) == pytest.approx(0.5, abs=4 / np.sqrt(12 * 24))
    assert min(chances) > 0.01


def test_a_fitted_model_is_written_and_read_and_solved(calm: Trace) -> None:
    fitted = fit(calm, capacity=30)
    content = ModelFileContent(fitted.model, CostWeights(star=1.0), ((4, 1), (3,)), "auto")
    written = json.loads(json.dumps(write_model(content)))
    again = read_model(written).model
    rule = Limit(3)
    assert solve(again, rule).star == pytest.approx(solve(fitted.model, rule).star)


@pytest.mark.parametrize(
    ("trace", "says"),
    [
        (Trace(np.arange(100.0), np.ones(100, np.int64)), "no page was served"),
        (Trace(np.arange(5.0), np.ones(5, np.int64), np.ones(5)), "no number of robots brought more than 4"),
        (Trace(np.empty(0), np.empty(0, np.int64), np.ones(5)), "no number of robots brought more than 0"),
    ],
)
def test_too_little_to_learn_from_is_said_so(trace: Trace, says: str) -> None:
    with pytest.raises(FitError, match=says):
        fit(trace, capacity=5)
