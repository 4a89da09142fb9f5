"""The simulation, held against closed forms, small chains built by hand, and the paper's printed costs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate

from fieldmouse.policy.concurrency_thresholds import Thresholds
from fieldmouse.queueing import simulate as play
from fieldmouse.queueing.model.arrivals import BatchArrivals
from fieldmouse.queueing.model.model import Admission, Model, cost_of
from fieldmouse.queueing.model.model_file import read_model
from fieldmouse.queueing.model.phase_type import PhaseType
from fieldmouse.queueing.model.validation import FloatArray, ModelError
from fieldmouse.queueing.simulate import BATCHES, SimulatedMeasures, simulate
from queueing.models import phase_types, streams, written


@dataclass(frozen=True)
class Table:
    """Any rule at all: so many robots at each level."""

    robots: tuple[int, ...]

    def concurrency_at(self, level: int) -> int:
        return self.robots[level]


def poissons(*rates: float) -> dict[int, BatchArrivals]:
    return {robots: BatchArrivals.poisson(rate) for robots, rate in enumerate(rates, 1)}


def run(model: Model, rule: object, events: int = 1_000_000, seed: int = 1) -> SimulatedMeasures:
    return simulate(model, rule, events, np.random.default_rng(seed))  # type: ignore[arg-type]


def near(found: SimulatedMeasures, measure: str, truth: float, widths: float = 2.0) -> None:
    """Within twice the interval's half width: one in twenty thousand falls outside."""
    seen = getattr(found, measure)
    assert abs(seen - truth) <= widths * found.half_width(measure), (measure, seen, truth)


def birth_and_death(up: list[float], down: list[float]) -> FloatArray:
    weights = np.cumprod([1.0, *(a / b for a, b in zip(up, down, strict=True))])
    return np.asarray(weights / weights.sum())


def test_an_interval_of_95_percent_holds_the_truth_95_times_in_a_hundred() -> None:
    """M/M/1/4 with load 0.8."""
    model = Model(4, poissons(0.8), PhaseType.exponential(1.0), PhaseType.never())
    p = birth_and_death([0.8] * 4, [1.0] * 4)
    truth = {"star": p[0], "loss": p[4], "success": 1 - p[4], "rate": 0.8, "robots": 1.0}
    truth["sojourn_served"] = (np.arange(5) @ p) / (0.8 * (1 - p[4]))
    runs = [run(model, Thresholds((1,)), 30_000, seed) for seed in range(120)]
    for measure in ("star", "loss", "success", "rate", "sojourn_served"):
        inside = sum(abs(getattr(found, measure) - truth[measure]) <= found.half_width(measure) for found in runs)
        assert 102 <= inside <= 120, measure  # binomial(120, 0.95): below 102 once in 10^5
    assert runs[0].robots == 1.0
    assert runs[0].sojourn_obsolete is None


def test_reneging_has_its_closed_form() -> None:
    """M/M/1/K with exponential lifetimes: at level n, n - 1 pages wait; the one in service does not age."""
    lam, mu, theta, K = 2.0, 1.0, 0.7, 6
    model = Model(K, poissons(lam), PhaseType.exponential(mu), PhaseType.exponential(theta))
    p = birth_and_death([lam] * K, [mu + n * theta for n in range(K)])
    found = run(model, Thresholds((1,)))
    waiting = np.maximum(np.arange(K + 1) - 1, 0) @ p
    near(found, "star", p[0])
    near(found, "loss", p[K])
    near(found, "obs", theta * waiting / lam)
    near(found, "success", mu * (1 - p[0]) / lam)
    near(found, "sojourn", (np.arange(K + 1) @ p) / lam)
    assert (np.abs(found.levels - p) <= 2.5 * found.level_half_widths).all()


def test_any_rule_can_be_played() -> None:
    """M(n)/M/1/K, the number of robots rising and falling with the level as no threshold rule would."""
    rates, table = (0.4, 1.1, 2.5), (3, 1, 2, 1, 3, 2)
    model = Model(5, poissons(*rates), PhaseType.exponential(1.3), PhaseType.never())
    up = [rates[robots - 1] for robots in table]
    p = birth_and_death(up[:5], [1.3] * 5)
    found = run(model, Table(table))
    near(found, "rate", up @ p)
    near(found, "star", p[0])
    near(found, "loss", up[5] * p[5] / (up @ p))
    near(found, "robots", np.array(table) @ p)
    for robots in (1, 2, 3):
        share = sum(p[level] for level in range(6) if table[level] == robots)
        assert found.robots_distribution[robots] == pytest.approx(share, abs=0.004)


