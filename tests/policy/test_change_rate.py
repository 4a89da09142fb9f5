"""What a page's looks tell of its rate: laws, limits, and the truth of made-up populations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.policy import change_rate
from fieldmouse.policy.change_rate import Beliefs, ClaimReliability
from policy import cho


def looked_at(rates: np.ndarray, gap: float, looks: int, seed: int = 1, fade: float = 1.0) -> Beliefs:
    rng = np.random.default_rng(seed)
    belief = change_rate.empty_beliefs(len(rates))
    for _ in range(looks):
        belief = change_rate.update_beliefs(belief, gap, rng.random(len(rates)) < -np.expm1(-rates * gap), fade=fade)
    return belief


def test_pages_without_polls_are_no_error_and_get_equal_rates() -> None:
    for belief in (change_rate.empty_beliefs(0), change_rate.empty_beliefs(1), change_rate.empty_beliefs(5)):
        assert len(set(change_rate.estimated_rate(belief).tolist())) <= 1
        assert np.isfinite(change_rate.expected_freshness(belief, 1.0)).all()


@pytest.mark.parametrize("unit", [1.0, 86_400.0, 1e-3])
def test_a_population_is_learned_in_any_unit_of_time(unit: float) -> None:
    true = np.exp(np.random.default_rng(3).normal(0.0, 2.0, 4000))
    belief = looked_at(true / unit, 0.5 * unit, 60)
    error = np.log(change_rate.estimated_rate(belief) * unit) - np.log(true)
    visible = (true > 0.1) & (true < 4)
    assert abs(error[visible].mean()) < 0.1
    assert error[visible].std() < 0.5
    assert np.corrcoef(np.log(change_rate.estimated_rate(belief)), np.log(true))[0, 1] > 0.9


def test_expected_freshness_matches_the_population_even_for_hardly_known_pages() -> None:
    true = np.exp(np.random.default_rng(4).normal(0.0, 2.0, 20_000))
    for looks in (2, 5, 20):
        belief = looked_at(true, 1.0, looks)
        law = change_rate.fit_population(belief)
        for interval in (0.5, 1.0, 4.0):
            exact = change_rate.fresh_share(true * interval).mean()
            assert change_rate.expected_freshness(belief, interval, law).mean() == pytest.approx(exact, abs=0.015)
        assert change_rate.probability_current(belief, 1.0, law).mean() == pytest.approx(
            np.exp(-true).mean(), abs=0.015
        )


@given(st.lists(st.tuples(st.floats(1e-3, 1e6), st.booleans()), min_size=1, max_size=30), st.floats(1e-3, 1e6))
def test_a_look_that_finds_a_change_never_lowers_the_rate_and_one_that_finds_none_never_raises_it(
    looks: list[tuple[float, bool]], gap: float
) -> None:
    belief = change_rate.empty_beliefs(1)
    for span, changed in looks:
        belief = change_rate.update_beliefs(belief, span, changed)
    law = change_rate.ChangeRatePrior.log_uniform(1e-9, 1e5)
    faded = change_rate.update_beliefs(belief, 0.0, False)
    before = change_rate.estimated_rate(faded, law)
    assert change_rate.estimated_rate(change_rate.update_beliefs(belief, gap, False), law) <= before * (1 + 1e-3)
    same = belief[0, 3] / max(belief[0, 2], 1e-30) if belief[0, 2] else gap
    assert change_rate.estimated_rate(change_rate.update_beliefs(belief, same, True), law) >= before * (1 - 1e-3)


def test_observe_does_not_change_its_arguments() -> None:
    belief = change_rate.empty_beliefs(3)
    change_rate.update_beliefs(belief, [1.0, 2.0, 3.0], [True, False, True])
    assert not belief.any()


def test_a_page_that_changes_its_behaviour_is_learned_anew() -> None:
    belief = change_rate.empty_beliefs(2)
    for changed, looks in ((True, 200), (False, 200)):
        for _ in range(looks):
            belief = change_rate.update_beliefs(belief, 1.0, [changed, not changed])
    law = change_rate.ChangeRatePrior.log_uniform(1e-4, 1e2)
    assert change_rate.estimated_rate(belief, law)[0] < 0.1 < 1 < change_rate.estimated_rate(belief, law)[1]


def test_a_dated_change_tells_more_than_an_undated_one() -> None:
    true = np.exp(np.random.default_rng(6).normal(0.0, 1.0, 4000))
    rng = np.random.default_rng(7)
    blind, dated = change_rate.empty_beliefs(4000), change_rate.empty_beliefs(4000)
    for _ in range(20):
        age = rng.exponential(1 / true)  # back from the look to the last change
        changed = age < 2.0
        blind = change_rate.update_beliefs(blind, 2.0, changed)
        dated = change_rate.update_beliefs(dated, 2.0, changed, age)
    errors = [np.abs(np.log(change_rate.estimated_rate(belief) / true)).mean() for belief in (blind, dated)]
    assert errors[1] < 0.8 * errors[0]


@given(st.lists(st.booleans(), max_size=60))
def test_trust_stays_between_0_and_1_and_rises_with_right_claims(claims: list[bool]) -> None:
    trust = ClaimReliability()
    for right in claims:
        trust = trust.after_claim(right)
    assert 0 <= trust.probability_right() < 1
    assert trust.after_claim(False).probability_right() <= trust.after_claim(True).probability_right()


def test_the_estimators_of_cho_are_as_biased_as_they_say() -> None:
    rng = np.random.default_rng(8)
    found = rng.random((20_000, 50)) < -np.expm1(-0.7)
    counts = found.sum(axis=1)
    assert cho.naive(50, counts).mean() == pytest.approx(-np.expm1(-0.7), abs=0.005), "sees one of many"
    assert cho.reduced_bias(50, counts).mean() == pytest.approx(0.7, abs=0.01)


@given(st.lists(st.tuples(st.floats(0.1, 10), st.booleans()), min_size=2, max_size=30))
def test_no_rate_is_more_likely_than_the_most_likely(looks: list[tuple[float, bool]]) -> None:
    gaps, changed = np.array([gap for gap, _ in looks]), np.array([bit for _, bit in looks])
    best = cho.maximum_likelihood(gaps, changed)

    def likelihood(rate: float) -> float:
        return float(np.prod(np.where(changed, -np.expm1(-rate * gaps), np.exp(-rate * gaps))))

    best = min(best, 1e6)
    for factor in (0.5, 0.9, 1.1, 2.0):
        assert likelihood(best) >= likelihood(best * factor) * (1 - 1e-9)


def test_where_little_is_known_the_population_helps_more_than_any_estimator_of_one_page() -> None:
    true = np.exp(np.random.default_rng(9).normal(0.0, 2.0, 4000))
    belief = looked_at(true, 1.0, 8)
    changes = belief[:, 2].astype(np.float64)
    errors = {
        "belief": np.log(change_rate.estimated_rate(belief)) - np.log(true),
        "cho": np.log(np.maximum(cho.reduced_bias(8, changes), 1e-2)) - np.log(true),
        "naive": np.log(np.maximum(cho.naive(8, changes), 1e-2)) - np.log(true),
    }
    size = {name: float(np.abs(error).mean()) for name, error in errors.items()}
    assert size["belief"] < size["cho"]
    assert size["belief"] < size["naive"]
