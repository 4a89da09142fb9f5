"""What is told, whatever is killed when: couriers in virtual time, with a receiver that remembers.

A life is a run of the crawl: rows are written, sealed and committed, time goes by, the receiver fails
for a while. At any moment the life may end as by a kill: the log is cut back to the last checkpoint that was
committed, and the next life begins at what that one holds. Pages that were lost to a kill are polled again,
at another time: what was told of them too early would be something that never was.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldmouse.clock import Clock
from fieldmouse.config.notify_section import NotifySection
from fieldmouse.crawler.crawler import wait_for_consumer
from fieldmouse.errors import DamagedFile
from fieldmouse.notify.channel_interface import BatchingRules, ChangeBatch, Channel, FailedDelivery
from fieldmouse.notify.dispatcher import MAX_RETRY_DELAY, PART, Notifier
from fieldmouse.storage.changes_from_outcomes import REFRESH_PART, Change, NewPageBaseline, changes_in
from fieldmouse.storage.checkpoint import Checkpoint, make_part_state
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.log import Log, write_atomically
from fieldmouse.testing import virtual_time
from fieldmouse.types.outcome import ContentChange, OutcomeRow
from fieldmouse.types.reason import OutcomeKind
from fieldmouse.url import Url

BASELINE = 10.0
DAY = 86_400.0


def row(number: int, life: int, telling: bool) -> OutcomeRow:
    """A row of which there is something to tell, or nothing."""
    return OutcomeRow(
        Url(f"http://a.example/{number}"),
        OutcomeKind.PAGE,
        at=BASELINE + number + life / 1000,
        polled="page",
        news=ContentChange.CHANGED if telling else ContentChange.SAME,
        title=f"page {number}",
        difference=0.5,
    )


class Receiver:
    """A channel's other end, which outlives all lives."""

    def __init__(self) -> None:
        self.failing = self.hanging = False
        self.notices: list[tuple[float, str, tuple[str, ...]]] = []

    def take(self, now: float, notice: ChangeBatch) -> None:
        self.notices.append((now, notice.key, tuple(change.id for change in notice.changes)))

    @property
    def seen(self) -> list[str]:
        """Changes, to somebody who drops every notice whose key he knows."""
        keys: set[str] = set()
        seen: list[str] = []
        for _, key, ids in self.notices:
            if key not in keys:
                keys.add(key)
                seen += ids
        return seen


class Line(Channel):
    """The channel of one life."""

    def __init__(self, name: str, receiver: Receiver, manner: BatchingRules, clock: Clock):
        self.name, self.mode, self._receiver, self._clock = name, manner, receiver, clock

    async def send(self, notice: ChangeBatch) -> FailedDelivery | None:
        await self._clock.sleep(DAY if self._receiver.hanging else 0.05)
        if self._receiver.failing:
            return FailedDelivery("it is down")
        self._receiver.take(self._clock.now(), notice)
        # The response takes time, too: a kill now leaves open whether the notice arrived.
        await self._clock.sleep(0.05)
        return None


class Crawl:
    """What is left of a crawl between two lives, and one life of it."""

    def __init__(self, path: Path, receivers: dict[str, tuple[Receiver, BatchingRules]], patience: float = 10.0):
        self.home = CrawlDir.create(path, shards=1, settings=b"")
        self.receivers, self.patience = receivers, patience
        write_atomically(self.home / "outcomes.log", b"")
        self.kept = self._checkpoint(0, {})
        self.sealed: Checkpoint | None = None
        self.rows: list[OutcomeRow] = []
        self.durable: list[OutcomeRow] = []
        self.lives = 0

    def _checkpoint(self, length: int, states: object) -> Checkpoint:
        parts = {
            "outcomes": make_part_state(length, {}),
            PART: make_part_state(states, {}),
            REFRESH_PART: make_part_state(NewPageBaseline(BASELINE), {}),
        }
        return Checkpoint(0.0, parts)

    def open(self, clock: Clock) -> None:
        length = self.kept.decode_part("outcomes", int)
        self.rows = list(self.durable)
        self.lives += 1
        self.log = Log(self.home / "outcomes.log", length)
        self.log.roll_back_to_checkpoint()
        lines = [Line(name, *given, clock) for name, given in self.receivers.items()]
        self.notifier = Notifier(self.home, self.kept, NotifySection(patience=self.patience), lines, clock)
        self.notifier.roll_back_to_checkpoint()

    def write(self, telling: Iterable[bool]) -> None:
        for is_telling in telling:
            new = row(len(self.rows), self.lives, is_telling)
            self.rows.append(new)
            self.log.append(msgspec.msgpack.encode(new))

    def seal(self) -> None:
        self.log.flush()
        self.sealed = self._checkpoint(self.log.length, self.notifier.seal().state)
        self._sealed_rows = list(self.rows)

    def commit(self) -> None:
        if self.sealed is not None:
            self.kept, self.sealed, self.durable = self.sealed, None, self._sealed_rows
            self.notifier.on_checkpoint_committed()

    def end(self) -> None:
        """As a kill: what was not committed is gone."""
        self.sealed = None
        self.log.close()
        self.notifier.close()
        os.truncate(self.home / "outcomes.log", self.kept.decode_part("outcomes", int))

    def told(self) -> list[Change]:
        return [change for one in self.durable for change in changes_in(one, 0, NewPageBaseline(BASELINE))]

    async def see_off(self, clock: Clock, every: float = 5.0) -> None:
        """As the end of a run does, with checkpoints as often as that."""

        async def checkpoint() -> None:
            self.seal()
            self.commit()

        await wait_for_consumer(self.notifier, checkpoint, clock, every=every)
        await checkpoint()


