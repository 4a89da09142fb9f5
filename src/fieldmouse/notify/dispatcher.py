"""Notifier and the senders of its channels: delivery of changes in order, at least once.

Each channel has a separate sender that reads the outcome log from its own offset. A receiver that
is down is tried again after 1, 2, 4, ... seconds, at most 5 minutes, without giving up. A slow
receiver delays neither other channels nor the crawl. At the end of a run the notifier may take
`notify.patience`; the rest is sent in the next run.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from fieldmouse.aio import DaemonExecutor
from fieldmouse.clock import Clock
from fieldmouse.config.notify_section import NotifySection
from fieldmouse.errors import FieldmouseError
from fieldmouse.notify.channel_interface import ChangeBatch, Channel
from fieldmouse.notify.filter import ChangeFilter
from fieldmouse.storage.changes_from_outcomes import Change, NewPageBaseline, changes_in, sealed_baseline
from fieldmouse.storage.checkpoint import Checkpoint, SealedPart, read_checkpoint, sealed_outcome_bytes
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.log import FRAME, decode_record, read_records
from fieldmouse.types.outcome import OutcomeRow

_decode = msgspec.msgpack.Decoder(OutcomeRow).decode

#: Rows read in one call: some milliseconds, so that reading a long log blocks nothing else.
ROWS_PER_READ = 5000


@dataclass(frozen=True, slots=True)
class ChangeRange:
    """Changes of whole rows, up to byte `end`."""

    end: int
    changes: tuple[Change, ...] = ()
    offsets: tuple[int, ...] = ()

    def __add__(self, after: ChangeRange) -> ChangeRange:
        return ChangeRange(after.end, self.changes + after.changes, self.offsets + after.offsets)

    def split_into_notices(self, most: int) -> list[ChangeBatch]:
        """All changes in order, at most `most` per notice."""
        return [
            ChangeBatch(self.changes[at : at + most], self.offsets[at : at + most])
            for at in range(0, len(self.changes), most)
        ]


@dataclass(frozen=True, slots=True)
class ChangeSource:
    """Outcome log and the filter of changes to send."""

    log: Path
    is_wanted: Callable[[Change], bool]

    @classmethod
    def from_settings(cls, home: CrawlDir, settings: NotifySection) -> ChangeSource:
        return cls(home / "outcomes.log", ChangeFilter.from_settings(settings))

    def read(self, start: int, length: int, baseline: NewPageBaseline | None, most: int = 1000) -> ChangeRange:
        """Read from byte `start` until `most` changes, `ROWS_PER_READ` rows or `length` are reached.

        Rows are not split: there may be a few changes more than `most`.
        """
        changes: list[Change] = []
        offsets: list[int] = []
        end = start
        if start >= length:
            return ChangeRange(start)
        for number, (offset, record) in enumerate(read_records(self.log, start=start, length=length), 1):
            row = decode_record(self.log, _decode, record)
            matching = [change for change in changes_in(row, offset, baseline) if self.is_wanted(change)]
            changes += matching
            offsets += [offset] * len(matching)
            end = offset + FRAME.size + len(record)
            if len(changes) >= most or number >= ROWS_PER_READ:
                break
        return ChangeRange(end, tuple(changes), tuple(offsets))

    def count_waiting(self, state: ChannelCursor, length: int, baseline: NewPageBaseline | None) -> int:
        """Number of changes after a channel's offset."""
        place, count = state.place, 0
        while place < length:
            changes = self.read(place, length, baseline)
            place, count = changes.end, count + len(changes.changes)
        return count


log = logging.getLogger(__name__)

MAX_RETRY_DELAY = 300.0
#: Seconds: a receiver that asks for a longer wait (`Retry-After`) gets this.
MAX_RETRY_AFTER = 3600.0


class ChannelCursor(msgspec.Struct, frozen=True):
    """State of a channel in the checkpoint."""

    place: int  # byte of the outcome log: all changes before it were delivered
    planned: int = 0  # where the notice being sent ends; 0 if that follows from its size
    told_at: float = 0.0  # when the last notice was delivered
    held_since: float = 0.0  # when the first change after `place` was found; 0 if none was
    since: int = 0  # see `Channel`


def retry_delay(tries: int, asked: float = 0.0) -> float:
    """Seconds until the next try, after a number of failed ones.

    >>> [retry_delay(tries) for tries in (1, 2, 3, 100)], retry_delay(1, 90.0)
    ([1.0, 2.0, 4.0, 300.0], 90.0)
    """
    return max(min(2.0 ** min(tries - 1, 60), MAX_RETRY_DELAY), min(asked, MAX_RETRY_AFTER))


