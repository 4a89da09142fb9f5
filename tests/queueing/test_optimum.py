"""The best rule: every rule solved alone as the judge, bounds, walks and policies."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldmouse.jit import HAS_NUMBA
from fieldmouse.policy.concurrency_thresholds import Thresholds
from fieldmouse.queueing.model.arrivals import BatchArrivals
from fieldmouse.queueing.model.model import CostWeights, Model, WorkersByLevel, cost_of
from fieldmouse.queueing.model.phase_type import PhaseType
from fieldmouse.queueing.model.validation import ModelError
from fieldmouse.queueing.optimise import evaluated_rules
from fieldmouse.queueing.optimise.best_thresholds import (
    BoundsUnreachable,
    minimise_within_bounds,
    optimise,
    pareto_front,
)
from fieldmouse.queueing.optimise.evaluated_rules import count_rules, measure_all_rules
from fieldmouse.queueing.optimise.policy_iteration import optimal_state_policy
from fieldmouse.queueing.solve import exponential_lifetimes, page_sojourn, phase_type_lifetimes
from fieldmouse.queueing.solve.solve import solve
from queueing.models import phase_types
from queueing.systems import MEASURES, exponentials, systems

costs = st.builds(CostWeights, *[st.floats(0.0, 100.0)] * 5)


def paper(K: int) -> Model:
    """Two phases, three modes, batches of up to three."""
    slow = BatchArrivals(([[-2.0, 1.0], [0.5, -1.0]], [[0.5, 0.0], [0.0, 0.25]], [[0.0, 0.5], [0.25, 0.0]]))  # type: ignore[arg-type]
    bursts = BatchArrivals(
        (*([[-2.0, 0.5], [1.0, -2.0]], [[0.5, 0], [0, 0.5]], [[0, 0], [0, 0]], [[0.5, 0.5], [0.5, 0]]),)
    )  # type: ignore[arg-type]
    return Model(K, {1: slow, 2: slow.scaled(2.0), 3: bursts}, PhaseType.erlang(2, 4.0), PhaseType.exponential(0.2))


@settings(max_examples=30, deadline=None)
@given(systems(exponentials(), most=5))
def test_every_rule_is_measured_once_and_as_if_solved_alone(system: tuple[Model, WorkersByLevel]) -> None:
    model, _ = system
    ground = measure_all_rules(model)
    assert len(ground) == count_rules(len(model.modes), model.highest_level + 1)
    seen = set()
    for rule in range(len(ground)):
        by_level = ground.rule_by_level(rule)
        assert list(by_level.robots) == sorted(by_level.robots, reverse=True)
        seen.add(by_level.robots)
        alone = solve(model, by_level)
        for name in MEASURES:
            value, found = getattr(alone, name), getattr(ground, name)[rule]
            expected = np.nan if value is None else value
            assert found == pytest.approx(expected, rel=1e-9, abs=1e-15, nan_ok=True), name
    assert len(seen) == len(ground)


def test_a_thousand_levels_lose_no_digit() -> None:
    """Visits to the lower part of an idle buffer and the upper part of a full one outlast the doubles."""
    for low, high in ((0.05, 0.2), (3.0, 9.0), (0.1, 9.0)):
        modes = {1: BatchArrivals.poisson(low), 2: BatchArrivals.poisson(high)}
        model = Model(1000, modes, PhaseType.exponential(1.0), PhaseType.never())
        ground = measure_all_rules(model)
        for rule in (0, 1, 3, 400, 999, 1000, 1001):
            robots = np.array(ground.rule_by_level(rule).robots)
            rates = np.where(robots == 1, low, high)
            # Each level is left upwards as often as it is entered from above, and service takes 1 on average.
            logs = np.concatenate([[0.0], np.log(rates[:-1]).cumsum()])
            share = np.exp(logs - logs.max())
            share /= share.sum()
            served = 1 - share[0]
            expected = {
                "rate": share @ rates,
                "loss": share[-1] * rates[-1] / (share @ rates),
                "star": share[0],
                "robots": share @ robots,
                "sojourn_served": share @ np.arange(1001) / served,
            }
            for name, value in expected.items():
                assert getattr(ground, name)[rule] == pytest.approx(value, rel=1e-9, abs=1e-250), (low, rule, name)


@settings(max_examples=15, deadline=None)
@given(systems(exponentials() | phase_types(most=2), most=3), costs)
def test_no_thresholds_on_any_subset_cost_less(system: tuple[Model, WorkersByLevel], weights: CostWeights) -> None:
    model, _ = system
    found = optimise(model, weights)
    best = np.inf
    for size in range(1, len(model.modes) + 1):
        for robots in combinations(sorted(model.modes, reverse=True), size):
            tried = {
                limits: cost_of(solve(model, Thresholds(robots, limits)), weights)
                for limits in product(range(model.highest_level + 1), repeat=size - 1)
                if list(limits) == sorted(limits)
            }
            choice = next(one for one in found.subsets if one.robots == robots)
            assert pytest.approx(min(tried.values()), rel=1e-9) == choice.J
            assert tried[choice.limits] == pytest.approx(min(tried.values()), rel=1e-9)
            best = min(best, choice.J)
    assert pytest.approx(best, rel=1e-9) == found.J
    alone = solve(model, Thresholds(found.robots, found.limits))
    assert cost_of(alone, weights) == pytest.approx(found.J, rel=1e-9)
    assert cost_of(found.measures, weights) == pytest.approx(found.J, rel=1e-9)


KERNELS = {
    exponential_lifetimes: ("_fill_band", "stationary_band_weights"),
    page_sojourn: ("_fill_waiting_moments", "_sum_admitted", "eliminate_states"),
    phase_type_lifetimes: ("_solve_level", "_add_obsolescence_flow"),
}


@pytest.mark.skipif(not HAS_NUMBA, reason="everything is plain here")
@pytest.mark.parametrize("life", [PhaseType.exponential(0.3), PhaseType.erlang(2, 0.5)], ids=["banded", "ordered"])
def test_compiled_or_plain_the_answer_is_the_same(life: PhaseType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crawl without the lab's extra solves with the same kernels, uncompiled."""
    model = Model(6 if life.is_exponential else 8, paper(6).modes, paper(6).service, life)
    weights, rule = CostWeights(5, 10, 2, 20, 300), Thresholds((3, 1), (2,))
    compiled = solve(model, rule)
    ground = measure_all_rules(model) if life.is_exponential else None
    for module, names in KERNELS.items():
        for name in names:
            monkeypatch.setattr(module, name, getattr(module, name).py_func)
    plain = solve(model, rule)
    assert plain.levels == pytest.approx(compiled.levels, rel=1e-12)
    assert cost_of(plain, weights) == pytest.approx(cost_of(compiled, weights), rel=1e-12)
    if ground is not None:
        again = measure_all_rules(model)
        assert (again.peaks == ground.peaks).all()
        assert again.costs(weights) == pytest.approx(ground.costs(weights), rel=1e-12)


