"""An asyncio event loop in virtual time: when nothing is ready, the clock jumps to the next timer.

Code inside the bottle waits, sleeps and times out as it always does, but an hour
of politeness takes a moment and goes the same way on every run. Nothing outside
can wake a bottle, so one in which nobody has anything left to wait for is stuck
for good; that is a mistake of the code inside, and `Stuck` says so at once
instead of hanging. Work handed to a thread is done on the spot and takes no time. Sockets and subprocesses
do not belong inside: they live by the wall's clock.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Args = TypeVarTuple("Args")

EPOCH = 1_700_000_000.0
"""What the clock in a bottle shows when it is opened, in epoch seconds."""


class Stuck(RuntimeError):
    """Everyone in the bottle waits, and no timer will ever go off."""


class _Jump(selectors.BaseSelector):
    """A selector that never waits: asked to, it moves the loop's clock instead."""

    def __init__(self) -> None:
        self._inner = selectors.DefaultSelector()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # The loop's own self-pipe (signals, threads) is still looked at, without waiting for it.
        events = self._inner.select(0)
        if events:
            return events
        if timeout is None:
            raise Stuck("everyone in the bottle waits and no timer is set")
        self.now += max(0.0, timeout)
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._inner.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._inner.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._inner.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._inner.get_map()

    def close(self) -> None:
        self._inner.close()


class Bottle(asyncio.SelectorEventLoop):
    """The loop itself; `run` is the usual way to make one."""

    def __init__(self) -> None:
        self._jump = _Jump()
        super().__init__(self._jump)
        # Timers within this much of now count as due. The loop's default is the wall clock's
        # resolution; ours is exact but for rounding: a timer must not be missed by one ulp.
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self._jump.now

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Args], T], *args: *Args
    ) -> asyncio.Future[T]:
        """A thread would live by the wall's clock, so `asyncio.to_thread` comes down to this."""
        done: asyncio.Future[T] = self.create_future()
        done.set_result(func(*args))
        return done


class BottleClock:
    """The `Clock` of a bottle: epoch seconds that only waiting moves."""

    def __init__(self, loop: asyncio.AbstractEventLoop, epoch: float = EPOCH):
        self._loop = loop
        self._epoch = epoch

    def now(self) -> float:
        return self._epoch + self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def run(main: Callable[[BottleClock], Awaitable[T]], *, epoch: float = EPOCH) -> T:
    """Run `main(clock)` in a fresh bottle and give back what it returns.

    >>> async def nap(clock):
    ...     before = clock.now()
    ...     await clock.sleep(3600)
    ...     return clock.now() - before
    >>> run(nap)
    3600.0
    """
    loop = Bottle()

    async def inside() -> T:
        return await main(BottleClock(loop, epoch))

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(inside())