MANNERS = {
    "each": BatchingRules(),
    "lists": BatchingRules(max_changes=3),
    "letters": BatchingRules(max_changes=5, min_interval=100.0),
    "file": BatchingRules(max_changes=4, repeatable=False),
}

steps = st.one_of(
    st.tuples(st.just("write"), st.lists(st.booleans(), min_size=1, max_size=6)),
    st.tuples(st.just("checkpoint"), st.none()),
    st.tuples(st.sampled_from(["seal", "commit"]), st.none()),
    st.tuples(st.just("sleep"), st.sampled_from([0.0, 0.05, 0.07, 0.3, 5.0, 130.0])),
    st.tuples(st.just("kill"), st.none()),
    st.tuples(st.just("kill in a checkpoint"), st.sampled_from([0.07, 0.3])),
    st.tuples(st.sampled_from(["down", "up", "hang"]), st.none()),
)


@given(st.lists(steps, min_size=20, max_size=40), st.sampled_from(sorted(MANNERS)))
@settings(max_examples=100, deadline=None)
def test_a_receiver_that_drops_known_keys_sees_each_change_once_and_in_order(
    life: list[tuple[str, object]], manner: str
) -> None:
    receiver = Receiver()

    async def killed(clock: Clock) -> None:
        crawl.end()
        await asyncio.sleep(0)
        crawl.open(clock)

    async def play(clock: Clock) -> None:
        crawl.open(clock)
        for step, what in life:
            match step, what:
                case "write", list():
                    crawl.write(what)
                case "checkpoint", _:
                    crawl.seal()
                    crawl.commit()
                case "seal", _:
                    crawl.seal()
                case "sleep", float():
                    await clock.sleep(what)
                case "commit", _:
                    crawl.commit()
                case "kill", _:
                    await killed(clock)
                case "kill in a checkpoint", float():
                    crawl.write([True])
                    crawl.seal()
                    await clock.sleep(what)
                    await killed(clock)
                case fault, _:
                    receiver.failing, receiver.hanging = fault == "down", fault == "hang"
        crawl.end()
        receiver.failing = receiver.hanging = False
        # Long enough for any rest or digest: then nothing is left to be told.
        crawl.open(clock)
        crawl.write([True])
        crawl.seal()
        crawl.commit()
        for _ in range(12):
            await clock.sleep(MAX_RETRY_DELAY)
            crawl.seal()
            crawl.commit()
        crawl.end()

    with TemporaryDirectory() as directory:
        crawl = Crawl(Path(directory) / "c", {manner: (receiver, MANNERS[manner])})
        virtual_time.run_in_virtual_time(play)
        wanted = [change.id for change in crawl.told()]
        if MANNERS[manner].repeatable:
            assert receiver.seen == wanted
        else:
            assert list(dict.fromkeys(receiver.seen)) == wanted


def test_a_channel_that_is_down_holds_up_no_other_and_gets_all_of_it_later(tmp_path: Path) -> None:
    dead, alive = Receiver(), Receiver()
    dead.failing = True

    async def play(clock: Clock) -> tuple[int, float]:
        crawl.open(clock)
        crawl.write([True] * 10)
        crawl.seal()
        crawl.commit()
        await clock.sleep(5.0)
        after_five = len(alive.seen)
        began = clock.now()
        await crawl.see_off(clock)
        waited = clock.now() - began
        assert await crawl.notifier.undelivered_counts() == {"dead": 10}
        crawl.end()
        return after_five, waited

    crawl = Crawl(tmp_path / "c", {"dead": (dead, BatchingRules()), "alive": (alive, BatchingRules())}, patience=7.0)
    after_five, waited = virtual_time.run_in_virtual_time(play)
    assert after_five == 10
    assert dead.seen == []
    assert waited <= 7.2, "the end of a run waits, but not for ever"

    async def again(clock: Clock) -> dict[str, int]:
        dead.failing = False
        crawl.open(clock)
        await crawl.see_off(clock)
        crawl.end()
        return await crawl.notifier.undelivered_counts()

    assert virtual_time.run_in_virtual_time(again) == {}
    assert dead.seen == alive.seen == [change.id for change in crawl.told()]
    assert len(alive.notices) == 10, "nobody is told twice without a kill"