def test_of_rules_that_tie_the_plainest_is_taken() -> None:
    """Two modes that are the same: one of them alone does."""
    modes = {1: BatchArrivals.poisson(1.0), 2: BatchArrivals.poisson(1.0)}
    found = optimise(Model(4, modes, PhaseType.exponential(1.0), PhaseType.never()), CostWeights(loss=1.0, star=1.0))
    assert found.robots in ((1,), (2,))
    assert found.limits == ()


def test_more_modes_than_asked_for_are_left_alone_and_unknown_ones_refused() -> None:
    found = optimise(paper(6), CostWeights(5, 10, 2, 20, 300), modes=(1, 3))
    assert [one.robots for one in found.subsets] == [(3,), (1,), (3, 1)]
    with pytest.raises(ModelError, match="there is no mode 7"):
        optimise(paper(6), CostWeights(), modes=(1, 7))


@pytest.mark.parametrize("loss", [0.02, 0.05, 0.1, 0.2])
def test_least_within_bounds_is_the_best_of_those_within(loss: float) -> None:
    ground = measure_all_rules(paper(6))
    found = minimise_within_bounds(ground, "star", {"loss": loss, "robots": 2.0})
    within = (ground.loss <= loss) & (ground.robots <= 2.0)
    assert found.value == pytest.approx(ground.star[within].min(), rel=1e-12)
    assert found.measures.loss <= loss
    # The multipliers are weights: with them, the plain cost of every rule is at least the floor.
    priced = ground.star + found.multipliers["loss"] * (ground.loss - loss)
    priced = priced + found.multipliers["robots"] * (ground.robots - 2.0)
    assert priced.min() == pytest.approx(found.floor, rel=1e-7)
    assert found.floor <= found.value * (1 + 1e-9)


