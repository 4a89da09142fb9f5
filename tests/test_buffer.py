"""The buffer: bounded, fair, and nothing gets lost in it."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.buffer import Buffer, WhenFull


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 100)), max_size=60), st.integers(1, 5))
def test_every_page_comes_out_once_and_the_level_stays_within_bounds(
    pages: list[tuple[int, int]], room: int
) -> None:
    async def life() -> None:
        buffer: Buffer[int] = Buffer(lanes=3, pages=room, size=150)
        out: list[int] = []

        async def fill() -> None:
            await asyncio.gather(*(buffer.put(lane, n, size) for n, (lane, size) in enumerate(pages)))

        filling = asyncio.ensure_future(fill())
        while not filling.done() or buffer.level:
            await asyncio.sleep(0)
            assert buffer.level <= room
            for lane in range(3):
                item = buffer.take(lane)
                if item is not None:
                    out.append(item)
        assert sorted(out) == list(range(len(pages)))

    asyncio.run(life())


def test_a_page_larger_than_the_buffer_gets_through() -> None:
    async def life() -> None:
        buffer: Buffer[str] = Buffer(lanes=1, pages=10, size=10)
        assert await buffer.put(0, "elephant", 1000)
        assert buffer.full
        assert buffer.take(0) == "elephant"
        assert not buffer.full

    asyncio.run(life())


def test_a_buffer_that_loses_says_so() -> None:
    async def life() -> None:
        buffer: Buffer[int] = Buffer(lanes=1, pages=1, size=100, when_full=WhenFull.LOSE)
        assert await buffer.put(0, 1, 1)
        assert not await buffer.put(0, 2, 1)

    asyncio.run(life())


def test_a_waiter_that_goes_away_passes_its_turn_on() -> None:
    async def life() -> None:
        buffer: Buffer[int] = Buffer(lanes=1, pages=1, size=100)
        await buffer.put(0, 0, 1)
        first = asyncio.ensure_future(buffer.put(0, 1, 1))
        second = asyncio.ensure_future(buffer.put(0, 2, 1))
        await asyncio.sleep(0)
        assert buffer.take(0) == 0  # the turn is given to the first, who is gone before it runs
        first.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        assert second.done()
        assert buffer.take(0) == 2

    asyncio.run(life())
