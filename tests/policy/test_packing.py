"""Packing: as printed where it was printed, as good as trying everything where that can be tried."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldmouse.policy.polling_automata import NodeOverloadAutomaton
from fieldmouse.policy.site_packing.adaptive_packing import AdaptiveSitePacking, reduce_polls
from fieldmouse.policy.site_packing.bin_packing import (
    Bins,
    best_fit_decreasing,
    best_fit_into,
    bin_loads,
    fullest_subset,
    lower_bound,
    pack,
    sum_bound,
)
from fieldmouse.policy.site_packing.plan import repack

CAPACITY = 20
weights_of_sites = st.lists(st.integers(1, CAPACITY), max_size=30)
few_weights = st.lists(st.integers(1, CAPACITY), max_size=8)


def is_packing(bins: Bins, items: int) -> bool:
    return sorted(item for held in bins for item in held) == list(range(items))


def fewest_by_trying(weights: Sequence[int], capacity: int) -> int:
    """Every item into every bin that is open, or a new one."""
    best = len(weights)

    def go_on(at: int, loads: list[int]) -> None:
        nonlocal best
        if len(loads) >= best:
            return
        if at == len(weights):
            best = len(loads)
            return
        for place, load in enumerate(loads):
            if load + weights[at] <= capacity:
                go_on(at + 1, [*loads[:place], load + weights[at], *loads[place + 1 :]])
        go_on(at + 1, [*loads, weights[at]])

    go_on(0, [])
    return best


# -- Best Fit Decreasing


def best_fit_as_printed(weights: Sequence[int], capacity: int) -> Bins:
    order = list(range(len(weights)))
    for _ in order:  # bubble sort
        for i in range(len(order) - 1):
            if weights[order[i]] < weights[order[i + 1]]:
                order[i], order[i + 1] = order[i + 1], order[i]
    bins: Bins = []
    for item in order:
        weight, ibf, least = weights[item], -1, capacity
        for i, held in enumerate(bins):
            remaining = capacity - sum(weights[other] for other in held)
            if remaining >= weight and remaining - weight < least:
                least, ibf = remaining - weight, i
        if ibf == -1:
            bins.append([item])
        else:
            bins[ibf].append(item)
    return bins


@given(weights_of_sites | st.lists(st.integers(1, 2 * CAPACITY), max_size=30))
def test_best_fit_decreasing_packs_as_printed(weights: list[int]) -> None:
    assert best_fit_decreasing(weights, CAPACITY) == best_fit_as_printed(weights, CAPACITY)


@given(weights_of_sites, weights_of_sites)
def test_fitting_items_in_moves_no_other_item(old: list[int], new: list[int]) -> None:
    bins = best_fit_decreasing(old, CAPACITY)
    weights = old + new
    packing = best_fit_into(weights, CAPACITY, bins, range(len(old), len(weights)))
    assert is_packing(packing, len(weights))
    assert max(bin_loads(weights, packing), default=0) <= CAPACITY
    assert all(after[: len(before)] == before for before, after in zip(bins, packing, strict=False))


@given(weights_of_sites)
def test_two_bins_of_best_fit_are_never_both_at_most_half_full(weights: list[int]) -> None:
    half_empty = [load for load in bin_loads(weights, best_fit_decreasing(weights, CAPACITY)) if 2 * load <= CAPACITY]
    assert len(half_empty) <= 1


# -- subset sum


def fullest_as_printed(weights: Sequence[int], capacity: int) -> list[int]:
    most, chosen = 0, [0] * len(weights)
    for taken in sorted(product((0, 1), repeat=len(weights)), reverse=True):
        total = sum(weight for weight, is_in in zip(weights, taken, strict=True) if is_in)
        if any(taken) and total >= most and total < capacity:
            most, chosen = total, list(taken)
    return [item for item, is_in in enumerate(chosen) if is_in]


@given(st.lists(st.integers(1, 15), max_size=9), st.integers(0, 60))
def test_the_fullest_part_is_that_of_the_printed_loop(weights: list[int], capacity: int) -> None:
    assert fullest_subset(weights, capacity) == fullest_as_printed(weights, capacity)


def test_a_part_that_fills_the_bin_to_the_brim_is_too_large() -> None:
    assert fullest_subset([4, 6], 10) == [1]
    assert fullest_subset([4, 6], 11) == [0, 1]


def test_a_bin_of_many_sites_is_cut_at_once() -> None:
    rng = np.random.default_rng(1)
    weights = rng.integers(20, 300, 200).tolist()
    kept = fullest_subset(weights, 6400)
    assert sum(weights[item] for item in kept) == 6399


# -- bounds and search


@settings(deadline=None)
@given(few_weights)
def test_bounds_stand_in_order_below_the_truth_and_the_search_reaches_it(weights: list[int]) -> None:
    truth = fewest_by_trying(weights, CAPACITY)
    found = pack(weights, CAPACITY)
    assert sum_bound(weights, CAPACITY) <= lower_bound(weights, CAPACITY) <= truth
    assert len(found.bins) == truth == found.bound
    assert is_packing(found.bins, len(weights))
    assert max(bin_loads(weights, found.bins), default=0) <= CAPACITY


@settings(deadline=None)
@given(few_weights.filter(bool))
def test_the_second_bound_is_at_least_two_thirds_of_the_truth(weights: list[int]) -> None:
    assert 3 * lower_bound(weights, CAPACITY) >= 2 * fewest_by_trying(weights, CAPACITY)


@given(weights_of_sites)
def test_the_second_bound_is_that_of_its_definition(weights: list[int]) -> None:
    """For every k, item by item."""
    expected = 0
    for k in range(CAPACITY // 2 + 1):
        alone = [w for w in weights if w > CAPACITY - k]
        large = [w for w in weights if CAPACITY - k >= w > CAPACITY / 2]
        middle = [w for w in weights if CAPACITY / 2 >= w >= k]
        surplus = sum(middle) - (len(large) * CAPACITY - sum(large))
        expected = max(expected, len(alone) + len(large) + max(0, -(-surplus // CAPACITY)))
    assert lower_bound(weights, CAPACITY) == expected


def test_the_search_beats_best_fit_where_it_can_be_beaten() -> None:
    weights = [12, 11, 10, 7, 7, 5, 4, 3]  # filling bins as full as can be takes four as well
    assert len(best_fit_decreasing(weights, CAPACITY)) == 4
    assert len(pack(weights, CAPACITY).bins) == 3


def test_a_search_cut_short_returns_a_packing_and_a_valid_bound() -> None:
    rng = np.random.default_rng(3)
    weights = rng.integers(200, 500, 120).tolist()
    found = pack(weights, 1000, nodes=1)
    assert is_packing(found.bins, len(weights))
    assert lower_bound(weights, 1000) <= found.bound <= len(found.bins)


# -- few moves


@given(weights_of_sites, st.data())
def test_packing_again_is_a_packing_and_needs_few_more_bins_than_from_scratch(
    weights: list[int], data: st.DataObject
) -> None:
    places = data.draw(st.lists(st.integers(-1, 5), min_size=len(weights), max_size=len(weights)))
    bins: Bins = [[item for item, at in enumerate(places) if at == place] for place in range(6)]
    worth = data.draw(st.sampled_from([0.0, 0.1, 0.5]))
    below = int((1 - worth) * CAPACITY)
    again = repack(weights, CAPACITY, bins, nodes=200, worth=worth)
    assert is_packing(again.bins, len(weights))
    assert max(bin_loads(weights, again.bins), default=0) <= CAPACITY
    used = sum(1 for held in again.bins if held)
    roomy = pack([min(weight, below) for weight in weights], below, 200)
    assert again.bound == lower_bound(weights, CAPACITY) <= used <= (1 + worth) * len(roomy.bins)
    before = {item: place for place, held in enumerate(bins) for item in held}
    after = {item: place for place, held in enumerate(again.bins) for item in held}
    assert set(again.moved) == {item for item, place in before.items() if after[item] != place}


@given(weights_of_sites)
def test_a_packing_that_cannot_be_bettered_stays_as_it_is(weights: list[int]) -> None:
    best = pack(weights, CAPACITY, 200)
    again = repack(weights, CAPACITY, best.bins, nodes=200)
    assert again.moved == ()
    assert again.bins == best.bins


def test_the_fewest_sites_leave_an_overloaded_node() -> None:
    again = repack([9, 5, 4, 3, 2], 20, [[0, 1, 2, 3, 4]])
    assert again.moved == (3,)  # three too many: one site of three, neither the two smallest nor a larger one


# -- the two-phase scheme


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 8)), min_size=1, max_size=30), st.integers(0, 100))
def test_reduction_takes_from_the_most_penalised_first_and_never_more_than_asked(
    pages: list[tuple[int, int]], surplus: int
) -> None:
    states, penalties = np.array(pages).T
    lowered, left = reduce_polls(states, penalties, surplus)
    taken = states - lowered
    assert lowered.min() >= 1
    assert taken.sum() + left == surplus
    assert left == 0 or (lowered == 1).all()
    for i in range(len(states)):  # nobody with fewer penalties goes lower than one with more that could go on
        for j in range(len(states)):
            if penalties[i] > penalties[j] and lowered[i] > 1:
                assert taken[i] >= taken[j]


def slot(scheme: AdaptiveSitePacking, states: list[int], sites: list[int], seed: int = 1) -> list[int]:
    at = np.array(states)
    return scheme.repair_overloads(at, np.zeros_like(at), np.array(sites), np.random.default_rng(seed)).tolist()


def test_an_overloaded_node_polls_less_or_sends_sites_away() -> None:
    """Two sites of two pages each in a node of 8 units, which weigh 10 by now."""
    less = AdaptiveSitePacking(8, NodeOverloadAutomaton(10**6, 1), [[0, 1]], [1])  # almost never sends away
    assert sum(slot(less, [3, 3, 2, 2], [0, 0, 1, 1])) == 7  # strictly below the capacity
    assert (less.bins, less.moves, less.nodes) == ([[0, 1]], 0, [3])
    away = AdaptiveSitePacking(8, NodeOverloadAutomaton(1, 1), [[0, 1]], [1])  # always does
    assert slot(away, [3, 3, 2, 2], [0, 0, 1, 1]) == [3, 3, 2, 2]
    assert (away.bins, away.moves, away.lowered) == ([[0], [1]], 1, 0)


def test_a_node_that_fits_is_left_alone_and_its_automaton_calms_down() -> None:
    calm = AdaptiveSitePacking(10, NodeOverloadAutomaton(16, 2), [[0, 1]], [5])
    assert slot(calm, [3, 3, 2, 2], [0, 0, 1, 1]) == [3, 3, 2, 2]
    assert (calm.bins, calm.nodes) == ([[0, 1]], [4])


@pytest.mark.parametrize("seed", range(5))
def test_every_site_stays_on_one_node_whatever_happens(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sites = np.sort(rng.integers(0, 12, 200))
    states = np.ones(200, dtype=np.int64)
    weights = np.bincount(sites, minlength=12).tolist()
    scheme = AdaptiveSitePacking.pack_initially(weights, 90, NodeOverloadAutomaton(16, 2))
    for _ in range(200):
        states = np.clip(states + rng.integers(-1, 3, 200), 1, 8)
        states = scheme.repair_overloads(states, rng.integers(0, 8, 200), sites, rng)
        assert is_packing(scheme.bins, 12)
        assert states.min() >= 1
    assert scheme.moves > 0
    assert scheme.lowered > 0
