"""The crawler: starts the stages of a crawl, watches them, and makes checkpoints."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import msgspec

from fieldmouse.aio import Aside, call_off
from fieldmouse.backpressure import Meter
from fieldmouse.clock import Clock
from fieldmouse.control.governor import Governor
from fieldmouse.control.page_trace import PageTrace
from fieldmouse.crawler.buffer import Intake
from fieldmouse.crawler.in_flight import Booking
from fieldmouse.crawler.retry_failed import Mercy
from fieldmouse.crawler.stats import AgentLoad, Before, refreshed, sum_up, take_reading
from fieldmouse.crawler.stop_conditions import CrawlLimits, Fuse, Stopping
from fieldmouse.errors import StillBusy
from fieldmouse.fetch.pool import Fleet
from fieldmouse.formatting import counted
from fieldmouse.frontier.frontier import Frontier
from fieldmouse.frontier.protocol import CrawlFrontier
from fieldmouse.storage.checkpoint import DurableLog, Parts
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.log import Diary
from fieldmouse.types.reason import StoppedBy
from fieldmouse.types.request import Kind, Link
from fieldmouse.types.stats import Reading, Summary
from fieldmouse.url import Url
from fieldmouse.workers.process import peak_rss

if TYPE_CHECKING:
    from fieldmouse.crawler.cluster import NetworkStage  # loaded only by an agent of a cluster
    from fieldmouse.crawler.refresh import Refreshing  # loaded only by a crawl that polls


TICK = 0.1
EAGERLY = 0.5
"""Seconds between two checkpoints that a consumer waits for after the crawl's end."""


class Audience(Protocol):
    def is_behind(self) -> bool:
        """Whether it has so large a backlog that fetching should pause."""

    def is_content(self) -> bool:
        """Whether it has taken all durable pages, or has stopped reading."""

    def is_eager(self) -> bool:
        """Whether it can continue as soon as there is another checkpoint."""


class Together:
    """Several consumers as one: none may be behind, and all must be content."""

    def __init__(self, *audiences: Audience):
        self._audiences = audiences

    def is_behind(self) -> bool:
        return any(audience.is_behind() for audience in self._audiences)

    def is_content(self) -> bool:
        # Ask all: a consumer may begin to hurry when it is asked for the first time.
        content = [audience.is_content() for audience in self._audiences]
        return all(content)

    def is_eager(self) -> bool:
        return any(audience.is_eager() for audience in self._audiences)


async def see_off(
    audience: Audience, checkpoint: Callable[[], Awaitable[None]], clock: Clock, *, every: float
) -> None:
    """Wait until the consumer has all pages, writing checkpoints: only these store its position."""
    sealed_at = -math.inf
    while sealed_at < 0 or not audience.is_content():
        if clock.now() - sealed_at >= (min(EAGERLY, every) if audience.is_eager() else every):
            await checkpoint()
            sealed_at = clock.now()
        await clock.sleep(TICK)


GRACE = 5.0
IDLE = 1.0
LAST_PAGES = 75.0
"""Seconds that an agent of a cluster has to store its last pages when it leaves."""

