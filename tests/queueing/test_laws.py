"""What holds in every system, whatever its numbers; and that the solvers tell what the model says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldmouse.policy.concurrency_thresholds import Thresholds
from fieldmouse.queueing.model.arrivals import BatchArrivals
from fieldmouse.queueing.model.model import ADMISSIONS, Admission, Model, WorkersByLevel
from fieldmouse.queueing.model.phase_type import PhaseType
from fieldmouse.queueing.model.validation import ModelError
from fieldmouse.queueing.simulate import simulate
from fieldmouse.queueing.solve.solve import solve
from queueing.models import phase_types, streams
from queueing.systems import MEASURES, Account, agree, exponentials, laws_hold, systems


@settings(max_examples=40, deadline=None)
@given(systems(exponentials(), most=9))
def test_pages_have_one_fate_little_his_law_and_the_server_is_busy_while_it_serves(
    system: tuple[Model, WorkersByLevel],
) -> None:
    model, rule = system
    laws_hold(solve(model, rule, "banded"), model)


@settings(max_examples=40, deadline=None)
@given(systems(phase_types(most=3), most=5))
def test_so_it_is_when_every_page_has_its_own_phase(system: tuple[Model, WorkersByLevel]) -> None:
    model, rule = system
    laws_hold(solve(model, rule, "ordered"), model)


@settings(max_examples=30, deadline=None)
@given(systems(exponentials(), most=3))
def test_the_banded_chain_tells_what_the_model_says_state_by_state(system: tuple[Model, WorkersByLevel]) -> None:
    model, rule = system
    agree(solve(model, rule, "banded"), Account(model, rule).measures(), relative=1e-8)


@settings(max_examples=30, deadline=None)
@given(systems(phase_types(most=2), most=3))
def test_the_ordered_chain_tells_what_the_model_says_state_by_state(system: tuple[Model, WorkersByLevel]) -> None:
    model, rule = system
    agree(solve(model, rule, "ordered"), Account(model, rule).measures(), relative=1e-8)


@settings(max_examples=30, deadline=None)
@given(systems(exponentials(), most=6))
def test_exact_methods_agree_where_both_apply(system: tuple[Model, WorkersByLevel]) -> None:
    model, rule = system
    one, other = solve(model, rule, "banded"), solve(model, rule, "ordered")
    for name in MEASURES:
        if getattr(one, name) is None:
            assert getattr(other, name) is None
        else:
            assert getattr(other, name) == pytest.approx(getattr(one, name), rel=1e-10, abs=1e-15), name
    assert other.levels == pytest.approx(one.levels, rel=1e-10, abs=1e-15)


@settings(max_examples=20, deadline=None)
@given(streams(phases=1), phase_types(most=2), st.floats(0.01, 0.99), st.floats(0.05, 5.0))
def test_it_does_not_matter_where_an_exponential_lifetime_starts(
    stream: BatchArrivals, service: PhaseType, start: float, rate: float
) -> None:
    S = np.array([[-rate - 2.0, 2.0], [0.5, -rate - 0.5]])
    disguised = Model(4, {1: stream}, service, PhaseType(np.array([start, 1 - start]), S))
    plain = Model(4, {1: stream}, service, PhaseType.exponential(rate))
    rule = Thresholds((1,))
    found, truth = solve(disguised, rule, "ordered"), solve(plain, rule, "banded")
    assert found.sojourn_served == pytest.approx(truth.sojourn_served, rel=1e-10)
    assert found.loss == pytest.approx(truth.loss, rel=1e-10)


ERLANG, HYPER = PhaseType.erlang(2, 1.5), PhaseType.hyperexponential([0.8, 0.2], [3.0, 0.2])


@pytest.mark.parametrize("admission", ADMISSIONS)
@pytest.mark.parametrize("life", [ERLANG, HYPER], ids=["Erlang", "hyperexponential"])
def test_simulation_covers_the_exact_answer(life: PhaseType, admission: Admission) -> None:
    """Within one and a half of its half widths: five measures in six games, one in three hundred outside."""
    fast = BatchArrivals(([[-3.0, 1.0], [0.5, -1.0]], [[1.0, 0.0], [0.0, 0.25]], [[0.0, 1.0], [0.25, 0.0]]))  # type: ignore[arg-type]
    model = Model(5, {2: fast, 1: fast.scaled(0.5)}, PhaseType.erlang(2, 3.0), life, admission)
    rule = Thresholds((2, 1), (2,))
    exact = solve(model, rule)
    played = simulate(model, rule, 400_000, np.random.default_rng(11))
    for name in ("loss", "obs", "star", "robots", "sojourn_served"):
        assert abs(getattr(played, name) - getattr(exact, name)) <= 1.5 * played.half_width(name), name
    assert played.sojourn_obsolete == pytest.approx(exact.sojourn_obsolete, rel=0.05)


def test_a_rule_need_not_be_a_threshold() -> None:
    modes = {1: BatchArrivals.poisson(0.3), 2: BatchArrivals.poisson(2.0)}
    model = Model(3, modes, PhaseType.exponential(1.0), PhaseType.never())
    found = solve(model, WorkersByLevel((1, 2, 1, 2)))
    weights = np.cumprod([1.0, 0.3, 2.0, 0.3])
    assert found.levels == pytest.approx(weights / weights.sum(), rel=1e-13)


def test_batches_that_never_fit_are_told_in_a_sentence() -> None:
    fives = BatchArrivals((*([[-1.0]], [[0.0]], [[0.0]], [[0.0]], [[0.0]], [[1.0]]),))  # type: ignore[arg-type]
    model = Model(4, {1: fives}, PhaseType.exponential(1.0), PhaseType.never(), "rejection")
    with pytest.raises(ModelError, match="no page is ever served"):
        solve(model, Thresholds((1,)))


def test_the_banded_chain_refuses_a_lifetime_with_a_past() -> None:
    model = Model(3, {1: BatchArrivals.poisson(1.0)}, PhaseType.exponential(1.0), ERLANG)
    with pytest.raises(ModelError, match="not exponential"):
        solve(model, Thresholds((1,)), "banded")
