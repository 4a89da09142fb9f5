"""The solvers against formulas from books, to nine digits and more."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import integrate, linalg

from fieldmouse.policy.concurrency_thresholds import Thresholds
from fieldmouse.queueing.model.arrivals import BatchArrivals
from fieldmouse.queueing.model.model import Measures, Method, Model
from fieldmouse.queueing.model.phase_type import PhaseType
from fieldmouse.queueing.model.validation import FloatArray
from fieldmouse.queueing.solve.solve import solve

ONE = Thresholds((1,))
EXACT: tuple[Method, ...] = ("banded", "ordered")


def poisson(rate: float) -> dict[int, BatchArrivals]:
    return {1: BatchArrivals.poisson(rate)}


@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize(("lam", "K"), [(0.7, 1), (0.7, 2), (0.9, 10), (1.0, 7), (3.0, 12)])
def test_one_server_without_obsolescence(lam: float, K: int, method: Method) -> None:
    """M/M/1/K."""
    found = solve(Model(K, poisson(lam), PhaseType.exponential(1.0), PhaseType.never()), ONE, method)
    p = lam ** np.arange(K + 1)
    p /= p.sum()
    assert found.levels == pytest.approx(p, rel=1e-12)
    assert found.loss == pytest.approx(p[K], rel=1e-12)
    assert found.sojourn_served == pytest.approx(p[:K] @ np.arange(1, K + 1) / (1 - p[K]), rel=1e-12)
    assert found.sojourn_obsolete is None
    assert found.obs == 0


def test_a_buffer_of_a_thousand_keeps_every_digit() -> None:
    """The loss of M/M/1/1000 at load 0.8 is 4e-98; at load 2 weights leave the doubles on the way."""
    for lam in (0.8, 2.0):
        found = solve(Model(1000, poisson(lam), PhaseType.exponential(1.0), PhaseType.never()), ONE)
        loss = lam**1000 * (1 - lam) / (1 - lam**1001) if lam < 1 else (lam - 1) / (lam - lam**-1000.0)
        assert found.loss == pytest.approx(loss, rel=1e-11)
        assert found.star == pytest.approx((1 - lam) / (1 - lam**1001) if lam < 1 else 2.0**-1001, rel=1e-11)


@pytest.mark.parametrize("method", EXACT)
def test_one_server_and_waiting_pages_give_up(method: Method) -> None:
    """M/M/1/K with reneging: at level n pages leave at rate mu + (n - 1) delta."""
    lam, mu, delta, K = 1.7, 1.0, 0.4, 9
    found = solve(Model(K, poisson(lam), PhaseType.exponential(mu), PhaseType.exponential(delta)), ONE, method)
    p = np.cumprod([1.0, *(lam / (mu + n * delta) for n in range(K))])
    p /= p.sum()
    assert found.levels == pytest.approx(p, rel=1e-12)
    assert found.obs == pytest.approx(delta * (p[2:] @ np.arange(1, K)) / lam, rel=1e-12)
    # A page that finds n ahead is served if n exponential clocks of the others ring before its own.
    wins = [math.prod((mu + k * delta) / (mu + (k + 1) * delta) for k in range(n)) for n in range(K)]
    assert found.success == pytest.approx(p[:K] @ wins, rel=1e-12)
    waits = [sum(1 / (mu + (k + 1) * delta) for k in range(n)) + 1 / mu for n in range(K)]
    served = (p[:K] * wins) @ waits / (p[:K] @ wins)
    assert found.sojourn_served == pytest.approx(served, rel=1e-12)


@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize("service", [PhaseType.erlang(3, 4.0), PhaseType.hyperexponential([0.9, 0.1], [3.0, 0.2])])
def test_any_service_seen_at_departures(service: PhaseType, method: Method) -> None:
    """M/G/1/K by the chain that departing pages leave behind (Cooper 1981), arrivals by quadrature."""
    lam, K = 0.9, 6

    def arrivals(j: int) -> float:
        density: Callable[[float], float] = lambda t: (  # noqa: E731
            math.exp(-lam * t) * (lam * t) ** j / math.factorial(j) * float(service.pdf(t))
        )
        return float(integrate.quad(density, 0, np.inf, epsabs=1e-14, epsrel=1e-13, limit=400)[0])

    a = [arrivals(j) for j in range(K)]
    P = np.zeros((K, K))
    for i in range(K):
        for j in range(K - 1):
            P[i, j] = a[j - max(i - 1, 0)] if j >= max(i - 1, 0) else 0.0
        P[i, K - 1] = 1 - P[i, : K - 1].sum()
    pi = linalg.null_space((P - np.eye(K)).T)[:, 0]
    pi /= pi.sum()
    scale = 1 / (pi[0] + lam * service.mean)
    p = np.append(pi * scale, 1 - scale)
    found = solve(Model(K, poisson(lam), service, PhaseType.never()), ONE, method)
    assert found.levels == pytest.approx(p, rel=1e-9)


@pytest.mark.parametrize("method", EXACT)
def test_room_for_one_page(method: Method) -> None:
    """K = 1: the server starves 1 / (1 + lambda_g b1) of the time when batches come as Poisson groups."""
    batches = BatchArrivals(([[-2.0]], [[0.5]], [[0.0]], [[1.5]]))  # type: ignore[arg-type]
    service = PhaseType(np.array([0.4, 0.6]), np.array([[-3.0, 1.0], [2.0, -3.0]]))
    found = solve(Model(1, {1: batches}, service, PhaseType.erlang(2, 1.0).with_scaled_rates(1.0)), ONE, "ordered")
    if method == "banded":
        found = solve(Model(1, {1: batches}, service, PhaseType.exponential(0.3)), ONE, method)
    assert found.star == pytest.approx(1 / (1 + 2.0 * service.mean), rel=1e-13)
    assert found.loss == pytest.approx(1 - (1 - found.star) / service.mean / 5.0, rel=1e-12)
    assert found.sojourn_served == pytest.approx(service.mean, rel=1e-13)
    assert found.obs == 0


def in_order(life: PhaseType, rates: list[float], mu: float) -> tuple[FloatArray, float, float]:
    """Levels, V1 and obsolescence of FIFO M(n)/M/1/K with any lifetime.

    p(n, x) = p_0 rates[0] ... rates[n-1] e^(-mu x) A(x)^(n-1) / (n-1)!, x the time since the
    page in service came and A(x) the integral of P(life > y) up to x.
    """
    K = len(rates)
    nodes, portions = np.polynomial.legendre.leggauss(20)
    edges = np.linspace(0.0, 50 / mu, 101)
    half = (edges[1] - edges[0]) / 2
    x = (edges[:-1, None] + half * (nodes + 1)).ravel()
    dx = np.tile(half * portions, 100)
    # exp(S x) = exp(S (a step's part)) exp(S (a step))^(steps before).
    parts = [linalg.expm(life.S * half * (node + 1)) for node in nodes]
    step, before = linalg.expm(life.S * half * 2), [np.eye(life.order)]
    for _ in range(99):
        before.append(before[-1] @ step)
    left = np.einsum("a,kab,jbc,c->kj", life.alpha, before, parts, np.linalg.inv(-life.S).sum(axis=1))
    grown = life.mean - left.ravel()

    def integral(n: int, power: int) -> float:
        return float((x**power * np.exp(-mu * x) * grown ** (n - 1) / math.factorial(n - 1)) @ dx)

    weights = [math.prod(rates[:n]) for n in range(K + 1)]
    p = np.array([1.0, *(weights[n] * integral(n, 0) for n in range(1, K + 1))])
    ages = sum(weights[n] * integral(n, 1) for n in range(1, K + 1))
    V1 = ages / p[1:].sum()
    p /= p.sum()
    rate = p[:K] @ rates
    return p, V1, (rate - mu * (1 - p[0])) / rate


LIVES = {
    "Erlang": PhaseType.erlang(3, 2.0),
    "hyperexponential": PhaseType.hyperexponential([0.7, 0.3], [4.0, 0.1]),
    "Coxian": PhaseType(np.array([1.0, 0.0]), np.array([[-2.0, 0.5], [0.0, -0.1]])),
    "feedback": PhaseType(np.array([0.2, 0.8]), np.array([[-2.0, 1.5], [0.3, -0.4]])),
    "cycle": PhaseType(np.array([1.0, 0.0, 0.0]), np.array([[-1.0, 0.9, 0.0], [0.0, -1.0, 0.8], [0.9, 0.0, -2.0]])),
}


def with_thresholds(life: PhaseType) -> tuple[Measures, list[float]]:
    """Two modes; at the top level the pages that come are lost."""
    modes = {1: BatchArrivals.poisson(0.7), 3: BatchArrivals.poisson(2.1)}
    model = Model(6, modes, PhaseType.exponential(1.3), life)
    return solve(model, Thresholds((3, 1), (2,)), "ordered"), [2.1, 2.1, 2.1, 0.7, 0.7, 0.7]


@pytest.mark.parametrize("life", LIVES.values(), ids=LIVES)
def test_pages_of_any_lifetime_wait_in_order(life: PhaseType) -> None:
    found, rates = with_thresholds(life)
    p, V1, _ = in_order(life, rates, 1.3)
    assert found.levels == pytest.approx(p, rel=1e-9)
    assert found.sojourn_served == pytest.approx(V1, rel=1e-9)
    assert found.success * found.rate == pytest.approx(1.3 * (1 - p[0]), rel=1e-9)


def counted_per_phase(life: PhaseType, rates: list[float], mu: float) -> FloatArray:
    """Levels if waiting pages were only counted per phase, any of them being served next: another system."""
    K, R = len(rates), life.order

    def counts(waiting: int, phases: int) -> list[tuple[int, ...]]:
        if phases == 1:
            return [(waiting,)]
        return [(k, *rest) for k in range(waiting + 1) for rest in counts(waiting - k, phases - 1)]

    states = [(0, (0,) * R)] + [(level, c) for level in range(1, K + 1) for c in counts(level - 1, R)]
    place = {state: i for i, state in enumerate(states)}
    Q = np.zeros((len(states), len(states)))

    def moved(c: tuple[int, ...], *changes: tuple[int, int]) -> tuple[int, ...]:
        new = list(c)
        for phase, by in changes:
            new[phase] += by
        return tuple(new)

    for (level, c), i in place.items():
        if level == 0:
            Q[i, place[1, c]] += rates[0]
            continue
        for r in range(R):
            if level < K:
                Q[i, place[level + 1, moved(c, (r, 1))]] += rates[level] * life.alpha[r]
            if c[r]:
                gone = place[level - 1, moved(c, (r, -1))]
                Q[i, gone] += c[r] * life.exit_rates[r] + mu * c[r] / (level - 1)
                for s in range(R):
                    if s != r:
                        Q[i, place[level, moved(c, (r, -1), (s, 1))]] += c[r] * life.S[r, s]
        if level == 1:
            Q[i, place[0, c]] += mu
    Q -= np.diag(Q.sum(axis=1))
    Q[:, 0] = 1.0
    p = np.linalg.solve(Q.T, np.eye(len(Q))[0])
    return np.array([sum(p[i] for (level, _), i in place.items() if level == k) for k in range(K + 1)])


def test_counting_pages_per_phase_is_another_system() -> None:
    """It is exact for exponential lifetimes and with one page waiting at most, and wrong otherwise."""
    rates, mu = [2.1, 2.1, 2.1, 0.7, 0.7, 0.7], 1.3
    disguised = PhaseType(np.array([0.3, 0.7]), np.array([[-0.6, 0.4], [0.1, -0.3]]))
    assert counted_per_phase(disguised, rates, mu) == pytest.approx(in_order(disguised, rates, mu)[0], rel=1e-9)
    for life in (LIVES["Erlang"], LIVES["hyperexponential"]):
        found, _ = with_thresholds(life)
        truth = in_order(life, rates, mu)[0]
        wrong = counted_per_phase(life, rates, mu)
        assert counted_per_phase(life, rates[:2], mu) == pytest.approx(in_order(life, rates[:2], mu)[0], rel=1e-9)
        assert np.abs(wrong / truth - 1).max() > 1e-3
        assert np.abs(found.levels / truth - 1).max() < 1e-9
