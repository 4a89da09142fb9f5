"""How long pages stay: moments state by state, laws against their own phase types."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import linalg, stats

from fieldmouse.policy.concurrency_thresholds import Thresholds
from fieldmouse.queueing.model.arrivals import BatchArrivals
from fieldmouse.queueing.model.model import Model, WorkersByLevel, build_chain
from fieldmouse.queueing.model.phase_type import PhaseType
from fieldmouse.queueing.simulate import simulate
from fieldmouse.queueing.solve import page_sojourn
from fieldmouse.queueing.solve.phase_type_lifetimes import LifetimePhaseChain
from fieldmouse.queueing.solve.solve import solve
from queueing.models import phase_types
from queueing.sojourn import sojourn_laws
from queueing.systems import Account, exponentials, systems

TIMES = np.array([0.0, 0.01, 0.3, 1.0, 2.5, 7.0, 20.0])


@settings(max_examples=20, deadline=None)
@given(systems(exponentials() | phase_types(most=2), most=3))
def test_variances_are_those_of_pages_followed_one_by_one(system: tuple[Model, WorkersByLevel]) -> None:
    told, laws = Account(*system).measures(), sojourn_laws(*system)
    assert laws.served.mean == pytest.approx(told["sojourn_served"], rel=1e-8)
    second = told["second_served"]
    assert laws.served.variance + laws.served.mean**2 == pytest.approx(second, rel=1e-8)
    assert laws.served.share == pytest.approx(told["success"], rel=1e-8)
    if laws.obsolete is not None:
        assert laws.obsolete.mean == pytest.approx(told["sojourn_obsolete"], rel=1e-8)
        second = told["second_obsolete"]
        assert laws.obsolete.variance + laws.obsolete.mean**2 == pytest.approx(second, rel=1e-8)


def test_without_obsolescence_a_page_waits_for_those_ahead() -> None:
    """M/M/1/K: Erlang times, mixed by what an arriving page finds."""
    lam, K = 0.8, 6
    model = Model(K, {1: BatchArrivals.poisson(lam)}, PhaseType.exponential(1.0), PhaseType.never())
    found = sojourn_laws(model, Thresholds((1,)))
    p = lam ** np.arange(K) / (lam ** np.arange(K)).sum()
    truth = sum(p[n] * stats.gamma.cdf(TIMES, n + 1) for n in range(K))
    assert found.served.cdf(TIMES) == pytest.approx(truth, abs=1e-9)
    assert found.obsolete is None
    assert found.every.cdf(0.0) == pytest.approx(solve(model, Thresholds((1,))).loss, rel=1e-12)


def followed(model: Model, rule: Thresholds) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Start, rates and ends (served, obsolete) of a page's journey, its lifetime exponential, written out."""
    account = Account(model, rule)
    service, fade, top = model.service, model.lifetime.rate, model.highest_level
    M = service.order
    start, T, ends = np.zeros(top * M), np.zeros((top * M, top * M)), np.zeros((top * M, 2))
    for state, p in account.shares().items():
        level, nu, _, _ = state
        for batch, D in enumerate(model.modes[rule.concurrency_at(level)].D[1:], 1):
            pages = account.let_in(level, batch)
            for chance, (_, _, m, _) in account.after_arrival(state, nu, pages):
                for nth in range(pages):
                    start[(level + nth) * M + m] += p * D[nu].sum() * chance
    for ahead in range(top):
        here = slice(ahead * M, ahead * M + M)
        T[here, here] += service.S - ahead * fade * np.eye(M)
        if ahead:
            below = slice(ahead * M - M, ahead * M)
            T[here, below] = np.outer(service.exit_rates, service.alpha) + (ahead - 1) * fade * np.eye(M)
            ends[here, 1] = fade
        else:
            ends[here, 0] = service.exit_rates
    return start, T, ends


def test_laws_are_the_phase_types_of_the_journey() -> None:
    fast = BatchArrivals(([[-3.0, 1.0], [0.5, -1.0]], [[1.0, 0.0], [0.0, 0.25]], [[0.0, 1.0], [0.25, 0.0]]))  # type: ignore[arg-type]
    service = PhaseType(np.array([0.4, 0.6]), np.array([[-3.0, 1.0], [2.0, -3.0]]))
    model = Model(4, {2: fast, 1: fast.scaled(0.4)}, service, PhaseType.exponential(0.3))
    rule = Thresholds((2, 1), (1,))
    start, T, ends = followed(model, rule)
    found = sojourn_laws(model, rule)
    total = start @ np.linalg.inv(-T) @ ends
    for kind, law in enumerate((found.served, found.obsolete)):
        assert law is not None
        gone = [start @ (np.eye(len(T)) - linalg.expm(T * t)) @ np.linalg.inv(-T) @ ends[:, kind] for t in TIMES]
        assert law.cdf(TIMES) == pytest.approx(np.array(gone) / total[kind], abs=1e-9)


def test_a_law_does_not_depend_on_the_chain_it_came_from() -> None:
    """The same lifetime through the band, and through the ordered chain with its two phases."""
    life = PhaseType(np.array([0.3, 0.7]), np.array([[-0.6, 0.4], [0.1, -0.3]]))
    model = Model(4, {1: BatchArrivals.poisson(1.5)}, PhaseType.erlang(2, 2.0), life)
    ordered = LifetimePhaseChain(build_chain(model, Thresholds((1,))))
    coming = page_sojourn.admitted_by_queue_length(ordered, ordered.solve()[2])
    law = sojourn_laws(model, Thresholds((1,))).served
    u = np.array([0.2, 1.0 + 2.0j, 5.0 - 1.0j])
    pushed = [page_sojourn.laplace_moments(ordered, coming, complex(each))[0][0] for each in u]
    total = page_sojourn.laplace_moments(ordered, coming)[0][0]
    assert law.transform(u) == pytest.approx(np.array(pushed) / total, rel=1e-11)


def test_simulated_pages_follow_the_law() -> None:
    life = PhaseType.erlang(2, 1.0)
    model = Model(5, {1: BatchArrivals.poisson(1.5)}, PhaseType.erlang(2, 2.0), life)
    found = sojourn_laws(model, Thresholds((1,)))
    played = simulate(model, Thresholds((1,)), 400_000, np.random.default_rng(3))
    assert found.obsolete is not None
    assert played.sojourn_served_variance == pytest.approx(found.served.variance, rel=0.03)
    assert played.sojourn_obsolete_variance == pytest.approx(found.obsolete.variance, rel=0.03)
    # The mean is the area above the distribution function, which rises.
    times, portions = np.polynomial.legendre.leggauss(16)
    times, portions = 12.5 * (times + 1), 12.5 * portions
    below = found.served.cdf(times)
    assert (np.diff(below) >= 0).all()
    assert (1 - below) @ portions == pytest.approx(found.served.mean, rel=1e-4)
