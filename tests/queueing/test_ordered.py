"""The ordered chain: two ways to the same numbers, odd lifetimes, and a refusal that names the size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldmouse.policy.concurrency_thresholds import Thresholds
from fieldmouse.queueing.model.arrivals import BatchArrivals
from fieldmouse.queueing.model.model import Model, WorkersByLevel, build_chain, count_states
from fieldmouse.queueing.model.phase_type import PhaseType
from fieldmouse.queueing.solve import phase_type_lifetimes
from fieldmouse.queueing.solve import phase_type_lifetimes as coordinates
from fieldmouse.queueing.solve.phase_type_lifetimes import LifetimePhaseChain, ModelTooLarge
from fieldmouse.queueing.solve.solve import solve
from queueing.models import phase_types
from queueing.systems import laws_hold, systems

CYCLE = PhaseType(np.array([0.5, 0.5, 0.0]), np.array([[-1.0, 0.9, 0.0], [0.0, -1.0, 0.8], [0.9, 0.0, -2.0]]))


@settings(max_examples=40, deadline=None)
@given(systems(phase_types(most=3), most=3))
def test_written_down_or_settled_by_rounds_the_chain_is_the_same(system: tuple[Model, WorkersByLevel]) -> None:
    found = LifetimePhaseChain(build_chain(*system))
    if count_states(system[0], system[0].lifetime.order) > phase_type_lifetimes.DENSE:
        return
    share, fades, x = found.solve()
    settled_share, settled_fades, settled = found.solve_by_iteration()
    assert settled_share == pytest.approx(share, rel=1e-10, abs=1e-18)
    assert settled_fades == pytest.approx(fades, rel=1e-10, abs=1e-14 * max(1.0, fades.max()))
    for one, other in zip(x, settled, strict=True):
        assert np.abs(one - other).max() <= 1e-12


@settings(max_examples=60, deadline=None)
@given(phase_types(most=4), st.lists(st.floats(0.0, 5.0), min_size=3, max_size=3))
def test_coordinates_change_nothing_about_a_lifetime(life: PhaseType, times: list[float]) -> None:
    at = coordinates.triangular_phase_type(life)
    assert np.tril(at.rates, -1) == pytest.approx(np.zeros_like(at.rates), abs=1e-12)
    moments = [life.moment(k) for k in (1, 2, 3)]
    power, factorial = at.one, 1
    # A phase left every 16 s, in a life of a month: what rounding does to such a one it does to both.
    near = max(1e-7, 1e-14 * float(np.linalg.cond(life.S)))
    for k, moment in enumerate(moments, 1):
        power, factorial = np.linalg.solve(-at.rates, power), factorial * k
        assert factorial * (at.start @ power).real == pytest.approx(moment, rel=near)
    assert (at.start @ at.one).real == pytest.approx(1.0, rel=1e-12)
    assert (at.start @ at.leave).real == pytest.approx(float(life.alpha @ life.exit_rates), rel=1e-9, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(phase_types(most=3), st.integers(0, 4), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_a_level_is_solved_as_its_kronecker_sum(life: PhaseType, pages: int, n: int, seed: int) -> None:
    at = coordinates.triangular_phase_type(life)
    rng = np.random.default_rng(seed)
    block = rng.random((n, n))
    block -= np.diag(block.sum(axis=1) + rng.random(n))
    b = rng.random((at.order**pages, n)).astype(at.rates.dtype)
    x = coordinates.LevelSolver(block, at, *coordinates.phase_multisets(at.order, pages))(b)
    whole = np.kron(np.eye(at.order**pages), block).astype(at.rates.dtype)
    for page in range(pages):
        before, after = at.order**page, at.order ** (pages - 1 - page)
        whole += np.kron(np.kron(np.eye(before), at.rates), np.eye(after * n))
    assert x.ravel() @ whole == pytest.approx(-b.ravel(), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("K", [1, 2, 3, 7])
@pytest.mark.parametrize("life", [PhaseType.never(), PhaseType.erlang(2, 1.0), CYCLE], ids=["never", "Erlang", "cycle"])
def test_buffers_of_every_size_work(K: int, life: PhaseType) -> None:
    model = Model(K, {1: BatchArrivals.poisson(1.2)}, PhaseType.erlang(2, 2.0), life)
    laws_hold(solve(model, Thresholds((1,)), "ordered"), model, relative=1e-12)


def test_phases_that_are_never_entered_do_not_count() -> None:
    idle = PhaseType(np.array([1.0, 0.0, 0.0]), np.array([[-1.0, 0.5, 0.0], [0.0, -0.3, 0.0], [1.0, 1.0, -3.0]]))
    plain = PhaseType(np.array([1.0, 0.0]), np.array([[-1.0, 0.5], [0.0, -0.3]]))
    modes = {1: BatchArrivals.poisson(1.5)}
    for K in (4, 9):
        one, other = (
            solve(Model(K, modes, PhaseType.exponential(1.0), life), Thresholds((1,))) for life in (idle, plain)
        )
        assert one.levels == pytest.approx(other.levels, rel=1e-12)
        assert one.sojourn_served == pytest.approx(other.sojourn_served, rel=1e-12)


def test_rates_far_apart_settle_too() -> None:
    """Pages that fade within a hundredth of a service or outlive a thousand."""
    life = PhaseType.hyperexponential([0.5, 0.5], [100.0, 0.001])
    model = Model(9, {1: BatchArrivals.poisson(1.5)}, PhaseType.hyperexponential([0.9, 0.1], [5.0, 0.1]), life)
    laws_hold(solve(model, Thresholds((1,))), model, relative=1e-11)


@pytest.mark.parametrize(("K", "size"), [(20, "3,486,784,401"), (1000, "some 10^477")])
def test_a_chain_too_large_is_refused_with_its_size_and_the_way_out(K: int, size: str) -> None:
    """One arrival phase, two of service, three of life: 1 + 2 (3^0 + ... + 3^(K-1)) = 3^K states."""
    model = Model(K, {1: BatchArrivals.poisson(1.0)}, PhaseType.erlang(2, 2.0), PhaseType.erlang(3, 1.0))
    assert count_states(model, 3) == 3**K
    with pytest.raises(ModelTooLarge) as refused:
        solve(model, Thresholds((1,)))
    assert f"has {size} states" in str(refused.value)
    assert '"method": "simulate"' in refused.value.hint
