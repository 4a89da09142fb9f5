"""Page buffer: bounded, fair, and without loss."""

from __future__ import annotations

import asyncio
from collections import deque
from weakref import WeakSet

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fieldmouse.backpressure_state import BackpressureState
from fieldmouse.crawler.page_buffer import FullBufferPolicy, PageBuffer


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 100)), max_size=60), st.integers(1, 5))
def test_every_page_comes_out_once_and_the_level_stays_within_bounds(pages: list[tuple[int, int]], room: int) -> None:
    async def life() -> None:
        buffer: PageBuffer[int] = PageBuffer(lanes=3, pages=room, size=150)
        out: list[int] = []

        async def fill() -> None:
            await asyncio.gather(*(buffer.put(lane, n, size) for n, (lane, size) in enumerate(pages)))

        filling = asyncio.ensure_future(fill())
        while not filling.done() or buffer.waiting:
            await asyncio.sleep(0)
            assert buffer.waiting <= room
            for lane in range(3):
                item = buffer.take_oldest(lane)
                if item is not None:
                    out.append(item)
        assert sorted(out) == list(range(len(pages)))

    asyncio.run(life())


def test_a_page_larger_than_the_buffer_gets_through() -> None:
    async def life() -> None:
        buffer: PageBuffer[str] = PageBuffer(lanes=1, pages=10, size=10)
        assert await buffer.put(0, "elephant", 1000)
        assert buffer.is_full
        assert buffer.take_oldest(0) == "elephant"
        assert not buffer.is_full

    asyncio.run(life())


def test_a_full_dropping_buffer_returns_false() -> None:
    async def life() -> None:
        buffer: PageBuffer[int] = PageBuffer(lanes=1, pages=1, size=100, when_full=FullBufferPolicy.DROP)
        assert await buffer.put(0, 1, 1)
        assert not await buffer.put(0, 2, 1)

    asyncio.run(life())


def test_a_cancelled_waiter_passes_its_turn_on() -> None:
    async def life() -> None:
        buffer: PageBuffer[int] = PageBuffer(lanes=1, pages=1, size=100)
        await buffer.put(0, 0, 1)
        first = asyncio.ensure_future(buffer.put(0, 1, 1))
        second = asyncio.ensure_future(buffer.put(0, 2, 1))
        await asyncio.sleep(0)
        assert buffer.take_oldest(0) == 0  # the turn goes to the first, which is cancelled before it runs
        first.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        assert second.done()
        assert buffer.take_oldest(0) == 2

    asyncio.run(life())


def test_a_patient_caller_waits_in_a_dropping_buffer() -> None:
    async def life() -> None:
        buffer: PageBuffer[int] = PageBuffer(lanes=1, pages=1, size=100, when_full=FullBufferPolicy.DROP)
        assert await buffer.put(0, 1, 1)
        patient = asyncio.ensure_future(buffer.put(0, 2, 1, patient=True))
        await asyncio.sleep(0)
        assert not patient.done()
        assert buffer.take_oldest(0) == 1
        assert await patient
        assert buffer.take_oldest(0) == 2

    asyncio.run(life())


def test_pages_in_service_take_room_until_they_are_done() -> None:
    async def life() -> None:
        meter = BackpressureState()
        meter.set_indexing(2)
        buffer: PageBuffer[int] = PageBuffer(lanes=1, pages=2, size=100, meter=meter, serving_counts=True)
        assert buffer.is_full
        waiting = asyncio.ensure_future(buffer.put(0, 1, 1))
        await asyncio.sleep(0)
        meter.set_indexing(1)
        buffer.wake_next_waiter()
        assert await waiting
        assert buffer.is_full

    asyncio.run(life())


class Body:
    """A page that only takes memory."""


@given(st.lists(st.booleans(), min_size=1, max_size=300))
def test_a_removed_page_is_not_referenced(served: list[bool]) -> None:
    async def life() -> None:
        buffer: PageBuffer[Body] = PageBuffer(lanes=2, pages=1000, size=1000)
        await buffer.put(0, Body(), 1)  # never expires, and its lane is not read
        left: WeakSet[Body] = WeakSet()
        for now, take in enumerate(served):
            body = Body()
            left.add(body)
            await buffer.put(int(take), body, 1, expires_at=1e9 if take else now + 0.5)
            del body
            assert (buffer.take_oldest(1) is not None) is take
            assert len(buffer.take_expired(now + 1)) == (not take)
            assert not left
            assert buffer.waiting == 1

    asyncio.run(life())


class Ageing(RuleBasedStateMachine):
    """A dropping buffer whose pages expire, against plain lists."""

    LANES, ROOM = 2, 5

    def __init__(self) -> None:
        super().__init__()
        self.buffer: PageBuffer[int] = PageBuffer(
            lanes=self.LANES, pages=self.ROOM, size=1000, when_full=FullBufferPolicy.DROP
        )
        self.lanes: list[deque[tuple[int, float]]] = [deque() for _ in range(self.LANES)]
        self.now = 0.0
        self.next = 0

    @property
    def inside(self) -> int:
        return sum(map(len, self.lanes))

    @rule(lane=st.integers(0, LANES - 1), life=st.sampled_from([0.0, 1.0, 2.0, 5.0, float("inf")]))
    def a_page_comes(self, lane: int, life: float) -> None:
        stored = asyncio.run(self.buffer.put(lane, self.next, 10, expires_at=self.now + life))
        assert stored == (self.inside < self.ROOM)
        if stored:
            self.lanes[lane].append((self.next, self.now + life))
        self.next += 1

    @rule(lane=st.integers(0, LANES - 1))
    def the_oldest_is_taken(self, lane: int) -> None:
        expected = self.lanes[lane].popleft()[0] if self.lanes[lane] else None
        assert self.buffer.take_oldest(lane) == expected

    @precondition(lambda self: self.inside)
    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, 3.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        due = {page for lane in self.lanes for page, until in lane if until <= self.now}
        assert set(self.buffer.take_expired(self.now)) == due
        for lane in self.lanes:
            kept = [one for one in lane if one[0] not in due]
            lane.clear()
            lane.extend(kept)

    @invariant()
    def the_level_and_the_bytes_are_those_of_the_pages_inside(self) -> None:
        assert self.buffer.waiting == self.inside
        assert self.buffer.byte_size == 10 * self.inside


TestAgeing = Ageing.TestCase


def test_deadlines_of_pages_served_in_time_do_not_pile_up() -> None:
    async def life() -> None:
        buffer: PageBuffer[int] = PageBuffer(lanes=1, pages=3, size=100)
        for n in range(1000):
            await buffer.put(0, n, 1, expires_at=1e9)
            assert buffer.take_oldest(0) == n
        assert len(buffer._deadlines) <= 65

    asyncio.run(life())