@pytest.mark.parametrize(
    "life",
    [PhaseType.erlang(4, 1.6), PhaseType.hyperexponential([0.3, 0.7], [0.1, 3.0]), PhaseType.erlang(2, 0.5)],
    ids=["erlang-4", "hyperexponential", "erlang-2"],
)
def test_pages_of_any_lifetime_wait_in_order(life: PhaseType) -> None:
    """FIFO M(n)/M/1/K with thresholds: x is how long ago the page in service arrived.

    p(n, x) = p_0 lambda_0 ... lambda_(n-1) e^(-mu x) A(x)^(n-1) / (n-1)!, where A(x)
    is the integral of the lifetime's tail up to x.
    """
    mu, K, rule, rates = 0.9, 6, Thresholds((2, 1), (3,)), (0.8, 2.2)
    model = Model(K, poissons(*rates), PhaseType.exponential(mu), life)
    lam = [rates[rule.concurrency_at(n) - 1] for n in range(K + 1)]
    x = np.linspace(0, 40, 8001)
    A = integrate.cumulative_simpson(life.survival(x), x=x, initial=0)
    dense = [np.exp(-mu * x) * A ** (n - 1) / math.factorial(n - 1) * np.prod(lam[:n]) for n in range(1, K + 1)]
    weights = np.array([1.0, *(integrate.simpson(d, x=x) for d in dense)])
    p = weights / weights.sum()
    found = run(model, rule, 2_000_000)
    rate = lam @ p
    near(found, "rate", rate)
    near(found, "star", p[0])
    near(found, "loss", lam[K] * p[K] / rate)
    near(found, "success", mu * (1 - p[0]) / rate)
    near(found, "sojourn_served", integrate.simpson(x * sum(dense), x=x) / weights[1:].sum())
    near(found, "sojourn", np.arange(K + 1) @ p / rate)
    assert (np.abs(found.levels - p) <= 2.5 * found.level_half_widths).all()


def lets_in(admission: Admission) -> Callable[[int, int, int], int]:
    """Pages let in at a level, told once more."""
    return {
        "partial": lambda level, batch, K: min(batch, max(K - level, 0)),
        "rejection": lambda level, batch, K: batch if level + batch <= K else 0,
        "complete": lambda level, batch, K: batch if level < K else 0,
    }[admission]


@pytest.mark.parametrize("admission", ["partial", "rejection", "complete"])
def test_batches_are_let_in_as_the_admission_says(admission: Admission) -> None:
    """Batches of 1 and 3 from one phase, exponential service and lifetime: a small chain, built here."""
    K, ones, threes, mu, theta = 4, 0.5, 0.6, 1.0, 0.25
    stream = BatchArrivals((np.array([[-1.1]]), np.array([[ones]]), np.zeros((1, 1)), np.array([[threes]])))
    model = Model(K, {1: stream}, PhaseType.exponential(mu), PhaseType.exponential(theta), admission)
    levels = model.highest_level + 1
    Q, lost = np.zeros((levels, levels)), np.zeros(levels)
    for level in range(levels):
        for batch, rate in ((1, ones), (3, threes)):
            taken = lets_in(admission)(level, batch, K)
            lost[level] += rate * (batch - taken)
            Q[level, level + taken] += rate
        if level:
            Q[level, level - 1] += mu + (level - 1) * theta
    Q -= np.diag(Q.sum(axis=1))
    p = np.linalg.lstsq(np.vstack([Q.T, np.ones(levels)]), np.eye(levels + 1)[-1], rcond=None)[0]
    rate = ones + 3 * threes
    found = run(model, Thresholds((1,)))
    near(found, "star", p[0])
    near(found, "loss", lost @ p / rate)
    near(found, "obs", theta * (np.maximum(np.arange(levels) - 1, 0) @ p) / rate)
    near(found, "sojourn", np.arange(levels) @ p / rate)
    assert len(found.levels) == levels
    assert (np.abs(found.levels - p) <= 2.5 * found.level_half_widths).all()


@given(st.integers(-3, 8), st.integers(0, 9), st.sampled_from(["partial", "rejection", "complete"]))
def test_the_kernel_lets_in_what_the_words_say(room: int, batch: int, admission: Admission) -> None:
    K = 8
    code = {"partial": play.PARTIAL, "rejection": play.REJECTION, "complete": play.COMPLETE}[admission]
    assert play.admitted_count(batch, K - room, K, code) == lets_in(admission)(K - room, batch, K)


