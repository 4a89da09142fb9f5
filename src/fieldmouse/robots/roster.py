"""Set of active fetch workers, and those told to stop."""

from __future__ import annotations

import asyncio

from fieldmouse.meter import Meter


class Roster:
    """The fetch pool adds and removes fetch workers; each checks here between two requests."""

    def __init__(self, meter: Meter):
        self._meter = meter
        self.out: set[asyncio.Task[None]] = set()
        self._recalled: set[asyncio.Task[None]] = set()  # told to stop after their current request

    def __len__(self) -> int:
        """Fetch workers on a host visit."""
        return len(self.out)

    def sent(self, task: asyncio.Task[None]) -> None:
        self.out.add(task)
        self._meter.note_out(len(self.out))

    def is_home(self, task: asyncio.Task[None]) -> None:
        self.out.discard(task)
        self._recalled.discard(task)
        self._meter.note_out(len(self.out))

    def may_go_on(self) -> bool:
        """Whether the calling fetch worker may make another request, with the present limit."""
        task = asyncio.current_task()
        if task in self._recalled:
            return False
        if len(self.out) - len(self._recalled) <= self._meter.allowed:
            return True
        if task in self.out:
            self._recalled.add(task)
        return False
