"""The rule on the level, and how long pages may wait: what holds whatever the numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.errors import SettingsError
from fieldmouse.policy.concurrency_thresholds import ExponentialLifetime, FixedLifetime, Thresholds


@st.composite
def rules(draw: st.DrawFn) -> Thresholds:
    robots = sorted(draw(st.lists(st.integers(0, 50), min_size=1, max_size=5)), reverse=True)
    limits = sorted(draw(st.lists(st.integers(0, 60), min_size=len(robots) - 1, max_size=len(robots) - 1)))
    return Thresholds(tuple(robots), tuple(limits))


@given(rules(), st.integers(0, 100))
def test_a_fuller_buffer_never_starts_more_fetchers(rule: Thresholds, level: int) -> None:
    assert rule.concurrency_at(level + 1) <= rule.concurrency_at(level)


@given(rules(), st.integers(0, 100))
def test_each_concurrency_applies_from_the_previous_limit_to_its_own(rule: Thresholds, level: int) -> None:
    """Spelled out by looking at the limits one after the other."""
    for robots, limit in zip(rule.robots, rule.limits, strict=False):
        if level <= limit:
            assert rule.concurrency_at(level) == robots
            return
    assert rule.concurrency_at(level) == rule.robots[-1]


@pytest.mark.parametrize(
    ("robots", "limits"), [((2, 1), ()), ((1,), (3,)), ((1, 2), (3,)), ((3, 2, 1), (5, 4)), ((1, -1), (2,))]
)
def test_an_invalid_rule_is_rejected(robots: tuple[int, ...], limits: tuple[int, ...]) -> None:
    with pytest.raises(SettingsError, match=r"limits|robots"):
        Thresholds(robots, limits)


@given(st.floats(0, 1e9), st.floats(0.001, 1e6))
def test_pages_with_one_lifetime_expire_in_the_order_in_which_they_came(now: float, seconds: float) -> None:
    rule = FixedLifetime(seconds)
    assert rule.expires_at(now) <= rule.expires_at(now + 1.0)


def test_exponential_lifetimes_have_their_mean_and_forget_their_age() -> None:
    rule = ExponentialLifetime(4.0, np.random.default_rng(1))
    lives = np.array([rule.expires_at(100.0) for _ in range(20_000)]) - 100.0
    assert abs(lives.mean() - 4.0) < 5 * 4.0 / np.sqrt(len(lives))
    old = lives[lives > 3.0] - 3.0
    assert abs(old.mean() - 4.0) < 5 * 4.0 / np.sqrt(len(old))