def test_a_multiplier_is_the_price_of_its_bound() -> None:
    ground = measure_all_rules(paper(6))
    tight, loose = (minimise_within_bounds(ground, "star", {"loss": bound}) for bound in (0.0500, 0.0501))
    slope = (tight.floor - loose.floor) / 0.0001
    assert slope == pytest.approx(tight.multipliers["loss"], rel=1e-6)
    assert minimise_within_bounds(ground, "star", {"loss": 1.0}).multipliers["loss"] == 0.0


def test_unreachable_bounds_are_reported_with_the_reachable_value() -> None:
    ground = measure_all_rules(paper(4))
    with pytest.raises(BoundsUnreachable, match="no rule keeps P_loss at most 1e-09") as refused:
        minimise_within_bounds(ground, "star", {"loss": 1e-9})
    assert f"{ground.loss.min():.6g}" in refused.value.hint
    with pytest.raises(ModelError, match="no measure `speed`"):
        minimise_within_bounds(ground, "speed", {})


@given(st.lists(st.tuples(*[st.integers(0, 6)] * 3), min_size=1, max_size=40))
def test_those_are_kept_that_nothing_beats(points: list[tuple[int, ...]]) -> None:
    kept = pareto_front(np.array(points, dtype=float).T)
    best = {points[i] for i in kept}

    def beats(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
        return a != b and all(x <= y for x, y in zip(a, b, strict=True))

    assert best == {p for p in points if not any(beats(q, p) for q in points)}
    assert len(best) == len(kept)


@pytest.mark.parametrize("most", [40, 5], ids=["from pairs", "from powers of two"])
@settings(max_examples=15, deadline=None)
@given(weights=costs, speed=st.floats(0.2, 5.0), fade=st.floats(0.0, 3.0))
def test_walking_downhill_finds_what_trying_every_rule_finds(
    most: int, weights: CostWeights, speed: float, fade: float
) -> None:
    """Not proved for all models, but so it was in thousands."""
    given_model = paper(7)
    life = PhaseType.exponential(fade) if fade > 0.01 else PhaseType.never()
    model = Model(7, given_model.modes, given_model.service.with_scaled_rates(speed), life)
    every = optimise(model, weights)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluated_rules, "MOST", most)
        walked = optimise(model, weights)
    assert every.exhaustive
    assert not walked.exhaustive
    assert pytest.approx(every.J, rel=1e-9) == walked.J
    assert cost_of(solve(model, Thresholds(walked.robots, walked.limits)), weights) == pytest.approx(walked.J, rel=1e-9)