@given(streams(), phase_types(), phase_types(), st.integers(0, 2**32))
@settings(max_examples=5, deadline=None)
def test_with_room_for_one_page_only_rates_and_means_matter(
    stream: BatchArrivals, service: PhaseType, life: PhaseType, seed: int
) -> None:
    """An idle spell lasts until the next batch, which meets the phase that was left; with Poisson batches
    P_star = 1 / (1 + lambda_g b_1), whatever the service, and nobody waits."""
    poisson = BatchArrivals(tuple(np.array([[D.sum()]]) for D in (-stream.total_arrival_rates, *stream.D[1:])))
    found = run(Model(1, {1: poisson}, service, life), Thresholds((1,)), 300_000, seed)
    near(found, "star", 1 / (1 + poisson.batch_rate * service.mean), 3.0)
    near(found, "sojourn_served", service.mean, 3.0)
    assert found.obs == 0
    assert found.sojourn_obsolete is None


PRINTED = [  # Table 1 of the paper, but for its misprint
    ((1,), (), 149.91),
    ((2,), (), 110.0),
    ((3,), (), 89.40),
    ((4,), (), 130.31),
    ((2, 1), (2,), 103.54),
    ((3, 1), (2,), 63.54),
    ((4, 1), (1,), 74.47),
    ((4, 3), (0,), 94.14),
    ((4, 2, 1), (1, 2), 73.69),
    ((4, 3, 2), (0, 2), 80.50),
    ((4, 3, 2, 1), (0, 2, 2), 67.52),
]


@pytest.mark.parametrize(("robots", "limits", "printed"), PRINTED)
def test_the_printed_costs_lie_in_the_intervals(
    robots: tuple[int, ...], limits: tuple[int, ...], printed: float
) -> None:
    asked = read_model(written("thresholds"))
    found = run(asked.model, Thresholds(robots, limits), 600_000)
    width = found.cost_half_width(asked.cost)
    assert cost_of(found, asked.cost) == pytest.approx(printed, abs=2 * width + 0.01)
    assert width < 0.02 * printed


@given(
    st.data(),
    st.integers(1, 7),
    st.sampled_from(["partial", "rejection", "complete"]),
    phase_types(2),
    phase_types(2) | st.just(PhaseType.never()),
)
@settings(max_examples=20, deadline=None)
def test_every_page_has_one_fate_and_little_has_his_law(
    data: st.DataObject, capacity: int, admission: Admission, service: PhaseType, life: PhaseType
) -> None:
    modes = {robots: data.draw(streams(phases=2)) for robots in (1, 2)}
    model = Model(capacity, modes, service, life, admission)
    limit = data.draw(st.integers(0, capacity))
    found = run(model, Thresholds((2, 1), (limit,)), 60_000)
    assert found.loss + found.obs + found.success == pytest.approx(1, abs=1e-12)
    assert found.levels.sum() == pytest.approx(1, abs=1e-12)
    assert found.robots == pytest.approx(sum(r * share for r, share in found.robots_distribution.items()))
    # What still waits at either end of the run is all that keeps these from being exact.
    pages = 30 * (model.highest_level + 1) / 60_000
    assert found.mean_level == pytest.approx(found.rate * found.sojourn, rel=0.1 + pages, abs=pages)


def test_the_same_seed_plays_the_same_game() -> None:
    asked = read_model(written("thresholds"))
    one, two, other = (run(asked.model, Thresholds((3, 1), (2,)), 20_000, seed) for seed in (5, 5, 6))
    assert cost_of(one, asked.cost) == cost_of(two, asked.cost) != cost_of(other, asked.cost)


def test_compiled_or_plain_the_game_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = read_model(written("inria"))
    rule = Thresholds((4, 2), (3,))
    compiled = run(asked.model, rule, 6_000)
    for name in ("run_events", "draw_phase_type", "admitted_count"):
        kernel = getattr(play, name)
        monkeypatch.setattr(play, name, getattr(kernel, "py_func", kernel))
    plain = run(asked.model, rule, 6_000)
    assert plain.levels.tolist() == pytest.approx(compiled.levels.tolist(), rel=1e-12)
    assert plain.sojourn_served == pytest.approx(compiled.sojourn_served, rel=1e-12)


def test_a_run_too_short_for_intervals_is_refused() -> None:
    model = Model(1, poissons(1.0), PhaseType.exponential(1.0), PhaseType.never())
    with pytest.raises(ModelError, match=f"at least {BATCHES}"):
        run(model, Thresholds((1,)), BATCHES - 1)
