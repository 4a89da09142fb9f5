"""The urn game, played by every distribution policy."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import Generator, default_rng

from fieldmouse.errors import UsageError
from fieldmouse.policy.distribution.one_place_per_host import OnePlacePerHostPolicy
from fieldmouse.policy.distribution.registry import POLICIES, DistributionPolicy, find_policy_class
from fieldmouse.policy.distribution.single_queue_policies import MiceAndElephants, NeutralPolicy


class Urn:
    """The game of the thesis: K balls online; a colour present loses one, and one is refilled."""

    def __init__(self, policy: DistributionPolicy[int], source: Iterator[int], places: int):
        self.policy, self.source, self.places = policy, source, places
        self.online: Counter[int] = Counter()
        self.offline: dict[int, deque[int]] = {}
        self.drawn = self.removed = 0
        for _ in range(places):
            self.refill()

    def refill(self) -> None:
        policy = self.policy
        while True:
            colour = policy.next_queue_to_read()
            if colour is not None:
                self.offline[colour].popleft()
                policy.read_from_queue(colour)
                break
            colour = next(self.source)
            self.drawn += 1
            if policy.goes_online(colour):
                break
            self.offline.setdefault(colour, deque()).append(self.drawn)
            policy.added_to_queue(colour)
        self.online[colour] += 1
        policy.came_online(colour)

    def step(self, rng: Generator) -> None:
        colours = list(self.online)
        colour = colours[int(rng.integers(len(colours)))]
        self.online[colour] -= 1
        if not self.online[colour]:
            del self.online[colour]
        self.removed += 1
        self.policy.left_online(colour)
        self.refill()

    def stored(self) -> int:
        return sum(map(len, self.offline.values()))


def power_law(rng: Generator, colours: int, gamma: float) -> Iterator[int]:
    weights = np.arange(1, colours + 1) ** -gamma
    while True:
        yield from rng.choice(colours, 4096, p=weights / weights.sum()).tolist()


gammas = st.floats(0.3, 1.7)
seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=25, deadline=None)
@given(gammas, seeds)
def test_the_index_policy_keeps_every_place_for_a_different_host(gamma: float, seed: int) -> None:
    rng = default_rng(seed)
    urn = Urn(OnePlacePerHostPolicy(draws=1e9, burst=1e9), power_law(rng, 2000, gamma), places=50)
    for _ in range(300):
        urn.step(rng)
        assert len(urn.online) == urn.places


@settings(max_examples=10, deadline=None)
@given(gammas, seeds)
def test_the_index_policy_keeps_different_hosts_when_the_source_changes(gamma: float, seed: int) -> None:
    rng = default_rng(seed)
    before, after = power_law(rng, 1000, gamma), power_law(rng, 1000, gamma)
    source = (next(before) if n < 3000 else 1000 + next(after) for n in range(10**9))
    urn = Urn(OnePlacePerHostPolicy(draws=1e9, burst=1e9), source, places=30)
    for _ in range(400):
        urn.step(rng)
        assert len(urn.online) == urn.places


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(POLICIES)), gammas, seeds, st.integers(1, 40), st.integers(1, 200))
def test_no_policy_loses_a_ball_or_counts_one_twice(
    name: str, gamma: float, seed: int, places: int, colours: int
) -> None:
    rng = default_rng(seed)
    policy = POLICIES[name]()
    urn = Urn(policy, power_law(rng, colours, gamma), places)
    for _ in range(200):
        urn.step(rng)
        assert urn.online.total() == places
        assert urn.drawn == urn.removed + places + urn.stored()
        assert policy.online == dict(urn.online)  # type: ignore[attr-defined]
        assert policy.backlog == {c: len(q) for c, q in urn.offline.items() if q}  # type: ignore[attr-defined]


@settings(max_examples=25, deadline=None)
@given(gammas, seeds, st.integers(1, 8), st.booleans(), st.booleans())
def test_an_elephant_never_has_more_online_than_made_it_one(
    gamma: float, seed: int, delta: int, exceeds: bool, own_queues: bool
) -> None:
    rng = default_rng(seed)
    policy: MiceAndElephants[int] = MiceAndElephants(
        delta, "exceeds" if exceeds else "reaches", own_queues=own_queues, draw_cap=10**9
    )
    urn = Urn(policy, power_law(rng, 500, gamma), places=40)
    for _ in range(300):
        urn.step(rng)
        assert max(urn.online.values()) <= delta + exceeds
        assert {c for c, n in urn.online.items() if n == delta + exceeds} <= policy.elephants


def test_no_elephant_is_named_after_the_search_has_stopped() -> None:
    rng = default_rng(3)
    policy: MiceAndElephants[int] = MiceAndElephants(delta=2, stop_search=100)
    urn = Urn(policy, power_law(rng, 500, 1.0), places=50)
    for _ in range(50):
        urn.step(rng)
    named = set(policy.elephants)
    assert named
    for _ in range(1000):
        urn.step(rng)
    assert policy.elephants == named


@settings(max_examples=40, deadline=None)
@given(gammas, seeds, st.integers(1, 5), st.integers(1, 12))
def test_hosts_behind_one_address_never_have_more_places_than_it_has(
    gamma: float, seed: int, per_address: int, addresses: int
) -> None:
    """The source is finite here, or a full house of crowded addresses would be drawn from for ever."""
    rng = default_rng(seed)
    policy: OnePlacePerHostPolicy[int] = OnePlacePerHostPolicy(per_address=per_address, draws=1e9, burst=1e9)
    weights = np.arange(1, 61) ** -gamma
    source = deque(rng.choice(60, 600, p=weights / weights.sum()).tolist())
    online: Counter[int] = Counter()
    offline: Counter[int] = Counter()
    visited = 0
    while source or online or offline.total():
        while len(online) < 20:
            host = policy.next_queue_to_read(dry=not source)
            if host is not None:
                batch = int(rng.integers(1, offline[host] + 1))
                offline[host] -= batch
                policy.read_from_queue(host, batch)
                online[host] += batch
                policy.came_online(host, batch)
            elif source:
                host = source.popleft()
                policy.address_found(host, host % addresses)
                if policy.goes_online(host):
                    online[host] += 1
                    policy.came_online(host)
                else:
                    offline[host] += 1
                    policy.added_to_queue(host)
            else:
                break
        crowds = Counter(host % addresses for host in online)
        assert max(crowds.values()) <= per_address
        host = int(rng.choice(list(online)))
        online[host] -= 1
        if not online[host]:
            del online[host]
        policy.left_online(host)
        visited += 1
    assert visited == 600


def test_a_host_that_moves_to_a_crowded_address_is_asked_to_leave() -> None:
    policy: OnePlacePerHostPolicy[str] = OnePlacePerHostPolicy(per_address=1)
    for host in ("a", "b"):
        assert policy.goes_online(host)
        policy.came_online(host)
    assert policy.address_found("a", "10.0.0.1")
    assert not policy.address_found("b", "10.0.0.1")
    policy.added_to_queue("b")
    policy.left_online("b")
    assert policy.next_queue_to_read() is None
    policy.left_online("a")
    assert policy.next_queue_to_read() == "b"


def test_a_host_that_left_its_place_to_rest_is_read_again_only_after_its_rest() -> None:
    policy = OnePlacePerHostPolicy[str]()
    policy.came_online("elephant")
    policy.added_to_queue("elephant", 3)
    policy.rest_started("elephant")
    policy.left_online("elephant")
    assert policy.next_queue_to_read() is None
    assert not policy.goes_online("elephant")
    policy.added_to_queue("elephant")
    assert policy.next_queue_to_read() is None
    assert policy.goes_online("mouse")
    policy.rest_ended("elephant")
    assert policy.next_queue_to_read() == "elephant"
    assert policy.backlog["elephant"] == 4


def test_the_draw_limit_ends_an_endless_draw() -> None:
    """One host is all the source has: the index policy must not draw for ever."""
    policy: OnePlacePerHostPolicy[int] = OnePlacePerHostPolicy(draws=4, burst=16)
    urn = Urn(policy, iter(lambda: 0, 1), places=8)
    assert urn.online == {0: 8}
    assert urn.drawn <= 8 + 16 + 4 * 8


@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_the_neutral_game_agrees_with_its_exact_solution(gamma: float) -> None:
    """Closed Jackson network: distinct colours per step, from G_k = [z^k] prod 1 / (1 - p_i z)."""
    colours, places, steps = 40, 12, 12_000
    p = np.arange(1, colours + 1) ** -gamma
    p /= p.sum()
    series = np.zeros(places + 1)
    series[0] = 1.0
    for share in p:
        for power in range(1, places + 1):
            series[power] += share * series[power - 1]
    exact = 1 + (1 - (p**2).sum()) * series[places - 2] / series[places - 1]
    rng = default_rng(11)
    urn = Urn(NeutralPolicy(), power_law(rng, colours, gamma), places)
    for _ in range(500):
        urn.step(rng)
    distinct = 0
    for _ in range(steps):
        urn.step(rng)
        distinct += len(urn.online)
    assert distinct / steps == pytest.approx(exact, rel=0.03)


def test_a_host_that_waits_offline_is_not_overtaken_by_its_own_next_url() -> None:
    for name in sorted(POLICIES.keys() - {"neutral", "mice-and-elephants"}):
        policy = POLICIES[name]()
        policy.added_to_queue("a")
        assert not policy.goes_online("a"), name


def test_with_an_empty_source_every_policy_recalls_waiting_urls() -> None:
    """Also one that looks offline only before it draws."""
    for name in sorted(POLICIES):
        policy = POLICIES[name]()
        policy.added_to_queue("a", 2)
        policy.came_online("b")
        policy.goes_online("b")
        policy.added_to_queue("b")
        assert policy.next_queue_to_read(dry=True) == "a", name


class _PolicyOfVersion1(NeutralPolicy[str]):
    def located(self, host: str, address: str) -> bool:
        return True


def test_a_policy_with_a_former_method_name_is_told_the_new_one() -> None:
    with pytest.raises(UsageError, match="a method `located`, which is now called `address_found`"):
        find_policy_class(f"{__name__}:_PolicyOfVersion1")


def test_the_search_for_elephants_stops_while_the_number_of_hosts_is_stable_and_begins_again() -> None:
    policy = MiceAndElephants[int](delta=1, settle=10)
    for host in range(10):
        policy.came_online(host)
    for _ in range(10):  # no host more than before: stable
        policy.came_online(0)
    found = set(policy.elephants)
    assert found == {0}
    policy.came_online(1)
    assert policy.elephants == found
    for host in range(2, 10):
        policy.left_online(host)
    for _ in range(10):  # far fewer hosts than at the stop
        policy.came_online(1)
    assert policy.elephants == {0, 1}
