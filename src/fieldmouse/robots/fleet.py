"""How many robots are out, and who sends them.

The fleet asks its rule how many robots may work at the present level of the
buffer, and sends that many on errands. A robot that comes home takes the next
errand at once; when no host is ready the fleet sleeps until one is, or until it
is nudged because something changed. When the rule wants fewer, a robot finishes
the request it has made, since its host has paid for that already, and goes home
instead of making another.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Protocol

from fieldmouse.clock import Clock
from fieldmouse.records import Errand
from fieldmouse.robots.robot import Report


class Rule(Protocol):
    def robots_at(self, level: int) -> int: ...


class Fleet:
    def __init__(
        self, *, rule: Rule, level: Callable[[], int], clock: Clock,
        take: Callable[[], Errand | None], ready_at: Callable[[], float | None],
        run: Callable[[Errand], Awaitable[Report]], give_back: Callable[[Errand, Report], None],
        on_home: Callable[[], None] = lambda: None, most: Callable[[], int] = lambda: sys.maxsize,
    ):  # fmt: skip
        """`most` robots may be out for other reasons than the level; 0 while there is no network."""
        self.rule = rule
        self._level, self._clock = level, clock
        self._take, self._ready_at, self._run, self._give_back = take, ready_at, run, give_back
        self._on_home, self._most = on_home, most
        self._out: set[asyncio.Task[None]] = set()
        self._recalled: set[asyncio.Task[None]] = set()  # on their way home
        self._nudged = False
        self._stopped = False
        self._alarm: asyncio.TimerHandle | None = None

    @property
    def busy(self) -> int:
        """Robots on an errand."""
        return len(self._out)

    @property
    def allowed(self) -> int:
        """Robots that may work at this moment."""
        return min(self.rule.robots_at(self._level()), self._most())

    @property
    def active(self) -> int:
        """Robots at work: as many as allowed, or more while some have yet to come home.

        Fewer may be out when too few hosts are ready; that is then what so many robots can do.
        """
        return max(self.allowed, len(self._out))

    def may_go_on(self) -> bool:
        """Asked by a robot between two requests: are there no more out than allowed?"""
        robot = asyncio.current_task()
        if robot in self._recalled:
            return False
        if len(self._out) - len(self._recalled) <= self.allowed:
            return True
        if robot in self._out:
            self._recalled.add(robot)
        return False

    def nudge(self) -> None:
        """Something changed: see soon whether more robots can be sent."""
        if not self._nudged and not self._stopped:
            self._nudged = True
            asyncio.get_running_loop().call_soon(self._send)

    def _send(self) -> None:
        self._nudged = False
        if self._stopped:
            return
        while len(self._out) < self.allowed:
            errand = self._take()
            if errand is None:
                self._sleep_until_ready()
                return
            robot = asyncio.get_running_loop().create_task(self._work(errand))
            self._out.add(robot)
            robot.add_done_callback(self._home)

    async def _work(self, errand: Errand | None) -> None:
        while errand is not None:
            self._give_back(errand, await self._run(errand))
            # An errand may have run without waiting for anything; others must get their turn.
            await asyncio.sleep(0)
            if self._stopped or not self.may_go_on():
                return
            errand = self._take()

    def _home(self, robot: asyncio.Task[None]) -> None:
        self._out.discard(robot)
        self._recalled.discard(robot)
        if not robot.cancelled() and (mistake := robot.exception()) is not None:
            raise mistake
        self._on_home()
        self.nudge()

    def _sleep_until_ready(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        at = self._ready_at()
        if at is not None:
            # Somebody is ready and yet nobody was sent: the limit of pages is in the air. Do not spin.
            wait = at - self._clock.now() if at > self._clock.now() else 0.01
            self._alarm = asyncio.get_running_loop().call_later(wait, self.nudge)

    async def stop(self, grace: float) -> None:
        """Send nobody any more; wait for those who are out, then call them home."""
        self._stopped = True
        if self._alarm is not None:
            self._alarm.cancel()
        if self._out:
            await asyncio.wait(self._out, timeout=grace)
        for robot in self._out:
            robot.cancel()
        if self._out:
            await asyncio.wait(self._out)