class ChannelSender:
    """Sender whose `run` never returns. It lives in one event loop; only the log is read in a thread."""

    def __init__(self, channel: Channel, source: ChangeSource, clock: Clock, state: ChannelCursor):
        self._channel, self._source, self._clock = channel, source, clock
        self._mode = channel.mode
        self._state = state
        self._held = ChangeRange(state.place)  # read, not yet delivered
        self._length = state.place  # durable length of the log
        self._baseline: NewPageBaseline | None = None
        self._committed_plan = state.planned  # the plan in the last checkpoint
        self._until: float | None = None  # paused until then
        self._busy = True  # working, or about to look for changes
        self._ending = False
        self._wake_up = asyncio.Event()

    @property
    def name(self) -> str:
        return self._channel.name

    @property
    def cursor_for_checkpoint(self) -> ChannelCursor:
        """The state for the checkpoint."""
        return msgspec.structs.replace(self._state, since=self._channel.replay_from)

    def is_caught_up(self) -> bool:
        """Whether all durable changes were delivered."""
        return self._state.place >= self._length

    def needs_checkpoint(self) -> bool:
        """Whether it waits for a checkpoint that holds its plan."""
        return self._state.planned != 0 and self._state.planned != self._committed_plan

    def is_done_or_idle_until(self, deadline: float) -> bool:
        """Whether waiting for it until `deadline` is useless."""
        rests = not self._busy and self._until is not None and self._until > deadline
        return rests or self.is_caught_up()

    def checkpoint_written(self, kept: ChannelCursor, length: int, baseline: NewPageBaseline | None) -> None:
        """Note that a checkpoint holds `kept` and that the log is durable up to `length`."""
        self._committed_plan, self._length, self._baseline = kept.planned, length, baseline
        self._wake_loop()

    def send_everything_now(self) -> None:
        """Try everything at once, because the run is ending."""
        self._ending = True
        self._wake_loop()

    def _wake_loop(self) -> None:
        self._busy = True
        self._wake_up.set()

    # -- delivery loop

    async def run(self) -> None:
        while True:
            changes = await self._next_due_changes()
            for notice in changes.split_into_notices(self._mode.max_changes):
                await self._deliver(notice)
            self._state = ChannelCursor(changes.end, told_at=self._clock.now())
            self._held = ChangeRange(changes.end)

    async def _next_due_changes(self) -> ChangeRange:
        """Wait for the next changes to send and until they are due."""
        while True:
            self._wake_up.clear()
            await self._read_ahead()
            plan = self._state.planned
            if self._held.changes:
                if plan:
                    if plan == self._committed_plan and self._held.end == plan:
                        return self._held
                elif self._can_send_before_checkpoint():
                    return self._held
                elif self._clock.now() >= self._due_at():
                    self._state = msgspec.structs.replace(self._state, planned=self._held.end)
                    continue
            elif not plan or self._held.end >= plan:
                # These rows have no change to send: skip them. A plan whose changes the settings now exclude
                # is finished, too.
                self._state = msgspec.structs.replace(self._state, place=self._held.end, planned=0, held_since=0.0)
                if plan:
                    continue
            await self._wait(None if plan or not self._held.changes else self._due_at())

    def _can_send_before_checkpoint(self) -> bool:
        """Whether the changes would form the same notices after a kill, or need not."""
        is_full = len(self._held.changes) >= self._mode.max_changes
        return not self._mode.min_interval and (is_full or not self._mode.repeatable)

    def _due_at(self) -> float:
        """When the held changes are due. At the end of a run only the time since the last notice counts."""
        told_at, held_since = self._state.told_at, self._state.held_since
        # A clock that was set back must not cause a long wait.
        begun_at = min(told_at if self._ending else max(told_at, held_since), self._clock.now())
        return begun_at + self._mode.min_interval

    async def _read_ahead(self) -> None:
        """Read until a notice is full or the log ends; with a plan, up to its end."""
        plan = self._state.planned
        end = plan or self._length
        most = sys.maxsize if plan else self._mode.max_changes
        while self._held.end < end and (room := most - len(self._held.changes)) > 0:
            read = partial(self._source.read, self._held.end, end, self._baseline, room)
            self._held += await asyncio.get_running_loop().run_in_executor(DaemonExecutor(), read)
            if self._held.changes and not self._state.held_since:
                self._state = msgspec.structs.replace(self._state, held_since=self._clock.now())

    async def _deliver(self, notice: ChangeBatch) -> None:
        tries = 0
        while True:
            setback = await self._channel.send(notice)
            if setback is None:
                break
            tries += 1
            if tries == 1:
                log.warning("%s: %s; it will be tried again, and nothing is lost", self.name, setback.reason)
            self._wake_up.clear()
            # New changes must not end the pause; the end of the run does, once.
            until = self._clock.now() + retry_delay(tries, setback.retry_after)
            was_ending = self._ending
            while self._clock.now() < until and was_ending == self._ending:
                await self._wait(until)
                self._wake_up.clear()
        if tries:
            log.warning("%s: delivered after %d failed tries", self.name, tries)

    async def _wait(self, until: float | None) -> None:
        """Wait until that time, or until woken."""
        self._until, self._busy = until, False
        if self._wake_up.is_set():
            self._busy = True
            return
        seconds = None if until is None else max(0.0, until - self._clock.now())
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wake_up.wait(), seconds)
        self._until, self._busy = None, True


PART = "notify"

ChannelStates = dict[str, ChannelCursor]


