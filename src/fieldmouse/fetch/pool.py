"""Fetch pool: runs as many fetch workers as the concurrency rule allows.

The pool asks its rule how many fetch workers may run at the present buffer level, and starts that many
host visits. A fetch worker that returns takes the next visit at once. When no host is ready the pool
sleeps until one is, or until a wake-up signal after a change. When the rule wants fewer, a fetch worker
finishes the request in flight, since its host has served that already, and returns instead of making
another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from fieldmouse.aio import WakeUp, cancel_and_wait
from fieldmouse.backpressure import Backpressure
from fieldmouse.clock import Clock
from fieldmouse.fetch.worker import VisitReport
from fieldmouse.types.request import HostVisit


class ActiveWorkers:
    """The fetch pool adds and removes fetch workers; each checks here between two requests."""

    def __init__(self, meter: Backpressure):
        self._meter = meter
        self.tasks: set[asyncio.Task[None]] = set()
        self._recalled: set[asyncio.Task[None]] = set()  # told to stop after their current request

    def __len__(self) -> int:
        """Fetch workers on a host visit."""
        return len(self.tasks)

    def add(self, task: asyncio.Task[None]) -> None:
        self.tasks.add(task)
        self._meter.set_active_visits(len(self.tasks))

    def remove(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        self._recalled.discard(task)
        self._meter.set_active_visits(len(self.tasks))

    def may_continue(self) -> bool:
        """Whether the calling fetch worker may make another request, with the present limit."""
        task = asyncio.current_task()
        if task in self._recalled:
            return False
        if len(self.tasks) - len(self._recalled) <= self._meter.concurrency:
            return True
        if task in self.tasks:
            self._recalled.add(task)
        return False


class ConcurrencyRule(Protocol):
    def concurrency_at(self, level: int) -> int: ...


class FetchPool:
    def __init__(
        self,
        *,
        rule: ConcurrencyRule,
        meter: Backpressure,
        roster: ActiveWorkers,
        bell: WakeUp,
        clock: Clock,
        take: Callable[[], HostVisit | None],
        ready_at: Callable[[], float | None],
        run: Callable[[HostVisit], Awaitable[VisitReport]],
        give_back: Callable[[HostVisit, VisitReport], None],
        on_change: Callable[[], None] = lambda: None,
    ):
        """`on_change` is called when the rule has changed or a fetch worker has returned."""
        self._rule, self._meter, self._roster, self._clock = rule, meter, roster, clock
        self._take, self._ready_at, self._run, self._give_back = take, ready_at, run, give_back
        self._on_change = on_change
        self._nudged = False
        self._stopped = False
        self._alarm: asyncio.TimerHandle | None = None
        meter.on_change(self._update_allowed)
        bell.add_listener(self.wake)

    def _update_allowed(self) -> None:
        """Update the allowed number after a change of the level, the network or the rule."""
        meter = self._meter
        meter.set_concurrency(
            0 if meter.paused else min(self._rule.concurrency_at(meter.level), meter.max_by_network)
        )

    def set_rule(self, rule: ConcurrencyRule) -> None:
        """Replace the rule."""
        self._rule = rule
        self._update_allowed()
        self._on_change()
        self.wake()

    def wake(self) -> None:
        """Check soon whether more fetch workers can start."""
        if not self._nudged and not self._stopped:
            self._nudged = True
            asyncio.get_running_loop().call_soon(self._start_visits)

    def _start_visits(self) -> None:
        self._nudged = False
        if self._stopped:
            return
        while len(self._roster) < self._meter.concurrency:
            errand = self._take()
            if errand is None:
                self._sleep_until_ready()
                return
            task = asyncio.get_running_loop().create_task(self._work(errand))
            self._roster.add(task)
            task.add_done_callback(self._returned)

    async def _work(self, errand: HostVisit | None) -> None:
        while errand is not None:
            self._give_back(errand, await self._run(errand))
            # A visit may have run without awaiting anything; give other tasks a turn.
            await asyncio.sleep(0)
            if self._stopped or not self._roster.may_continue():
                return
            errand = self._take()

    def _returned(self, task: asyncio.Task[None]) -> None:
        self._roster.remove(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error
        self._on_change()
        self.wake()

    def _sleep_until_ready(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        at = self._ready_at()
        if at is not None:
            # A host is ready but no visit started: the pages in flight reach the page limit. Do not spin.
            wait = at - self._clock.now() if at > self._clock.now() else 0.01
            self._alarm = asyncio.get_running_loop().call_later(wait, self.wake)

    async def stop(self, grace: float) -> None:
        """Start no visits; wait `grace` seconds for the running ones, then cancel them."""
        self._stopped = True
        if self._alarm is not None:
            self._alarm.cancel()
        out = self._roster.tasks
        if out:
            await asyncio.wait(out, timeout=grace)
        await cancel_and_wait(out)
