"""The crawler: starts the stages of a crawl, watches them, and makes checkpoints."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import msgspec

from fieldmouse.aio import DaemonExecutor, cancel_and_wait
from fieldmouse.backpressure_state import BackpressureState
from fieldmouse.clock import Clock
from fieldmouse.control.buffer_trace import BufferTrace
from fieldmouse.control.governor import Governor
from fieldmouse.crawler.indexing_stage import IndexingStage
from fieldmouse.crawler.retry_failed import RetryFailed
from fieldmouse.crawler.stats import AgentLoadMeter, StatsAtStart, live_stats, make_summary, refresh_summary
from fieldmouse.crawler.stop_conditions import CrawlLimits
from fieldmouse.errors import DrainTimeout, UsageError
from fieldmouse.fetch.worker import FetchPool
from fieldmouse.formatting import format_count
from fieldmouse.frontier.frontier import Frontier
from fieldmouse.policy.retry import CLEARABLE
from fieldmouse.storage.checkpoint import CheckpointParts
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.log import BestEffortLog
from fieldmouse.types.reason import StoppedBy
from fieldmouse.types.request import Request, RequestKind
from fieldmouse.types.stats import LiveStats, Summary
from fieldmouse.url import Url
from fieldmouse.workers.protocol import peak_rss

if TYPE_CHECKING:
    from fieldmouse.crawler.cluster_agent import ClusterStage  # loaded only by an agent of a cluster
    from fieldmouse.crawler.refresh import Poller  # loaded only by a crawl that polls


CONSUMER_CHECK_EVERY = 0.1
#: Seconds between two checkpoints that a consumer waits for after the crawl's end.
EAGER_CHECKPOINT_EVERY = 0.5


class ConsumerBackpressure(Protocol):
    def is_too_far_behind(self) -> bool:
        """Whether it has so large a backlog that fetching should pause."""

    def run_may_end(self) -> bool:
        """Whether it has taken all durable pages, or has stopped reading."""

    def waits_for_checkpoint(self) -> bool:
        """Whether it can continue as soon as there is another checkpoint."""


class CombinedConsumerStatus:
    """Several consumers as one: none may be behind, and all must be content."""

    def __init__(self, *audiences: ConsumerBackpressure):
        self._audiences = audiences

    def is_too_far_behind(self) -> bool:
        return any(audience.is_too_far_behind() for audience in self._audiences)

    def run_may_end(self) -> bool:
        # Ask all: a consumer may begin to hurry when it is asked for the first time.
        content = [audience.run_may_end() for audience in self._audiences]
        return all(content)

    def waits_for_checkpoint(self) -> bool:
        return any(audience.waits_for_checkpoint() for audience in self._audiences)


async def wait_for_consumer(
    audience: ConsumerBackpressure, checkpoint: Callable[[], Awaitable[None]], clock: Clock, *, every: float
) -> None:
    """Wait until the consumer has all pages, writing checkpoints: only these store its position."""
    sealed_at = -math.inf
    while sealed_at < 0 or not audience.run_may_end():
        wait = min(EAGER_CHECKPOINT_EVERY, every) if audience.waits_for_checkpoint() else every
        if clock.now() - sealed_at >= wait:
            await checkpoint()
            sealed_at = clock.now()
        await clock.sleep(CONSUMER_CHECK_EVERY)


STOP_GRACE = 5.0
IDLE_CHECK_EVERY = 1.0
#: Seconds that an agent of a cluster has to store its last pages when it leaves.
DRAIN_TIMEOUT = 75.0

#: Called with every reading, in the event loop.
StatsListener = Callable[[LiveStats], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """The parts of a crawl, connected by `build`."""

    home: CrawlDir
    durables: CheckpointParts
    indexing: IndexingStage
    pool: FetchPool
    backpressure: BackpressureState
    trace: BufferTrace
    readings: BestEffortLog
    governor: Governor | None
    poller: Poller | None
    cluster: ClusterStage | None = None
    load: AgentLoadMeter | None = None  # of an agent of a cluster: sent to other agents


class Crawler:
    """One crawl on one machine, from open directory to summary."""

    def __init__(
        self,
        stages: Stages,
        *,
        clock: Clock,
        limits: CrawlLimits,
        listeners: Sequence[StatsListener] = (),
        audience: ConsumerBackpressure | None = None,
    ):
        self._stages, self._clock, self._limits = stages, clock, limits
        self._listeners, self._audience = listeners, audience
        indexing = self._indexing = stages.indexing
        self._frontier, self._failure, self._fleet = indexing.frontier, indexing.failure, stages.pool
        self._indexer, self._in_flight_table = indexing.indexer, indexing.in_flight
        self._parts, self._stopping, self._governor = stages.durables, indexing.stop, stages.governor
        self._refreshing, self._network = stages.poller, stages.cluster
        tally = self._in_flight_table.tally
        self._before, self._seconds_before = StatsAtStart.capture(tally, self._frontier), tally.seconds
        self._started = clock.now()
        self._crawled = False  # nothing is left to fetch
        self._policy_error: UsageError | None = None  # of the user's polling policy

    # -- durability

    async def checkpoint(self, *, clean: bool = False) -> None:
        """Make the current state durable, as of one moment."""
        self._raise_if_failed()
        shards = await self._indexer.prepare_commit()
        self._failure.raise_if_failed()
        self._stages.readings.flush()
        self._stages.trace.flush()
        # From here to the end of `seal` nothing else runs, so the state is consistent.
        batches = [state.batch for state in shards]
        self._indexing.settle_durable(batches, self._seconds_before + self._seconds_of_this_run())
        moment = self._parts.seal(self._clock.now(), clean=clean, stopped_by=self._stopping.reason)
        # A crawl that stops at once must not wait for this thread.
        await asyncio.get_running_loop().run_in_executor(DaemonExecutor(), self._parts.commit, moment)
        self._parts.notify_committed()

    # -- running

    def _raise_if_failed(self) -> None:
        """Raise the first failure that the crawl cannot survive; it then ends as after a kill."""
        self._failure.raise_if_failed()
        if self._indexer.error is not None:
            raise self._indexer.error

    def stop_by_user(self) -> str:
        """Stop at the request of the user; returns a sentence about the remaining work."""
        if not self._crawled:
            self._stopping.request_stop(StoppedBy.SIGNAL)
        pages = self._stages.backpressure.active_visits + self._stages.backpressure.level
        return f"finishing {format_count(pages, 'page')} and writing a checkpoint" if pages else "writing a checkpoint"

    async def crawl(self, seeds: Sequence[Url], *, retry_failed: RetryFailed | None = None) -> Summary:
        self._started = self._clock.now()
        await self._indexer.start()
        if self._network is None and retry_failed is not None:
            retry_failed.clear_verdicts(self._require_local_frontier)
        elif self._network is None and self._refreshing is not None:
            self._require_local_frontier.clear_host_verdicts(CLEARABLE)  # each refresh tries all hosts again
        self._stages.readings.roll_back_to_checkpoint()
        self._parts.open_for_writing()
        await self._indexer.roll_back_and_accept()
        self._stages.trace.record_start()
        if self._governor is not None:
            self._governor.start()
        if self._network is not None:
            if retry_failed is not None:
                self._network.retry_failed_urls_of_crawl(retry_failed, self._indexing.outcomes, self._started)
            await self.checkpoint()  # from `roll_back_to_checkpoint` on pages may arrive, and a kill may happen
            await self._network.join_cluster()
        self._frontier.discover([Request(url, kind=RequestKind.SEED, seen_at=self._started) for url in seeds])
        if retry_failed is not None and self._network is None:
            retry_failed.requeue(
                self._require_local_frontier, self._indexing.outcomes, self._in_flight_table.tally, self._started
            )
        await self.checkpoint()
        self._pause_if_consumer_is_behind()
        if self._refreshing is not None:
            self._publish_reading()  # progress displays count polls from here on
        self._fleet.wake()
        await self._run_until_stopped()
        self._raise_if_failed()
        if self._governor is not None:
            self._governor.stop_deciding()
        await self._store_last_pages()
        self._crawled = True
        if self._network is not None:
            await self._network.leave_cluster()
        if self._refreshing is not None:
            await self.checkpoint()
            self._refreshing.stop_polling()
        if self._audience is not None:
            await wait_for_consumer(self._audience, self.checkpoint, self._clock, every=self._limits.checkpoint_every)
        await self.checkpoint(clean=True)
        if self._policy_error is not None:
            raise self._policy_error
        await self._indexer.merge_indexes_and_cdxj_logs()
        self._publish_reading()
        return self._make_summary()

    async def _store_last_pages(self) -> None:
        """Store all fetched pages. An agent of a cluster has a time limit, because other agents wait for its
        hosts."""
        if self._network is None:
            await self._stop_and_drain()
            return
        storing = asyncio.create_task(self._stop_and_drain(durable=True))
        try:
            await asyncio.wait({storing}, timeout=DRAIN_TIMEOUT)
        finally:
            finished = storing.done()
            await cancel_and_wait([storing])
        if not finished:
            self._indexer.kill()
            raise DrainTimeout(DRAIN_TIMEOUT)
        storing.result()

    async def _stop_and_drain(self, *, durable: bool = False) -> None:
        await self._fleet.stop(STOP_GRACE)
        await self._drain_buffer()
        if durable:
            await self.checkpoint()

    async def _run_until_stopped(self) -> None:
        """Watch the crawl until it is done or told to stop."""
        read_at = sealed_at = self._clock.now()
        was_idle = False
        meter, load = self._stages.backpressure, self._stages.load
        loop = asyncio.get_running_loop()
        woke_at = loop.time()
        while not self._stopping.is_requested:
            seconds, slept_at = self._seconds_to_sleep(was_idle), loop.time()
            await self._clock.sleep(seconds)
            since, woke_at = woke_at, loop.time()
            if load is not None:
                load.update(woke_at - since, late=woke_at - slept_at - seconds)
            self._raise_if_failed()
            # new links may turn up: before the check whether any work is left
            self._indexing.apply_shared_scope()
            now = self._clock.now()
            full = self._in_flight_table.is_page_limit_fetched and not self._frontier.waiting_polls
            limit = self._limits.limit_reached(
                pages=full, seconds=now - self._started, free_bytes=self._stages.home.free_bytes
            )
            if self._network is not None and self._network.limits.is_time_over:
                limit = limit or StoppedBy.TIME_LIMIT
            if limit:
                self._stopping.request_stop(limit)
            if self._governor is not None:
                self._governor.decide_if_due()
            if self._refreshing is not None and not limit:
                try:
                    self._refreshing.send_due_polls(now)
                except UsageError as error:
                    self._policy_error = error
                    self._stopping.request_stop(StoppedBy.SIGNAL)
            self._pause_if_consumer_is_behind()
            if now - read_at >= 1.0:
                read_at = now
                self._publish_reading()
            # An agent at its page quota is idle, too: its checkpoint may free quota for other agents.
            stuck = (
                self._frontier.ready_at() is None
                or self._in_flight_table.is_page_limit_in_flight
                or self._is_round_stalled(now)
            )
            idle = not meter.active_visits and not meter.level and stuck
            if now - sealed_at >= self._seconds_to_next_checkpoint(idle, was_idle):
                await self.checkpoint()
                sealed_at = self._clock.now()
            was_idle = idle
            if idle and not self._work_left():
                return
            if idle and not self._in_flight_table.has_undurable and self._is_round_stalled(now):
                assert self._refreshing is not None
                self._refreshing.end_round_early(now)
                return
            self._indexing.move_pages_on()  # a restarted worker or an expired page sends no signal
            self._fleet.wake()

    def _seconds_to_sleep(self, idle: bool) -> float:
        if not idle or self._refreshing is None:
            return CONSUMER_CHECK_EVERY
        return min(
            max(CONSUMER_CHECK_EVERY, self._refreshing.seconds_until_next_poll(self._clock.now())), IDLE_CHECK_EVERY
        )

    def _seconds_to_next_checkpoint(self, idle: bool, was_idle: bool) -> float:
        """Seconds between the last checkpoint and the next."""
        if not idle:
            return self._limits.checkpoint_every
        if self._refreshing is not None:
            if not self._refreshing.has_unsaved_polls and not self._in_flight_table.has_undurable:
                return math.inf  # nothing has happened, and nothing will until a poll is due
            longest = IDLE_CHECK_EVERY if self._refreshing.is_single_round else math.inf
            return min(longest, self._limits.checkpoint_every)
        if self._network is not None and not self._in_flight_table.has_undurable:
            return math.inf  # the work of other agents is on the coordinator
        # A crawl that stays idle only waits for another crawl to take a host: no hurry.
        return min(IDLE_CHECK_EVERY if was_idle else 0.0, self._limits.checkpoint_every)

    @property
    def _require_local_frontier(self) -> Frontier:
        """The frontier of a crawl on one machine."""
        assert isinstance(self._frontier, Frontier), "the queue of a cluster is on the coordinator"
        return self._frontier

    def _work_left(self) -> int:
        """Work that is left, as far as that is durable."""
        if self._refreshing is not None:
            return self._refreshing.remaining_work
        return self._frontier.waiting_count + self._frontier.waiting_polls

    def _is_round_stalled(self, now: float) -> bool:
        return self._refreshing is not None and self._refreshing.is_round_stalled(now)

    def _pause_if_consumer_is_behind(self) -> None:
        if self._audience is not None:
            self._stages.backpressure.set_paused(self._audience.is_too_far_behind())

    async def _drain_buffer(self) -> None:
        while self._stages.backpressure.level:
            self._raise_if_failed()
            self._indexing.move_pages_on()
            await self._clock.sleep(0.01)

    def _seconds_of_this_run(self) -> float:
        return self._clock.now() - self._started

    def _publish_reading(self) -> None:
        stages = self._stages
        reading = live_stats(
            self._clock.now(), self._in_flight_table, self._frontier, stages.backpressure, stages.trace.gauge
        )
        stages.readings.append(msgspec.msgpack.encode(reading))
        for listener in self._listeners:
            listener(reading)

    def _make_summary(self) -> Summary:
        stopped_by, refresh = self._stopping.reason, None
        is_done = not self._work_left()
        if self._refreshing is not None:
            refresh = refresh_summary(self._before, self._in_flight_table.tally, self._frontier, self._refreshing)
            is_done = self._refreshing.is_round_over
            # A crawl that polls for a fixed time is done when that time is over.
            is_done = is_done or (stopped_by is StoppedBy.TIME_LIMIT and self._refreshing.has_time_limit)
        return make_summary(
            self._in_flight_table,
            self._frontier,
            seconds=self._seconds_of_this_run(),
            before=self._before,
            peak_rss=peak_rss() + self._indexer.peak_rss,
            stopped_by=stopped_by,
            is_done=is_done,
            told=refresh,
            whole=self._network.summary if self._network is not None else None,
        )
