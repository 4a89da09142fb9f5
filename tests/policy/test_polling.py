"""What every plan keeps: its budget, the hosts' limits, and its word."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.errors import UsageError
from fieldmouse.policy import change_rate
from fieldmouse.policy.change_rate import Beliefs
from fieldmouse.policy.polling import registry
from fieldmouse.policy.polling.registry import POLICIES


def beliefs(pages: int, looks: int, seed: int, unit: float = 1.0) -> Beliefs:
    rng = np.random.default_rng(seed)
    rates = np.exp(rng.normal(0.0, 2.0, pages)) / unit
    belief = change_rate.empty_beliefs(pages)
    for _ in range(looks):
        gap = rng.exponential(unit, pages)
        belief = change_rate.update_beliefs(belief, gap, rng.random(pages) < -np.expm1(-rates * gap))
    return belief


crawls = st.builds(
    beliefs,
    pages=st.sampled_from([1, 2, 7, 50]),
    looks=st.integers(0, 12),
    seed=st.integers(0, 99),
    unit=st.sampled_from([1.0, 1e6]),
)
names = st.sampled_from(sorted(POLICIES))


@given(names, crawls, st.floats(1e-9, 1e6))
def test_a_plan_spends_its_budget_and_never_more(name: str, belief: Beliefs, budget: float) -> None:
    policy = registry.create_policy(name)
    plan = policy.plan(policy.initial_state(len(belief)), belief, budget)
    assert (plan >= 0).all()
    assert plan.sum() == pytest.approx(budget, rel=1e-6)
    assert plan.sum() <= budget * (1 + 1e-9)


@given(names, crawls, st.floats(1e-6, 1e3), st.floats(1e-6, 1e3))
def test_no_host_exceeds_its_limit_and_the_rest_goes_to_other_hosts(
    name: str, belief: Beliefs, budget: float, limit: float
) -> None:
    policy = registry.create_policy(name)
    host = np.arange(len(belief)) % 3
    plan = policy.plan(policy.initial_state(len(belief)), belief, budget, host=host, host_limit=limit)
    asked = np.bincount(host, plan, 3)
    assert (asked <= limit * (1 + 1e-9)).all()
    assert plan.sum() == pytest.approx(min(budget, limit * min(3, len(belief))), rel=1e-5)


@given(names, crawls)
def test_a_page_of_no_weight_gets_no_polls(name: str, belief: Beliefs) -> None:
    policy = registry.create_policy(name)
    weight = np.arange(len(belief)) % 2
    plan = policy.plan(policy.initial_state(len(belief)), belief, 5.0, weight=weight)
    assert not plan[weight == 0].any()


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_no_pages_and_no_budget_are_no_error(name: str) -> None:
    policy = registry.create_policy(name)
    assert policy.plan(policy.initial_state(0), change_rate.empty_beliefs(0), 1.0).tolist() == []
    assert policy.plan(policy.initial_state(2), change_rate.empty_beliefs(2), 0.0).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_a_policy_keeps_the_columns_it_said_and_changes_nothing_it_was_given(name: str) -> None:
    policy = registry.create_policy(name)
    state, belief = policy.initial_state(3), change_rate.empty_beliefs(3)
    assert state.shape == (3, policy.width)
    assert state.dtype == np.float32
    before = state.copy()
    after = policy.observe(state, belief, np.array([1.0, 2.0, 3.0]), np.array([True, False, True]))
    assert after.shape == state.shape
    assert after.dtype == np.float32
    assert (state == before).all()


@pytest.mark.parametrize(("name", "says"), [("fresh", "there is no polling"), ("posixpath:join", "no class")])
def test_an_invalid_policy_raises_a_usage_error(name: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        registry.create_policy(name)


class _UserPolicy:
    """Polling policy of a user; subclasses break one method."""

    width = 1

    def initial_state(self, pages: int) -> npt.NDArray[np.float32]:
        return np.ones((pages, 1), np.float32)

    def observe(self, state: Any, belief: Any, gap: Any, changed: Any) -> Any:
        return state

    def plan(self, state: Any, belief: Any, budget: float, **limits: Any) -> Any:
        return np.full(len(state), budget / len(state))


class _Raising(_UserPolicy):
    def plan(self, state: Any, belief: Any, budget: float, **limits: Any) -> Any:
        raise ZeroDivisionError("no pages")


class _Short(_UserPolicy):
    def plan(self, state: Any, belief: Any, budget: float, **limits: Any) -> Any:
        return [budget]


class _Negative(_UserPolicy):
    def plan(self, state: Any, belief: Any, budget: float, **limits: Any) -> Any:
        return [budget, -1.0, np.nan]


class _Flat(_UserPolicy):
    def observe(self, state: Any, belief: Any, gap: Any, changed: Any) -> Any:
        return state[:, 0]


class _Unready(_UserPolicy):
    def __init__(self) -> None:
        raise KeyError("model.bin")


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        ("_Raising", r"`plan` of the polling policy `\S+:_Raising` failed: ZeroDivisionError: no pages \(.*line \d+\)"),
        ("_Short", r"`plan` .* returned the shape \(1,\) for 3 pages"),
        ("_Negative", r"`plan` .* returned a rate below 0, or none, for 2 of 3 pages"),
        ("_Flat", r"`observe` .* returned the shape \(3,\), not \(3, 1\)"),
        ("_Unready", r"`__init__` .* failed: KeyError: 'model.bin'"),
    ],
)
def test_a_mistake_in_a_policy_of_the_user_is_a_usage_error(policy: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        _observe_and_plan(f"{__name__}:{policy}")


def _observe_and_plan(name: str) -> None:
    made = registry.create_policy(name)
    state, belief = made.initial_state(3), change_rate.empty_beliefs(3)
    made.plan(made.observe(state, belief, np.ones(3), np.ones(3, bool)), belief, 3.0)


def test_a_correct_policy_of_the_user_gets_and_gives_everything_unchanged() -> None:
    made, own = registry.create_policy(f"{__name__}:_UserPolicy"), _UserPolicy()
    state, belief = made.initial_state(3), change_rate.empty_beliefs(3)
    assert (made.width, state.tolist()) == (1, own.initial_state(3).tolist())
    assert made.plan(state, belief, 3.0).tolist() == [1.0, 1.0, 1.0]


class _PolicyOfVersion1:
    width = 0

    def begin(self, pages: int) -> None: ...

    def observe(self) -> None: ...

    def plan(self) -> None: ...


def test_a_policy_with_a_former_method_name_is_told_the_new_one() -> None:
    with pytest.raises(UsageError, match="a method `begin`, which is now called `initial_state`"):
        registry.create_policy(f"{__name__}:_PolicyOfVersion1")
