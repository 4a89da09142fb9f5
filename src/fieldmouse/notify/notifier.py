"""Notifier: the senders of all channels, as one part of the checkpoint.

It never delays the crawl: it learns about each checkpoint, and stores at the
next one how far the senders have come. At the end of a run it may take `patience` seconds;
the rest is sent in the next run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from fieldmouse.aside import Aside
from fieldmouse.clock import Clock
from fieldmouse.crawldir import Checkpoint, CrawlDir, Sealed, read_checkpoint, sealed_outcomes
from fieldmouse.crawldir.news import Baseline, sealed_baseline
from fieldmouse.errors import FieldmouseError
from fieldmouse.notify.channel import Channel
from fieldmouse.notify.courier import ChannelState, Courier, NewsSource
from fieldmouse.notify.stretch import read
from fieldmouse.notify.wanted import Wanted
from fieldmouse.settings.notify import NotifySection

log = logging.getLogger(__name__)

PART = "notify"

ChannelStates = dict[str, ChannelState]


def sealed_channels(last: Checkpoint | None) -> ChannelStates:
    """The state of each channel at a checkpoint."""
    return last.state(PART, ChannelStates) if last is not None and PART in last.parts else {}


def state_of(name: str, last: Checkpoint | None) -> ChannelState:
    """The state of a channel; a new channel starts at the end of the log."""
    known = sealed_channels(last).get(name)
    if known is not None:
        return known
    here = sealed_outcomes(last)
    return ChannelState(here, since=here)


class Notifier:
    """Made for one run; it owns `channels` and closes them."""

    name = PART

    def __init__(
        self,
        home: CrawlDir,
        last: Checkpoint | None,
        asked: NotifySection,
        channels: Sequence[Channel],
        clock: Clock,
    ):
        self._home, self._clock, self._patience = home, clock, asked.patience
        self._source = NewsSource(home / "outcomes.log", Wanted.of(asked))
        self._channels = channels
        self._couriers = [
            Courier(channel, self._source, clock, state_of(channel.name, last)) for channel in channels
        ]
        # Channels that are not configured in this run keep their state for later runs.
        self._sealed = sealed_channels(last)
        self._baseline = sealed_baseline(last)
        self._end = self._announced = sealed_outcomes(last)
        self._reading = 0  # reads of the journal in progress
        self._deadline: float | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}

    # -- as a part of the checkpoint

    def begin(self) -> None:
        """Nothing to do: it has no files."""

    def seal(self) -> Sealed[ChannelStates]:
        self._end = self._source.log.stat().st_size  # that log was sealed before us
        self._sealed = self._sealed | {courier.name: courier.state for courier in self._couriers}
        return Sealed(self._sealed)

    def committed(self) -> None:
        if not self._tasks:
            for courier in self._couriers:
                task = self._tasks[courier.name] = asyncio.create_task(courier.run())
                task.add_done_callback(_log_error)
        sealed, end = self._sealed, self._end
        # A baseline is final, unless the clock was ahead when it was set.
        if self._baseline is not None and self._baseline.baseline <= self._clock.now():
            self._announce(sealed, end)
            return
        # The first crawl may have ended just now.
        self._reading += 1
        looking = asyncio.get_running_loop().run_in_executor(Aside(), read_checkpoint, self._home)
        looking.add_done_callback(lambda looked: self._baseline_read(looked, sealed, end))

    def _baseline_read(
        self, looked: asyncio.Future[Checkpoint | None], sealed: ChannelStates, end: int
    ) -> None:
        self._reading -= 1
        if not looked.cancelled() and looked.exception() is None:
            self._baseline = sealed_baseline(looked.result())
        self._announce(sealed, end)

    def _announce(self, sealed: ChannelStates, end: int) -> None:
        if end >= self._announced:
            self._announced = end
            for courier in self._couriers:
                courier.committed(sealed[courier.name], end, self._baseline)

    def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        for channel in self._channels:
            channel.close()

    # -- as a consumer of pages, see `agent/audience.py`

    def is_behind(self) -> bool:
        """Always False: no crawl waits for a receiver."""
        return False

    def is_content(self) -> bool:
        """Whether the run may end: all is delivered, or cannot be in the remaining time."""
        now = self._clock.now()
        if self._deadline is None:
            self._deadline = now + self._patience
            for courier in self._couriers:
                courier.leave()
        deadline = self._deadline
        told = not self._reading and all(self._may_be_left(courier, deadline) for courier in self._couriers)
        return told or now >= deadline

    def is_eager(self) -> bool:
        """Whether a list or a mail waits for a checkpoint that holds its end."""
        return any(courier.is_eager() for courier in self._couriers)

    def _may_be_left(self, courier: Courier, deadline: float) -> bool:
        task = self._tasks.get(courier.name)
        return task is None or task.done() or courier.may_be_left(deadline)

    # -- for the summary

    async def waiting(self) -> dict[str, int]:
        """Number of undelivered changes of each channel that has any."""
        return await asyncio.get_running_loop().run_in_executor(Aside(), self._count)

    def _count(self) -> dict[str, int]:
        counts = {}
        for courier in self._couriers:
            count = count_waiting(self._source, courier.state, self._end, self._baseline)
            if count:
                counts[courier.name] = count
        return counts


def count_waiting(source: NewsSource, state: ChannelState, length: int, baseline: Baseline | None) -> int:
    """Number of changes after a channel's offset."""
    place, count = state.place, 0
    while place < length:
        stretch = read(source.log, place, length=length, baseline=baseline, wanted=source.wanted, most=1000)
        place, count = stretch.end, count + len(stretch.changes)
    return count


def _log_error(task: asyncio.Task[None]) -> None:
    """Log an error that ended a sender. The crawl continues; the next run sends the rest.

    A damaged file is not a bug: it is logged without traceback.
    """
    if not task.cancelled() and (mistake := task.exception()) is not None:
        ours = None if isinstance(mistake, FieldmouseError) else mistake
        log.error("no more notifications in this run: %s", mistake, exc_info=ours)
