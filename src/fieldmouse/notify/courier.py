"""One channel's courier: reads on in the log, and hands over what there is to tell, in order.

A receiver that is down is asked again after 1, 2, 4, ... seconds, 5 minutes at most, for as long as
it takes. The order is kept, and other channels have couriers of their own, so nobody waits for it,
least of all the crawl.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from fieldmouse.aside import Aside
from fieldmouse.clock import Clock
from fieldmouse.crawldir.news import Baseline, Change
from fieldmouse.notify.channel import Channel, Notice
from fieldmouse.notify.stretch import Stretch, read

log = logging.getLogger(__name__)

LONGEST_REST = 300.0
LONGEST_ASKED = 3600.0
"""Seconds: a receiver may ask for more (`Retry-After`), and gets this."""


class ChannelState(msgspec.Struct, frozen=True):
    """What the checkpoint keeps of a channel."""

    place: int  # byte of the outcome log: all before it was told
    planned: int = 0  # where the notice ends that is being sent, or 0 if that follows from its size
    told_at: float = 0.0  # when the last notice was handed over
    held_since: float = 0.0  # when the first change behind `place` was found; 0 if none was
    since: int = 0  # see `Channel`


def rest_after(tries: int, asked: float = 0.0) -> float:
    """Seconds until the next try, after so many in vain.

    >>> [rest_after(tries) for tries in (1, 2, 3, 100)], rest_after(1, 90.0)
    ([1.0, 2.0, 4.0, 300.0], 90.0)
    """
    return max(min(2.0 ** min(tries - 1, 60), LONGEST_REST), min(asked, LONGEST_ASKED))


@dataclass(frozen=True, slots=True)
class NewsSource:
    """Where couriers read."""

    log: Path
    wanted: Callable[[Change], bool]


class Courier:
    """`run` goes on for ever. All of it happens in one event loop, but for the reading of the log."""

    def __init__(self, channel: Channel, source: NewsSource, clock: Clock, state: ChannelState):
        self._channel, self._source, self._clock = channel, source, clock
        self._manner = channel.manner
        self._state = state
        self._held = Stretch(state.place)  # read, and not told
        self._length = state.place  # of the log, as far as it is durable
        self._baseline: Baseline | None = None
        self._kept_plan = state.planned  # the plan that the last checkpoint knows
        self._until: float | None = None  # it rests until then
        self._busy = True  # it has yet to look, or is at it
        self._leaving = False
        self._news = asyncio.Event()

    @property
    def name(self) -> str:
        return self._channel.name

    @property
    def state(self) -> ChannelState:
        """How it stands, for the checkpoint."""
        return msgspec.structs.replace(self._state, since=self._channel.since)

    def is_caught_up(self) -> bool:
        """Whether all that is durable was told."""
        return self._state.place >= self._length

    def is_eager(self) -> bool:
        """Whether it waits for a checkpoint to know its plan."""
        return self._state.planned != 0 and self._state.planned != self._kept_plan

    def may_be_left(self, deadline: float) -> bool:
        """Whether nothing will come of waiting for it until `deadline`."""
        rests = not self._busy and self._until is not None and self._until > deadline
        return rests or self.is_caught_up()

    def committed(self, kept: ChannelState, length: int, baseline: Baseline | None) -> None:
        """A checkpoint holds `kept`, and the log is durable up to `length`."""
        self._kept_plan, self._length, self._baseline = kept.planned, length, baseline
        self._wake()

    def leave(self) -> None:
        """The run is ending: now or never, as far as this run goes."""
        self._leaving = True
        self._wake()

    def _wake(self) -> None:
        self._busy = True
        self._news.set()

    # -- what it does all day

    async def run(self) -> None:
        while True:
            stretch = await self._next()
            for notice in stretch.notices(self._manner.most):
                await self._hand_over(notice)
            self._state = ChannelState(stretch.end, told_at=self._clock.now())
            self._held = Stretch(stretch.end)

    async def _next(self) -> Stretch:
        """What is to be told next, when it is time."""
        while True:
            self._news.clear()
            await self._read_on()
            plan = self._state.planned
            if self._held.changes:
                if plan:
                    if plan == self._kept_plan and self._held.end == plan:
                        return self._held
                elif self._may_go():
                    return self._held
                elif self._clock.now() >= self._due_at():
                    self._state = msgspec.structs.replace(self._state, planned=self._held.end)
                    continue
            elif not plan or self._held.end >= plan:
                # Nothing in these rows is to be told: the place moves on with them. A plan whose changes are
                # not wanted any more, since the settings are others now, is done, too.
                self._state = msgspec.structs.replace(
                    self._state, place=self._held.end, planned=0, held_since=0.0
                )
                if plan:
                    continue
            await self._wait(None if plan or not self._held.changes else self._due_at())

    def _may_go(self) -> bool:
        """Whether the stretch would be the same after a kill, or need not be."""
        is_full = len(self._held.changes) >= self._manner.most
        return not self._manner.every and (is_full or not self._manner.steady)

    def _due_at(self) -> float:
        """At the end of a run all goes out if the last notice was long enough ago; before, it is gathered."""
        told_at, held_since = self._state.told_at, self._state.held_since
        # A clock that was set back must not keep anybody waiting.
        begun_at = min(told_at if self._leaving else max(told_at, held_since), self._clock.now())
        return begun_at + self._manner.every

    async def _read_on(self) -> None:
        """Read until there is enough to tell, or no more; up to the end of the plan, if there is one."""
        plan = self._state.planned
        end = plan or self._length
        most = sys.maxsize if plan else self._manner.most
        while self._held.end < end and (room := most - len(self._held.changes)) > 0:
            self._held += await asyncio.get_running_loop().run_in_executor(Aside(), self._read, end, room)
            if self._held.changes and not self._state.held_since:
                self._state = msgspec.structs.replace(self._state, held_since=self._clock.now())

    def _read(self, length: int, most: int) -> Stretch:
        return read(
            self._source.log, self._held.end, length=length, baseline=self._baseline,
            wanted=self._source.wanted, most=most,
        )  # fmt: skip

    async def _hand_over(self, notice: Notice) -> None:
        tries = 0
        while True:
            setback = await self._channel.send(notice)
            if setback is None:
                break
            tries += 1
            if tries == 1:
                log.warning("%s: %s; it is tried again, and nothing is lost", self.name, setback.why)
            self._news.clear()
            # News of more to tell must not wake it; that the run is ending does, once.
            until = self._clock.now() + rest_after(tries, setback.wait)
            was_leaving = self._leaving
            while self._clock.now() < until and was_leaving == self._leaving:
                await self._wait(until)
                self._news.clear()
        if tries:
            log.warning("%s: told at last, after %d tries in vain", self.name, tries)

    async def _wait(self, until: float | None) -> None:
        """Until then, or until somebody wakes it."""
        self._until, self._busy = until, False
        if self._news.is_set():
            self._busy = True
            return
        seconds = None if until is None else max(0.0, until - self._clock.now())
        with suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), seconds)
        self._until, self._busy = None, True