def test_two_modes_on_many_levels_find_the_limit_of_few() -> None:
    """Most limits of a large buffer cost the same, so that a walk among them leads nowhere."""
    weights = CostWeights(5, 10, 2, 20, 300)
    few, many = (
        Model(K, {1: paper(2).modes[1], 4: paper(2).modes[1].scaled(4.0)}, paper(2).service, paper(2).lifetime)
        for K in (40, 5000)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluated_rules, "MOST", 1000)
        walked = optimise(many, weights)
    every = optimise(few, weights)
    assert not walked.exhaustive
    assert walked.limits == every.limits
    assert {one.robots for one in walked.subsets} == {(1,), (4,), (4, 1)}
    with pytest.raises(ModelError, match="too many to try them all"):
        measure_all_rules(Model(10**5, many.modes, many.service, many.lifetime))


def test_lifetimes_with_a_past_are_walked_from_where_exponential_ones_lead() -> None:
    exponential = paper(5)
    model = Model(5, exponential.modes, exponential.service, PhaseType.erlang(2, 0.5))
    weights = CostWeights(5, 10, 2, 20, 300)
    every = optimise(model, weights)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluated_rules, "MOST_STATES", 1)
        walked = optimise(model, weights)
    assert pytest.approx(every.J, rel=1e-10) == walked.J
    assert walked.rules < every.rules


@settings(max_examples=10, deadline=None)
@given(costs, st.floats(0.2, 3.0), st.floats(0.3, 4.0))
def test_the_best_policy_is_the_best_of_all_policies(weights: CostWeights, low: float, high: float) -> None:
    """Two modes, two arrival phases, K = 2: six states and 64 policies, each solved as a chain of its own."""
    first = BatchArrivals(([[-low - 1, 1.0], [0.5, -0.5 - high]], [[low, 0.0], [0.0, high]]))  # type: ignore[arg-type]
    other = BatchArrivals(([[-high - 0.5, 0.5], [1.0, -1 - low]], [[high, 0.0], [0.0, low]]))  # type: ignore[arg-type]
    model = Model(2, {1: first, 2: other}, PhaseType.exponential(1.0), PhaseType.exponential(0.3))
    found = optimal_state_policy(model, weights)
    least_J = np.inf
    for chosen in product((0, 1), repeat=6):
        table = np.array(chosen).reshape(3, 2)
        mixed = {
            r: BatchArrivals(
                tuple(np.stack([model.modes[1 + int(table[level, nu])].D[k][nu] for nu in range(2)]) for k in range(2))
            )
            for r, level in ((1, 0), (2, 1), (3, 2))
        }
        told = solve(Model(2, mixed, model.service, model.lifetime), WorkersByLevel((1, 2, 3)))
        shares = _by_level_and_phase(model, table)
        robots = float((shares * (1 + table)).sum())
        J = cost_of(told, weights) - weights.robots * told.robots + weights.robots * robots
        least_J = min(least_J, J)
    assert pytest.approx(least_J, rel=1e-8) == found.J


def _by_level_and_phase(model: Model, table: np.ndarray) -> np.ndarray:
    """Shares of level and arrival phase, by balance equations written out; service is exponential."""
    Q = np.zeros((6, 6))
    for level in range(3):
        for nu in range(2):
            D = model.modes[1 + int(table[level, nu])].D
            here = level * 2 + nu
            for to in range(2):
                Q[here, level * 2 + to] += D[0][nu, to] if to != nu else 0.0
                Q[here, min(level + 1, 2) * 2 + to] += D[1][nu, to]
            if level:
                Q[here, here - 2] += model.service.rate + (level - 1) * model.lifetime.rate
    np.fill_diagonal(Q, 0.0)
    Q -= np.diag(Q.sum(axis=1))
    Q[:, 0] = 1.0
    return np.asarray(np.linalg.solve(Q.T, np.eye(6)[0]).reshape(3, 2))


@settings(max_examples=15, deadline=None)
@given(systems(exponentials(), most=4), costs)
def test_no_thresholds_beat_the_best_policy(system: tuple[Model, WorkersByLevel], weights: CostWeights) -> None:
    model, _ = system
    assert optimal_state_policy(model, weights).J <= optimise(model, weights).J * (1 + 1e-9) + 1e-9
