"""The band and its elimination: exact arithmetic as the judge, and no state too many."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldmouse.policy.concurrency_thresholds import Thresholds
from fieldmouse.queueing.model import model as chain
from fieldmouse.queueing.model.arrivals import BatchArrivals
from fieldmouse.queueing.model.model import Model, WorkersByLevel
from fieldmouse.queueing.model.phase_type import PhaseType
from fieldmouse.queueing.solve import exponential_lifetimes, stationary
from fieldmouse.queueing.solve.solve import solve
from queueing.systems import exponentials, systems

tiny_and_large = st.integers(-18, 18).map(lambda e: float(2.0**e))


def exactly(rates: list[list[Fraction]]) -> list[Fraction]:
    """Stationary probabilities in exact arithmetic, by Gauss's elimination of balance equations."""
    n = len(rates)
    rows = [
        [rates[j][i] if i != j else -sum(rates[i][k] for k in range(n) if k != i) for j in range(n)] for i in range(n)
    ]
    rows[0] = [Fraction(1)] * n
    right = [Fraction(1)] + [Fraction(0)] * (n - 1)
    for k in range(n):
        pivot = next(i for i in range(k, n) if rows[i][k])
        rows[k], rows[pivot], right[k], right[pivot] = rows[pivot], rows[k], right[pivot], right[k]
        for i in range(n):
            if i != k and rows[i][k]:
                factor = rows[i][k] / rows[k][k]
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[k], strict=True)]
                right[i] -= factor * right[k]
    return [right[k] / rows[k][k] for k in range(n)]


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(2, 9), st.integers(1, 3), st.integers(1, 3))
def test_elimination_keeps_every_digit_of_every_probability(
    data: st.DataObject, states: int, low: int, high: int
) -> None:
    """Rates over eleven orders of magnitude: probabilities far below 1e-30 are right to 13 digits."""
    rows = np.zeros((states, low + 1 + high))
    exact = [[Fraction(0)] * states for _ in range(states)]
    for s in range(states):
        for t in range(max(0, s - low), min(states, s + high + 1)):
            if s == t or (abs(s - t) > 1 and data.draw(st.booleans())):
                continue
            rate = data.draw(tiny_and_large)
            rows[s, t - s + low] = rate
            exact[s][t] = Fraction(rate)
    weights = np.empty(states)
    stationary.stationary_band_weights(rows, low, weights)
    weights /= weights.sum()
    assert weights.tolist() == pytest.approx([float(p) for p in exactly(exact)], rel=1e-13, abs=0)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5), st.integers(1, 3), st.data())
def test_a_passage_ends_somewhere_after_its_expected_time(n: int, exits: int, data: st.DataObject) -> None:
    rates = np.array(data.draw(st.lists(tiny_and_large, min_size=n * n, max_size=n * n))).reshape(n, n)
    leave = np.array(data.draw(st.lists(tiny_and_large, min_size=n * exits, max_size=n * exits))).reshape(n, exits)
    out = np.column_stack([leave, np.ones(n)])
    generator = rates - np.diag(np.diag(rates))
    generator -= np.diag(generator.sum(axis=1) + leave.sum(axis=1))
    stationary.eliminate_states(rates.copy(), out, exits)
    assert out[:, :exits].sum(axis=1) == pytest.approx(np.ones(n), rel=1e-13)
    # Held against balance, not against an inverse, which would lose the digits that are tested.
    sides = generator @ out[:, :exits] + leave
    size = np.abs(generator) @ out[:, :exits]
    assert np.abs(sides).max() <= 1e-13 * size.max()
    assert np.abs(generator @ out[:, exits] + 1).max() <= 1e-13 * (np.abs(generator) @ out[:, exits]).max()


@settings(max_examples=30, deadline=None)
@given(systems(exponentials(), most=5))
def test_the_band_has_the_rates_of_the_chain_and_nothing_besides(system: tuple[Model, WorkersByLevel]) -> None:
    """Flows into and out of every state balance, by the blocks of the paper's lemma."""
    model, rule = system
    found = chain.build_chain(model, rule)
    fades = exponential_lifetimes.obsolescence_rates(found, model.lifetime.rate)
    share = exponential_lifetimes.banded_distribution(found, fades)
    up, service = found.arrivals.up, model.service
    off = up.copy()
    off[:, 0] -= np.einsum("ijj->ij", up[:, 0])[:, :, None] * np.eye(model.arrival_phases)
    for level in range(model.highest_level + 1):
        phases = range(service.order if level else 1)
        for nu in range(model.arrival_phases):
            for m in phases:
                out = off[level, :, nu].sum() + (fades[level, nu, m] if level else 0.0)
                out += service.exit_rates[m] + service.S[m].sum() - service.S[m, m] if level else 0.0
                into = 0.0
                for below in range(max(0, level - up.shape[1] + 1), level + 1):
                    rates = off[below, level - below, :, nu]
                    if below or not level:
                        into += rates @ share[below, :, m]
                    else:
                        into += rates @ share[0, :, 0] * service.alpha[m]
                if level:
                    into += share[level, nu] @ service.S[:, m] - share[level, nu, m] * service.S[m, m]
                if level < model.highest_level:
                    above = share[level + 1, nu]
                    into += above @ service.exit_rates * (service.alpha[m] if level else 1.0)
                    into += above[m] * fades[level + 1, nu, m] if level else 0.0
                assert into == pytest.approx(out * share[level, nu, m], rel=1e-9, abs=1e-300)


def test_a_zero_matrix_between_batches_ends_nothing() -> None:
    """D2 = D3 = 0 and D4 is not, as in the paper's mode 4."""
    gap = BatchArrivals(([[-1.0]], [[0.25]], [[0.0]], [[0.0]], [[0.75]]))  # type: ignore[arg-type]
    found = solve(Model(6, {1: gap}, PhaseType.exponential(2.0), PhaseType.never()), Thresholds((1,)))
    assert found.rate == pytest.approx(3.25)
    assert found.levels[4] > found.levels[3]


def test_batches_larger_than_the_buffer_fill_it() -> None:
    nine = BatchArrivals((*([[-1.0]], *[[[0.0]]] * 8, [[1.0]]),))  # type: ignore[arg-type]
    model = Model(2, {1: nine}, PhaseType.exponential(1.0), PhaseType.never())
    found = solve(model, Thresholds((1,)))
    # 0 -> 2 at rate 1, 2 -> 1 at rate 1, 1 -> 0 and 1 -> 2 at rate 1 each.
    assert found.levels == pytest.approx([1 / 4, 1 / 4, 1 / 2], rel=1e-13)
    # Of nine pages two get in on the empty system, one beside another, none beside two.
    assert found.loss == pytest.approx(1 - (2 / 4 + 1 / 4) / 9, rel=1e-12)


def test_level_zero_obeys_the_rule_like_any_other() -> None:
    modes = {1: BatchArrivals.poisson(0.1), 4: BatchArrivals.poisson(5.0)}
    model = Model(2, modes, PhaseType.exponential(1.0), PhaseType.never())
    found = solve(model, Thresholds((1,)))
    assert found.levels[1] / found.levels[0] == pytest.approx(0.1, rel=1e-13)
