"""The exact law of the free automaton: its closed forms, and the automata themselves as its twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.policy.polling_automata import poll_frequency, states_after_poll
from fieldmouse_lab.refresh.automaton_law import FreeAutomatonLaw
from fieldmouse_lab.refresh.contest import PageSet, domain_pages, heavy_tailed_pages, zipf_pages

PROBABILITIES = st.floats(0.001, 0.999)


def one(p: float, resolution: int) -> FreeAutomatonLaw:
    return FreeAutomatonLaw(np.array([p]), np.array([1]), resolution)


def played(p: np.ndarray, resolution: int, slots: int, seed: int, *, in_this_slot: bool = False) -> np.ndarray:
    """Weights of pages after so many slots, page by page as the document has it."""
    rng = np.random.default_rng(seed)
    states = np.ones(len(p), dtype=np.int64)
    stale = np.zeros(len(p), dtype=bool)
    for _ in range(slots):
        changes = p > rng.random(len(p))
        stale |= changes
        polled = poll_frequency(states, resolution) > rng.random(len(p))
        found = changes if in_this_slot else stale
        states[polled] = states_after_poll(states[polled], found[polled], resolution)
        stale[polled] = False
    return poll_frequency(states, resolution)


@given(PROBABILITIES, st.integers(1, 20), st.integers(0, 300))
def test_probabilities_stay_probabilities(p: float, resolution: int, slots: int) -> None:
    law = one(p, resolution)
    for chances in (law.after(slots), law.steady()):
        assert chances.sum() == pytest.approx(1.0)
        assert chances.min() > -1e-9


@given(PROBABILITIES, st.integers(1, 20))
def test_the_steady_state_is_invariant_under_a_slot(p: float, resolution: int) -> None:
    law = one(p, resolution)
    steady = law.steady()
    assert np.einsum("pi,pij->pj", steady, law.transitions) == pytest.approx(steady, abs=1e-9)


@pytest.mark.parametrize("p", [0.1, 0.3, 0.45])
def test_many_states_rest_where_half_the_polls_find_a_change_and_that_is_not_p(p: float) -> None:
    law = one(p, 128)
    spell = law.slot_law(law.steady())
    assert spell.useful == pytest.approx(0.5, abs=0.01)
    assert spell.weight == pytest.approx(p / (1 - p), rel=0.05)
    assert spell.weight > 1.05 * p


@given(PROBABILITIES, st.integers(1, 20))
def test_each_change_found_makes_a_copy_fresh_and_each_fresh_copy_can_change(p: float, resolution: int) -> None:
    """For ever: copies made fresh by polls are as many as those that a change makes stale."""
    law = one(p, resolution)
    spell = law.slot_law(law.steady())
    assert spell.updates == pytest.approx(p * spell.fresh)


def test_one_state_polls_always_and_finds_every_change() -> None:
    spell = one(0.3, 1).slot_law(one(0.3, 1).after(7))
    assert (spell.weight, spell.fresh) == pytest.approx((1.0, 1.0))
    assert spell.updates == pytest.approx(0.3)


@pytest.mark.parametrize("resolution", [8, 16])
@pytest.mark.parametrize("population", [domain_pages(), zipf_pages()], ids=lambda population: population.name)
@pytest.mark.parametrize("slots", [20, 300])
def test_free_automata_are_where_the_law_has_them(population: PageSet, resolution: int, slots: int) -> None:
    law = FreeAutomatonLaw.of(population.p, resolution)
    spell = law.slot_law(law.after(slots))
    totals = [played(population.p, resolution, slots, seed).sum() for seed in range(6)]
    assert abs(np.mean(totals) - spell.weight) < 4 * spell.spread / np.sqrt(len(totals))
    assert 0.3 * spell.spread < np.std(totals, ddof=1) < 2.5 * spell.spread


@pytest.mark.parametrize("resolution", [8, 16])
def test_an_automaton_that_only_sees_changes_of_this_slot_is_somewhere_else(resolution: int) -> None:
    law = FreeAutomatonLaw.of(domain_pages().p, resolution)
    spell = law.slot_law(law.after(300))
    wrong = played(domain_pages().p, resolution, 300, 1, in_this_slot=True).sum()
    assert abs(wrong - spell.weight) > 20 * spell.spread


def test_the_populations_are_those_of_the_document() -> None:
    assert [sum(sizes) for sizes in np.split(domain_pages().sizes, [8, 14, 18])] == [2379, 1686, 808, 155]
    assert domain_pages().p.sum() == pytest.approx(1223.75)
    assert zipf_pages().pages == 1738
    assert zipf_pages().p.sum() == pytest.approx(111.56687609278475, abs=1e-12)


def test_a_heavy_population_has_its_median_and_its_tail() -> None:
    rates = -np.log1p(-np.minimum(heavy_tailed_pages(np.random.default_rng(1)).p, 1 - 1e-12))
    low, median, high = np.quantile(rates, [0.1587, 0.5, 0.8413])
    assert median == pytest.approx(1 / 50, rel=0.1)
    assert np.log([median / low, high / median]) == pytest.approx(2.0, rel=0.1)
