"""Fetch pool: as many workers as the level allows, and surplus workers return soon."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fieldmouse.aio import WakeUpCallbacks
from fieldmouse.backpressure_state import BackpressureState
from fieldmouse.clock import Clock
from fieldmouse.fetch.worker import ActiveWorkers, FetchPool
from fieldmouse.policy.concurrency_thresholds import Thresholds
from fieldmouse.testing import virtual_time
from fieldmouse.types.host_state import HostState
from fieldmouse.types.request import HostVisit
from fieldmouse.url import Host


class Yard:
    """A fetch pool with endless host visits of several requests each, and a level set by the test."""

    def __init__(self, clock: Clock, rule: Thresholds, requests: int, chance: random.Random):
        self.homes = 0
        self.clock, self.requests, self.chance = clock, requests, chance
        self.asking = 0  # requests in flight
        self.begun: list[tuple[float, int]] = []  # start of each request, and the number in flight then
        self.given_back = 0
        self.taken = 0
        self.meter, self.bell = BackpressureState(), WakeUpCallbacks()
        self.roster = ActiveWorkers(self.meter)
        self.fleet = FetchPool(
            rule=rule,
            meter=self.meter,
            roster=self.roster,
            bell=self.bell,
            clock=clock,
            take=self.take,
            ready_at=lambda: None,
            run=self.run,
            give_back=self.give_back,
            on_change=self.welcome,
        )

    def take(self) -> HostVisit:
        self.taken += 1
        return HostVisit(Host("http://mouse.test"), "10.0.0.1", (), HostState())

    async def run(self, visit: HostVisit) -> Any:
        for _ in range(self.requests):
            if not self.roster.may_continue():
                break
            self.asking += 1
            self.begun.append((self.clock.now(), self.asking))
            await self.clock.sleep(self.chance.uniform(0.5, 1.5))
            self.asking -= 1
        return HostState(), ()

    def give_back(self, visit: HostVisit, report: Any) -> None:
        self.given_back += 1

    def welcome(self) -> None:
        self.homes += 1

    async def at(self, level: int, seconds: float) -> None:
        self.meter.set_buffered(level)
        self.bell.fire()
        await self.clock.sleep(seconds)


LEVELS = st.lists(st.tuples(st.integers(0, 12), st.sampled_from([0.1, 1.0, 4.0])), min_size=1, max_size=8)


@settings(max_examples=40, deadline=None)
@given(LEVELS, st.integers(1, 5), st.integers(0, 100))
def test_no_request_exceeds_the_concurrency_of_the_level(
    course: list[tuple[int, float]], requests: int, seed: int
) -> None:
    rule = Thresholds((6, 3, 1), (2, 7))

    async def life(clock: Clock) -> None:
        yard = Yard(clock, rule, requests, random.Random(seed))
        for level, seconds in course:
            started, before = clock.now(), len(yard.begun)
            await yard.at(level, seconds)
            allowed = rule.concurrency_at(level)
            for moment, under_way in yard.begun[before:]:
                assert under_way <= allowed, f"at {moment - started:.2f} s of level {level}"
            if seconds >= 2.0:
                # Surplus workers have finished their one request and returned; the others continue.
                assert yard.asking == yard.meter.active_visits == allowed
        await yard.fleet.stop(10.0)
        assert yard.taken == yard.given_back, "every errand comes home"
        assert yard.asking == yard.meter.active_visits == 0

    virtual_time.run_in_virtual_time(life)


def test_workers_count_as_active_until_they_return() -> None:
    async def life(clock: Clock) -> None:
        yard = Yard(clock, Thresholds((4, 1), (5,)), 3, random.Random(1))
        await yard.at(0, 0.1)
        assert yard.meter.max_of_allowed_and_active == yard.meter.concurrency == 4
        yard.meter.set_indexing(9)
        assert yard.meter.concurrency == 1
        assert yard.meter.max_of_allowed_and_active == 4
        await clock.sleep(1.6)
        assert yard.meter.max_of_allowed_and_active == yard.meter.active_visits == 1
        assert yard.homes == 3
        await yard.fleet.stop(10.0)

    virtual_time.run_in_virtual_time(life)


def test_a_new_rule_applies_at_once() -> None:
    async def life(clock: Clock) -> None:
        yard = Yard(clock, Thresholds((1,)), 2, random.Random(2))
        await yard.at(0, 3.0)
        assert yard.meter.active_visits == 1
        yard.fleet.set_rule(Thresholds((5,)))
        assert yard.meter.concurrency == 5
        await clock.sleep(0.1)
        assert yard.meter.active_visits == 5
        await yard.fleet.stop(10.0)

    virtual_time.run_in_virtual_time(life)


def test_the_network_can_limit_concurrency_below_the_rule() -> None:
    async def life(clock: Clock) -> None:
        yard = Yard(clock, Thresholds((4,)), 2, random.Random(3))
        await yard.at(0, 0.1)
        yard.meter.set_max_by_network(1)
        assert yard.meter.concurrency == 1, "known at once, before anybody asks for the next page"
        await clock.sleep(1.6)
        assert yard.meter.active_visits == 1
        yard.meter.set_max_by_network(3)
        yard.bell.fire()
        await clock.sleep(0.1)
        assert yard.meter.active_visits == 3
        await yard.fleet.stop(10.0)

    virtual_time.run_in_virtual_time(life)
