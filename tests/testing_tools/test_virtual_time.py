"""The bottle: asyncio in virtual time."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.testing import virtual_time

naps = st.lists(st.floats(0.0, 1e6, allow_nan=False), max_size=20)


@given(naps)
def test_sleeping_tasks_wake_in_order_and_exactly_on_time(seconds):
    async def main(clock):
        start = clock.now()
        woken = []

        async def sleeper(nap):
            await clock.sleep(nap)
            woken.append((clock.now() - start, nap))

        await asyncio.gather(*map(sleeper, seconds))
        return woken

    woken = virtual_time.run_in_virtual_time(main)
    assert [nap for _, nap in woken] == sorted(seconds)
    for at, nap in woken:
        assert at == pytest.approx(nap, abs=1e-6)


def test_work_takes_no_time_and_timeouts_fire_at_theirs():
    async def main(clock):
        start = clock.now()
        for _ in range(1000):
            await asyncio.sleep(0)
        assert clock.now() == start
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(300):
                await asyncio.sleep(3600)
        return clock.now() - start

    assert virtual_time.run_in_virtual_time(main) == 300.0


def test_work_for_a_thread_runs_inline():
    def work(factor):
        return 6 * factor

    async def main(clock):
        start = clock.now()
        assert await asyncio.to_thread(work, 7) == 42
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 / 0)
        return clock.now() - start

    assert virtual_time.run_in_virtual_time(main) == 0.0


def test_the_clock_starts_at_the_given_epoch():
    async def main(clock):
        return clock.now()

    assert virtual_time.run_in_virtual_time(main, epoch=5.0) == 5.0


def test_a_deadlock_raises_instead_of_hanging():
    async def main(clock):
        await asyncio.Event().wait()

    with pytest.raises(virtual_time.VirtualTimeDeadlock):
        virtual_time.run_in_virtual_time(main)


def test_an_exception_in_virtual_time_is_raised_by_run():
    async def main(clock):
        await clock.sleep(1)
        raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        virtual_time.run_in_virtual_time(main)


def test_two_runs_are_identical():
    async def main(clock):
        trace = []

        async def mouse(name):
            for k in range(50):
                await clock.sleep((hash((name, k)) % 7) / 10)
                trace.append((name, clock.now()))

        await asyncio.gather(*(mouse(n) for n in range(5)))
        return trace

    assert virtual_time.run_in_virtual_time(main) == virtual_time.run_in_virtual_time(main)
