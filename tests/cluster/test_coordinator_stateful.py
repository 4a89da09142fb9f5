"""Random acts of agents in any order lose nothing, share nothing between two agents, and come to an end."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster.coordinators import MemoryWorld, RedisWorld, ServerProcess, SpreadWorld, World
from cluster.players import Network

WEIGHTS = {
    Network.lease: 10,
    Network.offer: 6,
    Network.settle: 6,
    Network.more: 5,
    Network.wish: 3,
    Network.give_back: 5,
    Network.ask_address: 8,
    Network.wait: 6,
    Network.note: 3,
    Network.give_back_again: 3,
    Network.put_back: 3,
    Network.free_address: 3,
    Network.live_on: 3,
    Network.write_disk: 3,
    Network.start: 3,
    Network.die: 3,
    Network.sleep: 2,
    Network.restart: 1,
    Network.reserve: 3,
    Network.leave: 1,
    Network.drain: 1,
}
acts = st.lists(
    st.tuples(st.sampled_from([act for act, weight in WEIGHTS.items() for _ in range(weight)]), st.integers(0)),
    min_size=20,
    max_size=120,
)


def play(world: World, course: list[tuple[object, int]]) -> dict[str, int]:
    network = Network(world)
    try:
        for act, seed in course:
            act(network, Random(seed))  # type: ignore[operator]
            network.check()
        network.finish()
    finally:
        network.close()
    return network.done


@settings(max_examples=100, suppress_health_check=list(HealthCheck), report_multiple_bugs=False)
@given(acts)
def test_nothing_is_lost_on_a_memory_coordinator(course: list[tuple[object, int]]) -> None:
    play(MemoryWorld(), course)


@settings(max_examples=50, suppress_health_check=list(HealthCheck), report_multiple_bugs=False)
@given(acts)
def test_nothing_is_lost_on_two_memory_coordinators(course: list[tuple[object, int]]) -> None:
    play(SpreadWorld(MemoryWorld(), MemoryWorld()), course)


@pytest.mark.timeout(600)
def test_nothing_is_lost_on_a_redis_coordinator(server: ServerProcess) -> None:
    @settings(max_examples=15, suppress_health_check=list(HealthCheck), report_multiple_bugs=False)
    @given(acts)
    def run(course: list[tuple[object, int]]) -> None:
        play(RedisWorld(server), course)

    run()


def long_course(seed: int, acts: int) -> list[tuple[object, int]]:
    dice = Random(seed)
    return [(act, dice.randrange(2**32)) for act in dice.choices(list(WEIGHTS), list(WEIGHTS.values()), k=acts)]


def test_long_histories_lose_nothing() -> None:
    happened: Counter[str] = Counter()
    for seed in range(20):
        happened.update(play(MemoryWorld(), long_course(seed, 400)))
        happened.update(play(SpreadWorld(MemoryWorld(), MemoryWorld()), long_course(seed, 400)))
    assert min(happened.values()) > 20, "a course in which nothing happens proves nothing"
    assert happened.keys() >= {
        "leased",
        "leased by a wish alone",
        "given back",
        "fenced",
        "recovered",
        "address refused",
        "reserved",
        "refused to reserve",
    }


def test_long_histories_lose_nothing_on_a_server(server: ServerProcess) -> None:
    for seed in range(100, 103):
        play(RedisWorld(server), long_course(seed, 250))


def test_long_histories_lose_nothing_on_two_servers(server: ServerProcess, other_server: ServerProcess) -> None:
    for seed in range(200, 203):
        play(SpreadWorld(RedisWorld(server), RedisWorld(other_server)), long_course(seed, 250))
