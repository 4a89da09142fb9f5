"""Slots played against exact expectations, and policies against each other as the report claims."""

from __future__ import annotations

import numpy as np
import pytest

from fieldmouse.errors import UsageError
from fieldmouse.policy.polling.policies import UniformPolicy
from fieldmouse_lab.refresh.automaton_law import FreeAutomatonLaw
from fieldmouse_lab.refresh.contest import (
    POPULATIONS,
    PageSet,
    contestants,
    domain_pages,
    natural_budget,
    play_policy,
    rates_of,
    tight_budget,
    zipf_pages,
)
from fieldmouse_lab.refresh.slots import Bursts, Spacing, play_slots


def test_evenly_polled_pages_are_as_fresh_as_they_must_be() -> None:
    p = np.repeat([0.02, 0.3, 1.0], 1500)
    played = play_slots(p, lambda _: UniformPolicy(), budget=len(p) / 4, slots=2000, seed=5)
    exact = np.mean([(1 - (1 - q) ** 4) / (4 * q) for q in (0.02, 0.3, 1.0)])
    assert played.freshness == pytest.approx(exact, abs=0.002)
    assert played.useful_ratio == pytest.approx(np.mean(1 - (1 - p) ** 4), abs=0.003)
    assert played.updates == pytest.approx(played.useful_ratio / 4, rel=1e-6)
    # A page that always changes is 0, 1, 2 and 3 slots stale in turn.
    always = play_slots(np.ones(400), lambda _: UniformPolicy(), budget=100.0, slots=400, seed=5)
    assert always.age == pytest.approx(1.5, abs=0.01)


def test_pages_polled_at_random_are_as_fresh_as_they_must_be() -> None:
    p, f = np.repeat([0.02, 0.3], 2000), 0.25
    played = play_slots(p, lambda _: UniformPolicy(), budget=f * len(p), slots=2000, seed=6, spacing=Spacing.RANDOM)
    exact = np.mean([f / (1 - (1 - f) * (1 - q)) for q in (0.02, 0.3)])
    assert played.freshness == pytest.approx(exact, abs=0.003)


def test_free_automata_follow_their_exact_law() -> None:
    pages = domain_pages()
    law = FreeAutomatonLaw.of(pages.p, 16)
    steady = law.slot_law(law.steady())
    played = play_policy(pages, "automaton", seed=7, slots=1600)
    assert played.freshness == pytest.approx(steady.fresh, abs=0.005)
    assert played.useful_ratio == pytest.approx(steady.useful, abs=0.005)
    assert played.polls == pytest.approx(natural_budget(pages), rel=0.01)


def test_bursts_leave_the_mean_rate_as_it_is() -> None:
    p = np.full(4000, 0.05)
    quiet, busy = Bursts().chances(p)
    assert 0.8 * quiet + 0.2 * busy == pytest.approx(p)
    calm, bursty = (
        play_slots(p, lambda _: UniformPolicy(), budget=len(p), slots=1000, seed=3, bursts=bursts)
        for bursts in (None, Bursts())
    )  # polled in every slot: every change is found
    assert calm.updates == pytest.approx(0.05, abs=0.002)
    assert bursty.updates == pytest.approx(0.05, abs=0.003)


@pytest.mark.parametrize("name", [name for name in contestants() if name != "automaton"])
@pytest.mark.parametrize("budget", [natural_budget, tight_budget])
def test_all_policies_spend_the_same_budget(name: str, budget) -> None:  # type: ignore[no-untyped-def]
    pages = zipf_pages()
    played = play_policy(pages, name, seed=2, slots=300, budget=budget(pages))
    assert played.polls == pytest.approx(budget(pages), rel=0.03)


def test_a_budget_larger_than_all_pages_is_spent_on_all_pages() -> None:
    played = play_policy(zipf_pages(), "learned", seed=2, slots=60, budget=5000.0)
    assert played.freshness == 1.0
    assert played.plan == pytest.approx(np.ones(1738))


@pytest.mark.parametrize("population", POPULATIONS)
def test_the_learned_policy_is_near_the_optimum_and_far_above_the_automata(population: str) -> None:
    every = POPULATIONS[population](21)
    pages = PageSet(population, every.p[::3], every.sites[::3], every.capacity)
    fresh = {
        name: play_policy(pages, name, seed=21, slots=1000).freshness
        for name in ("learned", "optimal", "uniform", "multiplicative", "automaton")
    }
    assert fresh["learned"] > fresh["optimal"] - 0.02
    assert fresh["learned"] > fresh["uniform"]
    assert fresh["learned"] > fresh["multiplicative"]
    assert fresh["learned"] > fresh["automaton"] + 0.08


def test_the_learned_policy_relearns_after_a_switch() -> None:
    pages = POPULATIONS["heavy"](22)
    some = PageSet("some", pages.p[::4], pages.sites[::4], pages.capacity)
    fresh = {
        name: play_policy(some, name, seed=22, slots=1600, switch_every=400).freshness
        for name in ("learned", "automaton")
    }
    assert fresh["learned"] > fresh["automaton"]


def test_at_a_tight_budget_the_learned_policy_is_not_worse_than_uniform() -> None:
    pages = domain_pages()
    learned, uniform = (
        play_policy(pages, name, seed=23, slots=600, budget=tight_budget(pages)).freshness
        for name in ("learned", "uniform")
    )
    assert learned > uniform - 0.005


def test_a_rate_leaves_a_slot_without_a_change_as_often_as_its_chance_says() -> None:
    p = np.array([0.0, 0.3, 1.0])
    assert -np.expm1(-rates_of(p)) == pytest.approx(p)


def test_an_unknown_polling_policy_is_refused() -> None:
    with pytest.raises(UsageError, match="no polling policy `fresh`"):
        play_policy(zipf_pages(), "fresh", seed=1)