def sealed_channel_cursors(last: Checkpoint | None) -> ChannelStates:
    """The state of each channel at a checkpoint."""
    return last.decode_part(PART, ChannelStates) if last is not None and PART in last.parts else {}


def channel_cursor(name: str, last: Checkpoint | None) -> ChannelCursor:
    """The state of a channel; a new channel starts at the end of the log."""
    known = sealed_channel_cursors(last).get(name)
    if known is not None:
        return known
    here = sealed_outcome_bytes(last)
    return ChannelCursor(here, since=here)


class Notifier:
    """Made for one run; it owns `channels` and closes them."""

    name = PART

    def __init__(
        self, home: CrawlDir, last: Checkpoint | None, asked: NotifySection, channels: Sequence[Channel], clock: Clock
    ):
        self._home, self._clock, self._patience = home, clock, asked.patience
        self._source = ChangeSource.from_settings(home, asked)
        self._channels = channels
        self._senders = [
            ChannelSender(channel, self._source, clock, channel_cursor(channel.name, last)) for channel in channels
        ]
        # Channels that are not configured in this run keep their state for later runs.
        self._sealed = sealed_channel_cursors(last)
        self._baseline = sealed_baseline(last)
        self._end = self._announced = sealed_outcome_bytes(last)
        self._reading = 0  # reads of the journal in progress
        self._deadline: float | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}

    # -- as a part of the checkpoint

    def roll_back_to_checkpoint(self) -> None:
        """Nothing to do: it has no files."""

    def seal(self) -> SealedPart[ChannelStates]:
        self._end = self._source.log.stat().st_size  # that log was sealed before us
        self._sealed = self._sealed | {sender.name: sender.cursor_for_checkpoint for sender in self._senders}
        return SealedPart(self._sealed)

    def on_checkpoint_committed(self) -> None:
        if not self._tasks:
            for sender in self._senders:
                task = self._tasks[sender.name] = asyncio.create_task(sender.run())
                task.add_done_callback(_log_error)
        sealed, end = self._sealed, self._end
        # A baseline is final, unless the clock was ahead when it was set.
        if self._baseline is not None and self._baseline.baseline <= self._clock.now():
            self._wake_senders(sealed, end)
            return
        # The first crawl may have ended just now.
        self._reading += 1
        looking = asyncio.get_running_loop().run_in_executor(DaemonExecutor(), read_checkpoint, self._home)
        looking.add_done_callback(lambda looked: self._on_baseline_time_read(looked, sealed, end))

    def _on_baseline_time_read(
        self, looked: asyncio.Future[Checkpoint | None], sealed: ChannelStates, end: int
    ) -> None:
        self._reading -= 1
        if not looked.cancelled() and looked.exception() is None:
            self._baseline = sealed_baseline(looked.result())
        self._wake_senders(sealed, end)

    def _wake_senders(self, sealed: ChannelStates, end: int) -> None:
        if end >= self._announced:
            self._announced = end
            for sender in self._senders:
                sender.checkpoint_written(sealed[sender.name], end, self._baseline)

    def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        for channel in self._channels:
            channel.cancel_delivery()

    # -- as a consumer of pages, see `crawler/crawler.py`

    def is_too_far_behind(self) -> bool:
        """Always False: no crawl waits for a receiver."""
        return False

    def run_may_end(self) -> bool:
        """Whether the run may end: all is delivered, or cannot be in the remaining time."""
        now = self._clock.now()
        if self._deadline is None:
            self._deadline = now + self._patience
            for sender in self._senders:
                sender.send_everything_now()
        deadline = self._deadline
        told = not self._reading and all(
            self._can_stop_waiting_for_sender(sender, deadline) for sender in self._senders
        )
        return told or now >= deadline

    def waits_for_checkpoint(self) -> bool:
        """Whether a list or a mail waits for a checkpoint that holds its end."""
        return any(sender.needs_checkpoint() for sender in self._senders)

    def _can_stop_waiting_for_sender(self, sender: ChannelSender, deadline: float) -> bool:
        task = self._tasks.get(sender.name)
        return task is None or task.done() or sender.is_done_or_idle_until(deadline)

    # -- for the summary

    async def undelivered_counts(self) -> dict[str, int]:
        """Number of undelivered changes of each channel that has any."""
        return await asyncio.get_running_loop().run_in_executor(DaemonExecutor(), self._count_undelivered)

    def _count_undelivered(self) -> dict[str, int]:
        states = {sender.name: sender.cursor_for_checkpoint for sender in self._senders}
        counts = {name: self._source.count_waiting(states[name], self._end, self._baseline) for name in states}
        return {name: count for name, count in counts.items() if count}


def _log_error(task: asyncio.Task[None]) -> None:
    """Log an error that ended a sender. The crawl continues; the next run sends the rest.

    A damaged file is not a bug: it is logged without traceback.
    """
    if not task.cancelled() and (mistake := task.exception()) is not None:
        ours = None if isinstance(mistake, FieldmouseError) else mistake
        log.error("no more notifications in this run: %s", mistake, exc_info=ours)