Listener = Callable[[Reading], None]
"""Called with every reading, in the event loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """The parts of a crawl, connected by `build`."""

    home: CrawlDir
    parts: Parts
    frontier: CrawlFrontier
    outcomes: DurableLog
    booking: Booking
    intake: Intake
    fleet: Fleet
    meter: Meter
    trace: PageTrace
    readings: Diary
    governor: Governor | None
    fuse: Fuse
    stopping: Stopping
    refreshing: Refreshing | None
    network: NetworkStage | None = None
    load: AgentLoad | None = None  # of an agent of a cluster: sent to other agents


class Agent:
    """One crawl on one machine, from open directory to summary."""

    def __init__(
        self,
        stages: Stages,
        *,
        clock: Clock,
        limits: CrawlLimits,
        listeners: Sequence[Listener] = (),
        audience: Audience | None = None,
    ):
        self._stages, self._clock, self._limits = stages, clock, limits
        self._listeners, self._audience = listeners, audience
        self._frontier, self._intake, self._fleet = stages.frontier, stages.intake, stages.fleet
        self._indexer, self._desk = stages.intake.indexer, stages.booking.desk
        self._parts, self._stopping, self._governor = stages.parts, stages.stopping, stages.governor
        self._refreshing, self._network = stages.refreshing, stages.network
        tally = self._desk.tally
        self._before, self._seconds_before = Before.of(tally, self._frontier), tally.seconds
        self._started = clock.now()
        self._crawled = False  # nothing is left to fetch

    # -- durability

    async def checkpoint(self, *, clean: bool = False) -> None:
        """Make the current state durable, as of one moment."""
        self._check()
        shards = await self._indexer.prepare()
        self._stages.fuse.check()
        self._stages.readings.flush()
        self._stages.trace.flush()
        # From here to the end of `seal` nothing else runs, so the state is consistent.
        batches = [state.batch for state in shards]
        self._stages.booking.settle(batches, self._seconds_before + self._elapsed())
        moment = self._parts.seal(self._clock.now(), clean=clean, stopped_by=self._stopping.reason)
        # A crawl that stops at once must not wait for this thread.
        await asyncio.get_running_loop().run_in_executor(Aside(), self._parts.commit, moment)
        self._parts.committed()

    # -- running

    def _check(self) -> None:
        """Raise the first failure that the crawl cannot survive; it then ends as after a kill."""
        self._stages.fuse.check()
        if self._indexer.trouble is not None:
            raise self._indexer.trouble

    def interrupt(self) -> str:
        """Stop at the request of the user; returns a sentence about the remaining work."""
        if not self._crawled:
            self._stopping.ask(StoppedBy.SIGNAL)
        pages = self._stages.meter.out + self._stages.meter.level
        return (
            f"finishing {counted(pages, 'page')} and writing a checkpoint"
            if pages
            else "writing a checkpoint"
        )

    async def crawl(self, seeds: Sequence[Url], *, mercy: Mercy | None = None) -> Summary:
        self._started = self._clock.now()
        await self._indexer.start()
        if mercy is not None and self._network is None:
            mercy.pardon(self._local_frontier)
        self._stages.readings.begin()
        self._parts.begin()
        await self._indexer.begin()
        self._stages.trace.begin()
        if self._governor is not None:
            self._governor.begin()
        if self._network is not None:
            if mercy is not None:
                self._network.forgive(mercy, self._stages.outcomes, self._started)
            await self.checkpoint()  # from `begin` on pages may arrive, and a kill may happen
            await self._network.begin()
        self._frontier.discover([Link(url, kind=Kind.SEED, seen_at=self._started) for url in seeds])
        if mercy is not None and self._network is None:
            mercy.readmit(self._local_frontier, self._stages.outcomes, self._desk.tally, self._started)
        await self.checkpoint()
        self._update_pause()
        if self._refreshing is not None:
            self._publish_reading()  # progress displays count polls from here on
        self._fleet.nudge()
        await self._watch()
        self._check()
        if self._governor is not None:
            self._governor.end()
        await self._store_last_pages()
        self._crawled = True
        if self._network is not None:
            await self._network.end()
        if self._refreshing is not None:
            await self.checkpoint()
            self._refreshing.end()
        if self._audience is not None:
            await see_off(self._audience, self.checkpoint, self._clock, every=self._limits.checkpoint)
        await self.checkpoint(clean=True)
        await self._indexer.finish()
        self._publish_reading()
        return self._summary()

    async def _store_last_pages(self) -> None:
        """Store all fetched pages. An agent of a cluster has a time limit, because other agents wait for its
        hosts."""
        if self._network is None:
            await self._stop_and_drain()
            return
        storing = asyncio.create_task(self._stop_and_drain(durable=True))
        try:
            await asyncio.wait({storing}, timeout=LAST_PAGES)
        finally:
            finished = storing.done()
            await call_off([storing])
        if not finished:
            self._indexer.abandon()
            raise StillBusy(LAST_PAGES)
        storing.result()

    async def _stop_and_drain(self, *, durable: bool = False) -> None:
        await self._fleet.stop(GRACE)
        await self._drain()
        if durable:
            await self.checkpoint()

    async def _watch(self) -> None:
        """Watch the crawl until it is done or told to stop."""
        read_at = sealed_at = self._clock.now()
        was_idle = False
        meter, load = self._stages.meter, self._stages.load
        loop = asyncio.get_running_loop()
        woke_at = loop.time()
        while not self._stopping.asked:
            seconds, slept_at = self._sleep_time(was_idle), loop.time()
            await self._clock.sleep(seconds)
            since, woke_at = woke_at, loop.time()
            if load is not None:
                load.look(woke_at - since, late=woke_at - slept_at - seconds)
            self._check()
            self._stages.booking.take_in()  # new links may turn up: before the check whether any work is left
            now = self._clock.now()
            full = self._desk.full and not self._frontier.polling
            limit = self._limits.reached(
                pages=full, seconds=now - self._started, free_bytes=self._stages.home.free_bytes
            )
            if self._network is not None and self._network.limits.is_overdue:
                limit = limit or StoppedBy.TIME
            if limit:
                self._stopping.ask(limit)
            if self._governor is not None:
                self._governor.look()
            if self._refreshing is not None and not limit:
                self._refreshing.look(now)
            self._update_pause()
            if now - read_at >= 1.0:
                read_at = now
                self._publish_reading()
            # An agent at its page quota is idle, too: its checkpoint may free quota for other agents.
            stuck = self._frontier.ready_at() is None or self._desk.sated or self._is_stalled(now)
            idle = not meter.out and not meter.level and stuck
            if now - sealed_at >= self._until_checkpoint(idle, was_idle):
                await self.checkpoint()
                sealed_at = self._clock.now()
            was_idle = idle
            if idle and not self._work_left():
                return
            if idle and not self._desk.unsettled and self._is_stalled(now):
                assert self._refreshing is not None
                self._refreshing.postpone(now)
                return
            self._intake.pump()  # a restarted worker or an expired page sends no signal
            self._fleet.nudge()

    def _sleep_time(self, idle: bool) -> float:
        if not idle or self._refreshing is None:
            return TICK
        return min(max(TICK, self._refreshing.rest(self._clock.now())), IDLE)

    def _until_checkpoint(self, idle: bool, was_idle: bool) -> float:
        """Seconds between the last checkpoint and the next."""
        if not idle:
            return self._limits.checkpoint
        if self._refreshing is not None:
            if not self._refreshing.unsettled and not self._desk.unsettled:
                return math.inf  # nothing has happened, and nothing will until a poll is due
            return min(IDLE, self._limits.checkpoint) if self._refreshing.ends else self._limits.checkpoint
        if self._network is not None and not self._desk.unsettled:
            return math.inf  # the work of other agents is on the coordinator
        # A crawl that stays idle only waits for another crawl to take a host: no hurry.
        return min(IDLE if was_idle else 0.0, self._limits.checkpoint)

    @property
    def _local_frontier(self) -> Frontier:
        """The frontier of a crawl on one machine."""
        assert isinstance(self._frontier, Frontier), "the queue of a cluster is on the coordinator"
        return self._frontier

    def _work_left(self) -> int:
        """Work that is left, as far as that is durable."""
        if self._refreshing is not None:
            return self._refreshing.left
        return self._frontier.waiting + self._frontier.polling

    def _is_stalled(self, now: float) -> bool:
        return self._refreshing is not None and self._refreshing.is_stalled(now)

    def _update_pause(self) -> None:
        if self._audience is not None:
            self._stages.meter.note_paused(self._audience.is_behind())

    async def _drain(self) -> None:
        while self._stages.meter.level:
            self._check()
            self._intake.pump()
            await self._clock.sleep(0.01)

    def _elapsed(self) -> float:
        return self._clock.now() - self._started

    def _publish_reading(self) -> None:
        stages = self._stages
        reading = take_reading(
            self._clock.now(), self._desk, self._frontier, stages.meter, stages.trace.gauge
        )
        stages.readings.append(msgspec.msgpack.encode(reading))
        for listener in self._listeners:
            listener(reading)

    def _summary(self) -> Summary:
        stopped_by, refresh = self._stopping.reason, None
        is_done = not self._work_left()
        if self._refreshing is not None:
            refresh = refreshed(self._before, self._desk.tally, self._frontier, self._refreshing)
            is_done = self._refreshing.is_over
            # A crawl that polls for a fixed time is done when that time is over.
            is_done = is_done or (stopped_by is StoppedBy.TIME and self._refreshing.asked_for_time)
        return sum_up(
            self._desk,
            self._frontier,
            seconds=self._elapsed(),
            before=self._before,
            peak_rss=peak_rss() + self._indexer.peak_rss,
            stopped_by=stopped_by,
            is_done=is_done,
            told=refresh,
            whole=self._network.whole if self._network is not None else None,
        )
