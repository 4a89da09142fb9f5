"""Plans against what can be known otherwise: a general optimiser, closed forms, and orders that must hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from fieldmouse.policy import change_rate
from fieldmouse.policy.change_rate import fresh_share
from fieldmouse.policy.polling.interface import PollingPolicy, Reals
from fieldmouse.policy.polling.learned import LearnedPolicy
from fieldmouse.policy.polling.policies import HarmonicPolicy, MultiplicativePolicy, OptimalPolicy, UniformPolicy

rates_of_pages = st.lists(st.floats(1e-4, 1e3), min_size=1, max_size=30).map(np.array)


def planned(policy: PollingPolicy, pages: int, budget: float, **more: object) -> Reals:
    return policy.plan(policy.initial_state(pages), change_rate.empty_beliefs(pages), budget, **more)  # type: ignore[arg-type]


def freshness(rates: Reals, plan: Reals, weight: Reals | float = 1.0) -> float:
    shares = np.where(plan > 0, fresh_share(rates / np.maximum(plan, 1e-300)), 0.0)
    return float((weight * shares).sum())


@pytest.mark.parametrize("seed", range(4))
def test_no_general_optimiser_finds_a_better_plan(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rates, weight, host = np.exp(rng.normal(0, 2, 12)), rng.uniform(0.2, 3, 12), np.arange(12) % 3
    limits = np.array([1.0, 2.0, 50.0])
    plan = planned(OptimalPolicy(rates), 12, 8.0, weight=weight, host=host, host_limit=limits)
    bounds = [{"type": "ineq", "fun": lambda f: 8.0 - f.sum()}]
    bounds += [{"type": "ineq", "fun": lambda f, h=h: limits[h] - f[host == h].sum()} for h in range(3)]
    start = np.minimum(np.full(12, 8.0 / 12), 0.9 * limits[host] / 4)
    other = minimize(
        lambda f: -freshness(rates, np.maximum(f, 0), weight),
        start,
        bounds=[(0, None)] * 12,
        constraints=bounds,
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert freshness(rates, plan, weight) >= -other.fun - 1e-6


@given(rates_of_pages, st.floats(1e-2, 1e3))
def test_at_the_optimum_every_page_that_is_polled_would_pay_the_same_for_one_more(rates: Reals, budget: float) -> None:
    plan = planned(OptimalPolicy(rates), len(rates), budget)
    assert plan.sum() == pytest.approx(budget, rel=1e-6)
    best = freshness(rates, plan)
    rng = np.random.default_rng(0)
    for _ in range(5):  # no small exchange between pages is better
        give, take = rng.integers(len(rates), size=2)
        some = 0.01 * plan[give]
        other = plan.copy()
        other[give] -= some
        other[take] += some
        assert freshness(rates, other) <= best + 1e-9


@given(rates_of_pages, st.floats(1e-2, 1e3))
def test_the_optimum_is_never_below_uniform_and_harmonic_starves_no_page(rates: Reals, budget: float) -> None:
    pages = len(rates)
    optimal, uniform = planned(OptimalPolicy(rates), pages, budget), planned(UniformPolicy(), pages, budget)
    assert freshness(rates, optimal) >= freshness(rates, uniform) - 1e-7
    harmonic = planned(HarmonicPolicy(rates), pages, budget)
    assert (harmonic > 0).all()
    order = np.argsort(rates)
    assert (np.diff(harmonic[order]) >= -1e-9 * budget).all(), "who changes more is polled no less"


@given(rates_of_pages, st.floats(1e-2, 1e2))
def test_a_larger_budget_takes_no_poll_from_any_page(rates: Reals, budget: float) -> None:
    for policy in (OptimalPolicy(rates), HarmonicPolicy(rates)):
        less, more = (planned(policy, len(rates), b) for b in (budget, 1.3 * budget))
        assert (more >= less - 1e-6 * budget).all()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.floats(0.1, 60))
def test_in_slots_no_page_is_polled_twice_whatever_its_chance_is(chances: list[float], budget: float) -> None:
    rates = -np.log1p(-np.minimum(np.array(chances), 1 - 1e-15))  # 0 and 1 among them
    pages = len(rates)
    for policy in (OptimalPolicy(rates, grain=1.0), HarmonicPolicy(rates, grain=1.0), LearnedPolicy(grain=1.0)):
        plan = planned(policy, pages, budget)
        assert np.isfinite(plan).all()
        assert ((plan >= 0) & (plan <= 1 + 1e-9)).all()
        assert plan.sum() <= budget * (1 + 1e-9)


def test_in_slots_the_optimum_is_that_of_all_even_schedules() -> None:
    """Two kinds of pages, by trying out every split of the budget; freshness by adding up slot after slot."""
    p, counts, budget = np.array([0.3, 0.05]), np.array([6, 4]), 3.0

    def fresh(chance: float, polls: float) -> float:
        if polls <= 0:
            return 0.0
        k = int(1 / polls)  # cycles of k and of k + 1 slots, mixed
        per_cycle = [(1 - (1 - chance) ** n) / chance for n in (k, k + 1)]
        longer = 1 / polls - k
        return float(polls * ((1 - longer) * per_cycle[0] + longer * per_cycle[1]))

    splits = np.linspace(0, 0.5, 2001)
    totals = [6 * fresh(0.3, a) + 4 * fresh(0.05, min(1.0, (budget - 6 * a) / 4)) for a in splits]
    plan = planned(OptimalPolicy(np.repeat(-np.log1p(-p), counts), grain=1.0), 10, budget)
    ours = sum(fresh(chance, f) for chance, f in zip(np.repeat(p, counts), plan, strict=True))
    assert ours >= max(totals) - 0.02
    assert ours <= max(totals) + 1e-9


def looked_at(rates: Reals, looks: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    belief = change_rate.empty_beliefs(len(rates))
    for _ in range(looks):
        gap = rng.uniform(0.5, 1.5, len(rates))
        belief = change_rate.update_beliefs(belief, gap, rng.random(len(rates)) < -np.expm1(-rates * gap))
    return belief


@pytest.mark.parametrize("budget", [0.2, 1.0, 3.0])
def test_the_learned_policy_is_never_worse_than_uniform_and_comes_near_the_optimum(budget: float) -> None:
    rates = np.exp(np.random.default_rng(11).normal(0, 2, 4000))
    total = budget * len(rates)
    uniform = freshness(rates, planned(UniformPolicy(), len(rates), total))
    optimal = freshness(rates, planned(OptimalPolicy(rates), len(rates), total))
    reached = []
    for looks in (0, 1, 10, 100):
        plan = LearnedPolicy(explore=0.0).plan(LearnedPolicy().initial_state(4000), looked_at(rates, looks, 12), total)
        reached.append((freshness(rates, plan) - uniform) / (optimal - uniform))
    assert reached[0] == pytest.approx(0, abs=1e-6), "nothing known: uniform"
    assert reached[1] > -0.02
    assert reached[1] < reached[2] < reached[3]
    assert reached[3] > 0.7


def test_the_multiplicative_rule_shortens_and_stretches_within_bounds() -> None:
    rule = MultiplicativePolicy()
    state = rule.initial_state(2)
    for _ in range(100):
        state = rule.observe(state, change_rate.empty_beliefs(2), 1.0, np.array([True, False]))
    assert state[:, 0] == pytest.approx([rule.shortest, rule.longest])
