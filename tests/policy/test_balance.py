"""Which agent visits a host next: the rules by themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.policy.balance.baselines import HashRing, assign_subnet, better_of_two, shortest_delay
from fieldmouse.policy.balance.kalman import kalman_update, sample_least
from fieldmouse.policy.balance.priced import cheapest_agent, update_prices
from fieldmouse.policy.balance.trip_prior import PRIOR_SIZE, best_unvisited, expected_trip, update_prior

trips = st.floats(0.01, 100.0)


@given(st.lists(trips, min_size=1, max_size=30), st.floats(0.1, 10.0))
def test_a_filter_of_a_delay_that_stays_is_the_posterior_of_its_mean(values: list[float], spread: float) -> None:
    """Bayes by hand: precisions add up, and the mean is weighted by them."""
    mean, variance = np.array([0.1]), np.array([100.0])
    for value in values:
        kalman_update(mean, variance, 0, value, spread**2, 0.0)
    precision = 1 / 100.0 + len(values) / spread**2
    assert variance[0] == pytest.approx(1 / precision)
    assert mean[0] == pytest.approx((0.1 / 100.0 + sum(values) / spread**2) / precision)


@given(st.lists(trips, min_size=1, max_size=10), st.floats(0.01, 2.0))
def test_only_the_agent_that_was_asked_learns_and_all_others_grow_less_certain(
    values: list[float], noise: float
) -> None:
    mean, variance = np.full(3, 1.0), np.full(3, 4.0)
    for value in values:
        kalman_update(mean, variance, 1, value, 1.0, noise**2)
    assert mean[[0, 2]].tolist() == [1.0, 1.0]
    assert variance[[0, 2]] == pytest.approx(4.0 + len(values) * noise**2)
    assert variance[1] < 4.0 + len(values) * noise**2
    assert min(1.0, *values) <= mean[1] <= max(1.0, *values)


def test_samples_follow_the_beliefs() -> None:
    rng = np.random.default_rng(3)
    mean, variance = np.array([1.0, 1.0, 5.0]), np.array([1.0, 1.0, 0.01])
    chosen = [sample_least(mean, variance, np.ones(3, bool), rng.standard_normal(3)) for _ in range(4000)]
    counts = np.bincount(chosen, minlength=3)
    assert abs(counts[0] - 2000) < 4 * np.sqrt(1000)  # two alike are chosen alike
    assert counts[2] == 0
    assert sample_least(mean, variance, np.array([False, False, True]), np.zeros(3)) == 2


@given(
    st.lists(st.sampled_from("abcdefgh"), min_size=2, unique=True),
    st.lists(st.integers(0, 10**9), min_size=50, max_size=200, unique=True),
)
def test_on_a_ring_hosts_move_only_to_a_new_agent_or_from_a_leaving_one(agents: list[str], keys: list[int]) -> None:
    ring = HashRing(agents)
    left = HashRing(agents[1:])
    for key in keys:
        before, after = ring.owner(key), left.owner(key)
        assert (before == after) == (before != agents[0])


def test_a_ring_of_a_hundred_places_each_divides_hosts_within_a_quarter() -> None:
    ring = HashRing(["a", "b", "c", "d"])
    counts = np.unique([ring.owner(key) for key in range(40_000)], return_counts=True)[1]
    assert (abs(counts / 10_000 - 1) < 0.25).all()


def test_dead_agents_get_no_host() -> None:
    alive, flat = np.array([False, True, True]), np.ones(3)
    good_there = np.array([0.01, 1.0, 2.0])
    assert shortest_delay(good_there, flat, flat, alive) == 1
    assert better_of_two(good_there, flat, flat, alive, 0, 2) == 2
    assert better_of_two(good_there, flat, flat, alive, 2, 0) == 2
    none, places = 0 * flat, np.arange(3)
    for considered, chosen in ((places, 1), (places[2:], 2)):
        assert chosen == cheapest_agent(
            good_there, none, flat, flat, none, none, alive, considered, len(considered), none, 0.01, 0, 9.0, 1.0, 0.0
        )
    nobody_yet = np.full(2, -1)
    assert assign_subnet(0, np.zeros(2, int), nobody_yet, good_there, alive, 5.0, True) == 1


def test_a_subnet_goes_to_a_near_agent_of_its_region_and_else_to_the_nearest_of_all() -> None:
    region, keeper, everybody = np.array([0, 0, 1]), np.array([-1, 2, 0]), np.ones(3, bool)
    probes = np.array([0.5, 0.2, 1.5])
    assert assign_subnet(0, region, keeper, probes, everybody, 2.0, True) == 2, "near enough, and has its neighbour"
    assert assign_subnet(0, region, keeper, probes, everybody, 1.0, True) == 1, "too far: the nearest of all"
    assert assign_subnet(0, region, keeper, probes, everybody, 2.0, False) == 1, "complaints: all are asked"


def test_prices_that_follow_backlogs_find_the_prices_of_the_linear_programme() -> None:
    """Each host goes where its priced trip is least; the load of an agent is what comes to it."""
    from fieldmouse_lab.network.environment import min_max_load

    rng = np.random.default_rng(5)
    service = rng.lognormal(0.0, 0.7, (400, 3)) * np.array([1.0, 1.5, 0.5])
    price, everybody = np.zeros(3), np.ones(3, bool)
    loads = []
    for turn in range(4000):
        chosen = (np.log(service) + price).argmin(axis=1)
        load = np.bincount(chosen, service[np.arange(400), chosen], 3)
        update_prices(price, load, everybody, 0.5 / (1 + turn / 20))
        loads.append(load)
    assert np.mean(loads[2000:], axis=0).max() == pytest.approx(min_max_load(service), rel=0.02)
    assert price.sum() == pytest.approx(0.0, abs=1e-9)


def test_prices_fade_without_backlog() -> None:
    price = np.array([0.5, -0.5])
    update_prices(price, np.zeros(2), np.ones(2, bool), 0.1)
    assert price.tolist() == pytest.approx([0.45, -0.45])


def by_quadrature(usual: float, spread: float, trip: float, visits: float) -> float:
    """What a try is worth, summed up over everything that it may show."""
    z = np.linspace(-10.0, 10.0, 200_001)
    weight = np.exp(-z * z / 2) / np.sqrt(2 * np.pi) * (z[1] - z[0])
    shown = np.exp(usual + spread * z)
    gains = np.where(shown < trip, visits * (trip - shown), trip - shown)
    return float((gains * weight).sum())


@given(st.floats(-2.0, 2.0), st.floats(0.1, 2.0), st.floats(0.05, 20.0), st.floats(1.0, 500.0))
def test_an_unvisited_agent_is_tried_if_the_expected_gain_is_positive(
    usual: float, spread: float, trip: float, visits: float
) -> None:
    """Nobody waits anywhere and prices are equal, so that trips count alone."""
    worth = by_quadrature(usual, spread, trip, visits)
    if abs(worth) < 1e-3 * visits * trip:
        return
    flat, none, places = np.ones(2), np.zeros(2), np.arange(2)
    mean, everybody = np.array([trip, -1.0]), np.ones(2, bool)
    chosen = best_unvisited(
        0, mean, none, flat, none, none, everybody, places, 2, none, 0, 0.0, 0.0, usual, spread, visits
    )
    assert chosen == (1 if worth > 0 else 0)


def test_a_host_as_near_as_any_stays_and_one_far_away_is_tried_elsewhere() -> None:
    """Most trips take a hundred times longer than the others: once that is known."""
    rng, outlook = np.random.default_rng(8), [0.0] * PRIOR_SIZE
    near, far = np.log(0.1), np.log(10.0)
    for _ in range(40):
        others_are_near = rng.random() < 0.3
        shown = far if others_are_near or rng.random() < 0.67 else near
        update_prior(outlook, near if others_are_near else far, shown)
    flat, none, places = np.ones(2), np.zeros(2), np.arange(2)
    for trip, chosen in ((0.1, 0), (10.0, 1)):
        usual, spread = expected_trip(outlook, float(np.log(trip)), 1.0)
        mean = np.array([trip, -1.0])
        assert chosen == best_unvisited(
            0, mean, none, flat, none, none, flat > 0, places, 2, none, 0, 0.35, 0.25, usual, spread, 100.0
        )


def test_the_expected_first_trip_is_the_regression_of_earlier_first_trips() -> None:
    rng, outlook = np.random.default_rng(9), [0.0] * PRIOR_SIZE
    known = rng.normal(0.0, 2.0, 1500)
    shown = 1.0 + 0.6 * known + rng.normal(0.0, 0.3, 1500)
    for each, other in zip(known, shown, strict=True):
        update_prior(outlook, float(each), float(other))
    for at in (-2.0, 0.0, 3.0):
        mean, spread = expected_trip(outlook, at, 1.0)
        assert mean == pytest.approx(1.0 + 0.6 * at, abs=0.15)
        assert spread == pytest.approx(0.3, abs=0.1)
