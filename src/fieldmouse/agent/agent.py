"""The wiring: which stage hands what to which, and when it all becomes durable.

    frontier --errand--> fleet/robot --outcome--> buffer --> indexer --links--> frontier

The agent owns no policy and no format. It keeps three promises: a ticket is
done only after its outcome is in a checkpoint; a checkpoint is journaled only
after everything it names has been synced; and whoever dies, tickets that are
not done go out again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

import msgspec

from fieldmouse.agent.aside import Aside
from fieldmouse.agent.audience import Audience, see_off
from fieldmouse.agent.desk import Desk
from fieldmouse.agent.forgiveness import Mercy
from fieldmouse.agent.fuse import Fuse
from fieldmouse.agent.governor import Governor
from fieldmouse.agent.intake import Intake
from fieldmouse.agent.limits import Limits
from fieldmouse.agent.vitals import sum_up, take_reading
from fieldmouse.clock import Clock
from fieldmouse.crawldir import CrawlDir, Diary, DurableLog, Parts
from fieldmouse.errors import StorageError
from fieldmouse.frontier.frontier import Frontier
from fieldmouse.indexer.indexer import Indexer
from fieldmouse.indexer.process import peak_rss
from fieldmouse.policy.scope import Scope
from fieldmouse.policy.thresholds import Thresholds
from fieldmouse.records import (
    Errand,
    Failed,
    Kind,
    Link,
    Outcome,
    Page,
    Parsed,
    Reading,
    Reason,
    Refused,
    Response,
    Summary,
    Ticket,
)
from fieldmouse.robots.fleet import Fleet
from fieldmouse.robots.robot import Report, Robot
from fieldmouse.url import Host, Url, resolve

log = logging.getLogger(__name__)

TICK = 0.1
GRACE = 5.0


class Agent:
    """One crawl on one machine, from open directory to summary."""

    def __init__(
        self, *, home: CrawlDir, frontier: Frontier, desk: Desk, outcomes: DurableLog, readings: Diary,
        clock: Clock, scope: Scope, limits: Limits, sitemaps: bool, on_reading: Callable[[Reading], None],
        audience: Audience | None = None,
    ):  # fmt: skip
        self._home, self._frontier, self._readings, self._outcomes = home, frontier, readings, outcomes
        self._clock, self._scope, self._audience = clock, scope, audience
        self._limits, self._sitemaps, self._on_reading, self._audience = (
            limits,
            sitemaps,
            on_reading,
            audience,
        )
        self.desk = desk
        self._fuse = Fuse(home.path)
        self._stop_reason, self._crawled = "", False  # why it ends, and that nothing is left to fetch
        self._stopping = asyncio.Event()
        self._pages_before, self._seconds_before = desk.tally.pages, desk.tally.seconds
        self.parts: Parts
        self.indexer: Indexer
        self.intake: Intake
        self.fleet: Fleet
        self.governor: Governor | None = None

    # -- the outlet robots deliver to

    async def deliver(self, ticket: Ticket, outcome: Outcome) -> None:
        if isinstance(outcome, Refused) or (isinstance(outcome, Failed) and outcome.response is None):
            self.desk.note_verdict(ticket.number, outcome)
            return
        self.desk.handed_over(ticket.number, ticket.link)
        if not await self.intake.put(ticket.number, outcome):
            self.fetch_again(ticket.number)

    def fetch_again(self, number: int) -> None:
        """The page found no room, or waited too long: the fetch was wasted, the URL is not lost."""
        link = self.desk.taken_back(number)
        with self._fuse:
            self._frontier.again(number, link)

    async def keep(self, link: Link, response: Response) -> None:
        await self.intake.put(0, Page(link, response))

    def retry(self, ticket: Ticket, link: Link) -> None:
        self.desk.landed(ticket.number)
        with self._fuse:
            self._frontier.again(ticket.number, link)

    def sitemaps(self, host: Host, found: Sequence[str]) -> None:
        if not self._sitemaps:
            return
        base, now = Url(host + "/robots.txt"), self._clock.now()
        urls = (resolve(text.strip(), base) for text in found)
        wanted = (url for url in urls if url is not None and self._scope.admits(url, 1))
        with self._fuse:
            self._frontier.discover([Link(url, via=base, kind=Kind.SITEMAP, seen_at=now) for url in wanted])

    def may_ask(self, ticket: Ticket) -> bool:
        return not self._stopping.is_set() and self.fleet.may_go_on() and self.desk.may_ask(ticket.number)

    # -- between the stages

    def take(self) -> Errand | None:
        if self._stopping.is_set() or self.desk.sated:
            return None
        with self._fuse:
            return self._frontier.take(self._clock.now())
        self._stopping.set()
        return None

    def give_back(self, errand: Errand, report: Report) -> None:
        state, unused = self.desk.heard_from(errand, report)
        with self._fuse:
            self._frontier.give_back(errand, state, unused)
        self.fleet.nudge()

    def obey(self, rule: Thresholds) -> None:
        """From now on the fleet follows this rule."""
        self.fleet.rule = rule
        self.intake.trace.look()
        self.fleet.nudge()

    async def run_errand(self, robot: Robot, errand: Errand) -> Report:
        self.desk.leased(errand.tickets)
        try:
            return await robot.run(errand)
        except StorageError as trouble:
            self._fuse.blow(trouble)
            return errand.state, ()
        except Exception as mistake:
            # Our own mistake must not stop a crawl of many hosts: say which page, answer for it, go on.
            now = self._clock.now()
            blamed, others = self.desk.in_hand(errand.tickets)
            for ticket in blamed:
                log.exception("stumbled over %s", ticket.link.url)
                detail = f"{type(mistake).__name__}: {mistake}"
                self.desk.note_verdict(ticket.number, Failed(ticket.link, Reason.CRASHED, now, detail))
            return msgspec.structs.replace(errand.state, ready_at=now + 1.0), others
        finally:
            self.desk.returned(errand.tickets)

    def on_parsed(self, parsed: Sequence[Parsed]) -> None:
        with self._fuse:
            self.intake.answered(parsed)
            found = self.desk.note_parsed(parsed)
            if found:
                self._frontier.discover(found)
            self.intake.pump()
        self.fleet.nudge()

    def on_lost(self, numbers: Sequence[int]) -> None:
        with self._fuse:
            self.intake.vanished(numbers)
            lost = self.desk.note_lost(numbers)
            for number, link in lost:
                self._frontier.again(number, link)
            if lost and self.indexer.trouble is None:
                log.warning("an indexer worker died; %d pages are fetched again", len(lost))
            self.intake.pump()
        self.fleet.nudge()

    # -- durability

    async def checkpoint(self, *, clean: bool = False) -> None:
        """Make everything known by now durable, as of one moment."""
        self._check()
        shards = await self.indexer.prepare()
        self._fuse.check()
        self._readings.flush()
        self.intake.trace.flush()
        # From here to the end of `seal` nothing else runs: this is the moment.
        numbers, rows = self.desk.settle([state.batch for state in shards])
        for row in rows:
            self._outcomes.append(row)
        self._frontier.done(numbers)
        self.desk.tally.seconds = self._seconds_before + self._elapsed()
        moment = self.parts.seal(self._clock.now(), clean=clean, stopped_by=self._stop_reason)
        # Nobody who has to leave at once waits for such a thread.
        await asyncio.get_running_loop().run_in_executor(Aside(), self.parts.commit, moment)
        self.parts.committed()

    # -- a life

    def _check(self) -> None:
        """Has anything failed without which the crawl cannot go on? Then it ends here, as after a kill."""
        self._fuse.check()
        if self.indexer.trouble is not None:
            raise self.indexer.trouble

    def stop(self, reason: str) -> None:
        if not self._stop_reason:
            self._stop_reason = reason
        self._stopping.set()
        self.fleet.nudge()

    def interrupt(self) -> str:
        """Stop because somebody asked for it; says what there is left to do."""
        if not self._crawled:
            self.stop("signal")
        pages = self.fleet.busy + self.intake.level
        return f"finishing {pages} pages and writing a checkpoint" if pages else "writing a checkpoint"

    async def crawl(self, seeds: Sequence[Url], *, mercy: Mercy | None = None) -> Summary:
        self._started = self._clock.now()
        await self.indexer.start()
        if mercy is not None:
            mercy.pardon(self._frontier)
        self._readings.begin()
        self.parts.begin()
        await self.indexer.begin()
        self.intake.trace.begin()
        if self.governor is not None:
            self.governor.begin()
        self._frontier.discover([Link(url, kind=Kind.SEED, seen_at=self._started) for url in seeds])
        if mercy is not None:
            mercy.readmit(self._frontier, self._outcomes, self.desk.tally, self._started)
        await self.checkpoint()
        self.fleet.nudge()
        await self._watch()
        self._check()
        if self.governor is not None:
            self.governor.end()
        await self.fleet.stop(GRACE)
        await self._drain()
        self._crawled = True
        if self._audience is not None:
            await see_off(self._audience, self.checkpoint, self._clock, every=self._limits.checkpoint)
        await self.checkpoint(clean=True)
        await self.indexer.finish()
        self._read()
        return sum_up(
            self.desk, self._frontier, seconds=self._elapsed(), pages_before=self._pages_before,
            peak_rss=peak_rss() + self.indexer.peak_rss, stopped_by=self._stop_reason,
        )  # fmt: skip

    async def _watch(self) -> None:
        """Look after the crawl until it is done or told to stop."""
        read_at = sealed_at = self._clock.now()
        while not self._stopping.is_set():
            await self._clock.sleep(TICK)
            self._check()
            now = self._clock.now()
            limit = self._limits.reached(
                pages=self.desk.full, seconds=now - self._started, free_bytes=self._home.free_bytes
            )
            if limit:
                self.stop(limit)
            if self.governor is not None:
                self.governor.look()
            if now - read_at >= 1.0:
                read_at = now
                self._read()
            idle = not self.fleet.busy and self.intake.empty and self._frontier.ready_at() is None
            if idle or now - sealed_at >= self._limits.checkpoint:
                await self.checkpoint()
                sealed_at = self._clock.now()
                if idle and not self._frontier.waiting:
                    return
            self.intake.pump()  # a worker that came back to life tells nobody, nor does a page's age
            self.fleet.nudge()

    async def _drain(self) -> None:
        while not self.intake.empty:
            self._check()
            self.intake.pump()
            await self._clock.sleep(0.01)

    def _elapsed(self) -> float:
        return self._clock.now() - self._started

    def _read(self) -> None:
        reading = take_reading(
            self._clock.now(), self.desk, self._frontier, self.intake, robots=self.fleet.busy,
            allowed=self.fleet.allowed,
        )  # fmt: skip
        self._readings.append(msgspec.msgpack.encode(reading))
        self._on_reading(reading)
