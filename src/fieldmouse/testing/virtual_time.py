"""Asyncio event loop in virtual time: when nothing is ready, the clock jumps to the next timer.

Code on this loop waits, sleeps and times out as usual, but an hour of politeness takes a moment, and
every run is the same. No outside event can wake the loop, so a loop without timers is stuck; that is a
bug in the code it runs, and `VirtualTimeDeadlock` is raised instead of hanging. Work for a thread runs
inline and takes no virtual time. Sockets and subprocesses do not work here, because they follow the wall
clock.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import TypeVar, TypeVarTuple

T = TypeVar("T")
Args = TypeVarTuple("Args")

#: Time at which the virtual clock starts, in epoch seconds.
EPOCH = 1_700_000_000.0


class VirtualTimeDeadlock(RuntimeError):
    """All tasks wait, and no timer is set."""


class _TimeJumpSelector(selectors.DefaultSelector):
    """Selector that never waits: instead it advances the loop's clock."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # The loop's self-pipe (signals, threads) is still polled, without waiting.
        events = super().select(0)
        if events:
            return events
        if timeout is None:
            raise VirtualTimeDeadlock("everyone in the bottle waits and no timer is set")
        self.now += max(0.0, timeout)
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Event loop in virtual time; usually created by `run_in_virtual_time`."""

    def __init__(self) -> None:
        self._jump = _TimeJumpSelector()
        super().__init__(self._jump)
        # Timers within this interval of now count as due. The loop's default is the wall clock's resolution;
        # this clock is exact except for rounding, and a timer must not be missed by one ulp.
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self._jump.now

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Args], T], *args: *Args) -> asyncio.Future[T]:
        """Run `func` inline, because a thread would follow the wall clock; `asyncio.to_thread` ends here."""
        done: asyncio.Future[T] = self.create_future()
        done.set_result(func(*args))
        return done


class VirtualClock:
    """`Clock` in virtual time: epoch seconds that advance only by waiting."""

    def __init__(self, loop: asyncio.AbstractEventLoop, epoch: float = EPOCH):
        self._loop, self._epoch = loop, epoch

    def now(self) -> float:
        return self._epoch + self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def run_in_virtual_time(main: Callable[[VirtualClock], Awaitable[T]], *, epoch: float = EPOCH) -> T:
    """Run `main(clock)` on a new loop in virtual time and return its result.

    >>> async def nap(clock):
    ...     before = clock.now()
    ...     await clock.sleep(3600)
    ...     return clock.now() - before
    >>> run_in_virtual_time(nap)
    3600.0
    """
    loop = VirtualTimeLoop()

    async def inside() -> T:
        return await main(VirtualClock(loop, epoch))

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(inside())
