"""Which robots are out, and which of them have been called home."""

from __future__ import annotations

import asyncio

from fieldmouse.meter import Meter


class Roster:
    """The fleet sends robots and welcomes them; each asks here between two requests."""

    def __init__(self, meter: Meter):
        self._meter = meter
        self.out: set[asyncio.Task[None]] = set()
        self._recalled: set[asyncio.Task[None]] = set()  # on their way home

    def __len__(self) -> int:
        """Robots on an errand."""
        return len(self.out)

    def sent(self, robot: asyncio.Task[None]) -> None:
        self.out.add(robot)
        self._meter.note_out(len(self.out))

    def is_home(self, robot: asyncio.Task[None]) -> None:
        self.out.discard(robot)
        self._recalled.discard(robot)
        self._meter.note_out(len(self.out))

    def may_go_on(self) -> bool:
        """Asked by a robot between two requests: are there no more out than allowed?"""
        robot = asyncio.current_task()
        if robot in self._recalled:
            return False
        if len(self.out) - len(self._recalled) <= self._meter.allowed:
            return True
        if robot in self.out:
            self._recalled.add(robot)
        return False
