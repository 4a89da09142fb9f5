"""All couriers of a crawl: a part of its checkpoint, and somebody whom the end of a run waits for.

The crawl asks nothing of it and is never held up: it learns of each checkpoint, and tells at the
next one how far the couriers have come. At the end of a run it may take `patience`; whatever is
left goes out in the next run.
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
    """How each channel stood at a checkpoint."""
    return last.state(PART, ChannelStates) if last is not None and PART in last.parts else {}


def state_of(name: str, last: Checkpoint | None) -> ChannelState:
    """How a channel stands; one that was not there before hears of nothing older than itself."""
    known = sealed_channels(last).get(name)
    if known is not None:
        return known
    here = sealed_outcomes(last)
    return ChannelState(here, since=here)


class Notifier:
    """Made for one run; `channels` are its own, and closed with it."""

    name = PART

    def __init__(
        self, home: CrawlDir, last: Checkpoint | None, asked: NotifySection, channels: Sequence[Channel],
        clock: Clock,
    ):  # fmt: skip
        self._home, self._clock, self._patience = home, clock, asked.patience
        self._source = NewsSource(home / "outcomes.log", Wanted.of(asked))
        self._channels = channels
        self._couriers = [
            Courier(channel, self._source, clock, state_of(channel.name, last)) for channel in channels
        ]
        # Channels that are not asked for this time go on where they were when they are asked for again.
        self._sealed = sealed_channels(last)
        self._baseline = sealed_baseline(last)
        self._end = self._announced = sealed_outcomes(last)
        self._looks = 0  # under way, before couriers hear of a checkpoint
        self._deadline: float | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}

    # -- a part of the crawl

    def begin(self) -> None:
        """Nothing of it is on the disk but what others write."""

    def seal(self) -> Sealed[ChannelStates]:
        self._end = self._source.log.stat().st_size  # that log was sealed before us
        self._sealed = self._sealed | {courier.name: courier.state for courier in self._couriers}
        return Sealed(self._sealed)

    def committed(self) -> None:
        if not self._tasks:
            for courier in self._couriers:
                task = self._tasks[courier.name] = asyncio.create_task(courier.run())
                task.add_done_callback(_complain)
        sealed, end = self._sealed, self._end
        # Once there is a baseline it stays, unless the clock was ahead when it was set.
        if self._baseline is not None and self._baseline.baseline <= self._clock.now():
            self._announce(sealed, end)
            return
        # The first crawl may have ended just now.
        self._looks += 1
        looking = asyncio.get_running_loop().run_in_executor(Aside(), read_checkpoint, self._home)
        looking.add_done_callback(lambda looked: self._look(looked, sealed, end))

    def _look(self, looked: asyncio.Future[Checkpoint | None], sealed: ChannelStates, end: int) -> None:
        self._looks -= 1
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

    # -- an audience, see `agent/audience.py`

    def is_behind(self) -> bool:
        """No crawl waits for a receiver."""
        return False

    def is_content(self) -> bool:
        """Whether the run may end: all is told, or will not be in the time that there is."""
        now = self._clock.now()
        if self._deadline is None:
            self._deadline = now + self._patience
            for courier in self._couriers:
                courier.leave()
        deadline = self._deadline
        told = not self._looks and all(self._may_be_left(courier, deadline) for courier in self._couriers)
        return told or now >= deadline

    def is_eager(self) -> bool:
        """Whether a list or a letter waits for a checkpoint that knows where it ends."""
        return any(courier.is_eager() for courier in self._couriers)

    def _may_be_left(self, courier: Courier, deadline: float) -> bool:
        task = self._tasks.get(courier.name)
        return task is None or task.done() or courier.may_be_left(deadline)

    # -- for the summary

    async def waiting(self) -> dict[str, int]:
        """How many changes each channel has yet to tell, where there are any."""
        return await asyncio.get_running_loop().run_in_executor(Aside(), self._count)

    def _count(self) -> dict[str, int]:
        counts = {}
        for courier in self._couriers:
            count = count_waiting(self._source, courier.state, self._end, self._baseline)
            if count:
                counts[courier.name] = count
        return counts


def count_waiting(source: NewsSource, state: ChannelState, length: int, baseline: Baseline | None) -> int:
    """Changes behind a channel's place."""
    place, count = state.place, 0
    while place < length:
        stretch = read(source.log, place, length=length, baseline=baseline, wanted=source.wanted, most=1000)
        place, count = stretch.end, count + len(stretch.changes)
    return count


def _complain(task: asyncio.Task[None]) -> None:
    """A mistake of ours ends one courier, not the crawl; what it had to tell goes out in the next run.

    So does a file that is damaged, and that is no mistake: a sentence is enough.
    """
    if not task.cancelled() and (mistake := task.exception()) is not None:
        ours = None if isinstance(mistake, FieldmouseError) else mistake
        log.error("nothing more is told in this run: %s", mistake, exc_info=ours)
