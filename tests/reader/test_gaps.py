"""Measured freshness from looks alone, compared with the truth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.policy.polling import registry
from fieldmouse.reader.freshness import ObservedPollIntervals, _count_later_gaps, measure_page_seconds

PAGES, SLOTS = 1500, 48
"""Slots in a round, the time in which the budget allows one poll of every page."""


def played(policy: str, rounds: int, counted: int, seed: int) -> tuple[ObservedPollIntervals, np.ndarray, float]:
    """Gaps of pages that change at random and are polled by a policy, the last look at each page, and the
    share of time with current copies in the last rounds, which begin at `rounds - counted + 1`."""
    chance = np.random.default_rng(seed)
    rates = np.exp(2 * chance.standard_normal(PAGES)) / 4
    rule = registry.create_policy(policy)
    state, belief = rule.initial_state(PAGES), np.zeros((PAGES, 4), np.float32)
    looked, due, stale = np.ones(PAGES), chance.uniform(size=PAGES), 1 + chance.exponential(1 / rates)
    start, end, good = 1.0 + rounds - counted, 1.0 + rounds, 0.0
    found: list[tuple[np.ndarray, ...]] = []
    for slot in range(1, rounds * SLOTS + 1):
        now = 1 + slot / SLOTS
        due += rule.plan(state, belief, PAGES) / SLOTS
        rows = np.flatnonzero(due >= 1)
        due[rows] = np.minimum(due[rows] - 1, 1.0)
        good += np.maximum(0.0, np.minimum(now, stale[rows]) - np.maximum(looked[rows], start)).sum()
        changed = stale[rows] < now
        found.append((rows, looked[rows], np.full(len(rows), now), changed))
        state[rows] = rule.observe(state[rows], belief[rows], now - looked[rows], changed)
        looked[rows], stale[rows] = now, now + chance.exponential(1 / rates[rows])
    good += np.maximum(0.0, np.minimum(end, stale) - np.maximum(looked, start)).sum()
    gaps = ObservedPollIntervals(*(np.concatenate(column) for column in zip(*found, strict=True)))
    order = np.lexsort((gaps.end, gaps.page))
    return ObservedPollIntervals(*(column[order] for column in gaps)), looked, good / (PAGES * counted)


@pytest.mark.parametrize("policy", ["uniform", "multiplicative"])
def test_measured_freshness_is_right_also_for_pages_that_are_hardly_polled(policy: str) -> None:
    """A page that is polled ever more seldom is one that does not change: it is not like the others."""
    for seed in (1, 2):
        gaps, looked, truth = played(policy, rounds=8, counted=4, seed=seed)
        held = measure_page_seconds(gaps, looked, 5.0, 9.0)
        assert held.all == pytest.approx(PAGES * 4)
        assert held.good / held.all == pytest.approx(truth, abs=0.02)


@given(st.lists(st.integers(0, 4), max_size=30))
def test_gaps_of_a_page_are_counted_from_the_newest(pages: list[int]) -> None:
    pages.sort()
    none = np.zeros(len(pages))
    newer = _count_later_gaps(ObservedPollIntervals(np.array(pages, np.int64), none, none, none > 0)).tolist()
    assert newer == [pages[place + 1 :].count(page) for place, page in enumerate(pages)]