def test_a_receiver_that_is_down_is_asked_more_and_more_rarely(tmp_path: Path) -> None:
    receiver, asked = Receiver(), list[float]()
    receiver.failing = True

    class Counting(Line):
        async def send(self, notice: ChangeBatch) -> FailedDelivery | None:
            asked.append(self._clock.now())
            return await super().send(notice)

    async def play(clock: Clock) -> None:
        line = Counting("line", receiver, BatchingRules(), clock)
        notifier = Notifier(crawl.home, crawl.kept, NotifySection(), [line], clock)
        crawl.open(clock)
        crawl.write([True])
        crawl.log.flush()
        notifier.seal()
        notifier.on_checkpoint_committed()
        for _ in range(720):  # checkpoints go on meanwhile, and do not wake it
            await clock.sleep(5.0)
            notifier.seal()
            notifier.on_checkpoint_committed()
        notifier.close()
        crawl.end()

    crawl = Crawl(tmp_path / "c", {})
    virtual_time.run_in_virtual_time(play)
    gaps = [round(after - before) for before, after in pairwise(asked)]
    assert gaps[:8] == [1, 2, 4, 8, 16, 32, 64, 128]
    assert set(gaps[9:]) == {300}


def test_one_mail_collects_the_changes_of_its_interval(tmp_path: Path) -> None:
    receiver = Receiver()

    async def play(clock: Clock) -> None:
        crawl.open(clock)
        for _ in range(60):
            crawl.write([True])
            crawl.seal()
            crawl.commit()
            await clock.sleep(10.0)
        await crawl.see_off(clock)
        crawl.end()

    crawl = Crawl(tmp_path / "c", {"mail": (receiver, BatchingRules(max_changes=1000, min_interval=120.0))})
    virtual_time.run_in_virtual_time(play)
    times = [at for at, _, _ in receiver.notices]
    assert all(after - before >= 120.0 for before, after in pairwise(times))
    assert times[0] - virtual_time.EPOCH >= 120.0, "the first one gathers, too"
    assert 4 <= len(times) <= 5
    left = len(crawl.told()) - len(receiver.seen)
    assert 0 <= left < 13, "what came in the last two minutes may wait for the next run"


def test_end_of_a_run_sends_the_collected_changes(tmp_path: Path) -> None:
    receiver = Receiver()

    async def play(clock: Clock) -> float:
        crawl.open(clock)
        crawl.write([True, False, True])
        await crawl.see_off(clock, every=600.0)
        crawl.end()
        return clock.now() - virtual_time.EPOCH

    crawl = Crawl(tmp_path / "c", {"mail": (receiver, BatchingRules(max_changes=1000, min_interval=3600.0))})
    assert virtual_time.run_in_virtual_time(play) < 2.0, "the checkpoint that it waits for comes soon"
    assert len(receiver.notices) == 1
    assert receiver.seen == [change.id for change in crawl.told()]


def test_new_channel_gets_no_older_changes_and_continues_after_a_pause(tmp_path: Path) -> None:
    first, second = Receiver(), Receiver()

    async def run(clock: Clock) -> None:
        crawl.open(clock)
        crawl.write([True])
        await crawl.see_off(clock)
        crawl.end()

    crawl = Crawl(tmp_path / "c", {"first": (first, BatchingRules())})
    virtual_time.run_in_virtual_time(run)
    crawl.receivers = {"second": (second, BatchingRules())}
    virtual_time.run_in_virtual_time(run)
    crawl.receivers = {"first": (first, BatchingRules()), "second": (second, BatchingRules())}
    virtual_time.run_in_virtual_time(run)
    told = [change.id for change in crawl.told()]
    assert len(told) == 3
    assert second.seen == told[1:], "it was not there before"
    assert first.seen == told, "it was away for a run, and has heard of all since"


@pytest.mark.parametrize(
    ("mistake", "ours"), [(RuntimeError("a mistake of ours"), True), (DamagedFile(Path("log"), "a byte"), False)]
)
def test_a_mistake_in_one_channel_ends_neither_the_crawl_nor_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mistake: Exception, ours: bool
) -> None:
    good = Receiver()

    class Broken(Line):
        async def send(self, notice: ChangeBatch) -> FailedDelivery | None:
            raise mistake

    async def play(clock: Clock) -> float:
        crawl.open(clock)
        lines = [Broken("bad", good, BatchingRules(), clock), Line("good", good, BatchingRules(), clock)]
        crawl.notifier = Notifier(crawl.home, crawl.kept, NotifySection(), lines, clock)
        crawl.write([True, True])
        began = clock.now()
        await crawl.see_off(clock)
        assert await crawl.notifier.undelivered_counts() == {"bad": 2}
        crawl.end()
        return clock.now() - began

    crawl = Crawl(tmp_path / "c", {})
    assert virtual_time.run_in_virtual_time(play) < 2.0
    assert good.seen == [change.id for change in crawl.told()]
    (said,) = [record for record in caplog.records if "no more notifications" in record.message]
    assert str(mistake) in said.message
    assert (said.exc_info is not None) == ours, "where it was is of use to us, and to nobody else"
