"""An agent of a network, put together: a frontier that leases its hosts, and who goes to the board for it."""

from __future__ import annotations

import asyncio
import logging
import math
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from fieldmouse.agent.forgiveness import Mercy
from fieldmouse.agent.fuse import Fuse
from fieldmouse.agent.leasing import LeasedErrands, LeasedFetcher
from fieldmouse.agent.luggage import HostLuggage
from fieldmouse.agent.settledkinds import SettledKinds, forgiven_keys
from fieldmouse.agent.stopping import Stopping
from fieldmouse.agent.wholelimits import WholeLimits
from fieldmouse.aside import call_off
from fieldmouse.balancer.adverts import Advert, UnreadableAdverts, anybody_refreshes, share_of, table_of
from fieldmouse.balancer.allowance import PageAllowance
from fieldmouse.balancer.board.contract import Board, Name, Pulse, SiteBounds
from fieldmouse.balancer.choice import Chooser
from fieldmouse.balancer.colleagues import Colleagues
from fieldmouse.balancer.identity import last_start, next_start, own_from
from fieldmouse.balancer.lease import LeaseClock, boottime
from fieldmouse.balancer.mailbox import Mailbox
from fieldmouse.balancer.messenger import Messenger
from fieldmouse.balancer.neighbours import Neighbours
from fieldmouse.balancer.sharedscope import SharedScope
from fieldmouse.balancer.tellings import DoneUrl, Tellings
from fieldmouse.balancer.terms import Terms
from fieldmouse.clock import Clock
from fieldmouse.crawldir import Checkpoint, CrawlDir, CrawlTally, DurableLog, Log, Part
from fieldmouse.frontier.leased import LeasedFrontier
from fieldmouse.frontier.moment import sealed_frontier
from fieldmouse.frontier.parts import open_parts
from fieldmouse.meter import Meter
from fieldmouse.outcome import StoppedBy
from fieldmouse.policy.balance import balancer
from fieldmouse.policy.front import FrontRule
from fieldmouse.policy.politeness import Politeness
from fieldmouse.policy.sitelimits import SiteLimits
from fieldmouse.records import Errand, Link
from fieldmouse.robots.bell import Bell
from fieldmouse.robots.exclusions import Exclusions
from fieldmouse.robots.robot import Report
from fieldmouse.settings import Settings
from fieldmouse.settings.rules import site_limits_of
from fieldmouse.summary import WholeCrawl
from fieldmouse.url import key_of
from fieldmouse.web.fetcher import Fetcher

log = logging.getLogger(__name__)

_LOOK_EVERY = 0.1  # seconds
_FOR_ALL = (StoppedBy.TIME, StoppedBy.PAGES)


@dataclass(frozen=True, slots=True)
class Joining:
    """Which crawl is joined, and on which board."""

    board: Board
    crawl: str
    now: Callable[[], float] = boottime  # a clock that counts sleep


class NetworkStage:
    """All that an agent of a network has and a crawl of its own has not."""

    def __init__(
        self, joining: Joining, home: CrawlDir, settings: Settings, last: Checkpoint | None, *, clock: Clock,
        politeness: Politeness, exclusions: Exclusions, tally: CrawlTally, meter: Meter, bell: Bell,
        fuse: Fuse, stopping: Stopping,
    ):  # fmt: skip
        self._home, self._settings, self._crawl = home, settings, joining.crawl
        self._clock, self._politeness = clock, politeness
        self._tally, self._meter, self._stopping = tally, meter, stopping
        seed = home.identity.key_seed
        limits = site_limits_of(settings)
        self._tellings = Tellings(home / "board", last, joining.now)
        self._unbooked = DurableLog("unbooked", home / "unbooked.log", last)
        self._lease = LeaseClock(settings.cluster.lease, joining.now)
        rng = np.random.default_rng()
        self._chooser = Chooser(balancer.lookup(settings.cluster.policy)(rng))
        self.colleagues = Colleagues(clock, rng, socket.gethostname())
        self._settled_kinds = SettledKinds(home)
        luggage = HostLuggage(self._chooser, exclusions, politeness, clock)
        self._mailbox = Mailbox(
            tellings=self._tellings, lease=self._lease, chooser=self._chooser, clock=clock, pack=luggage.pack,
            delay=politeness.host_delay, key_of=lambda url: key_of(url, seed),
            kinds_of=self._settled_kinds,
        )  # fmt: skip
        state = sealed_frontier(last) if last else None
        self.frontier = LeasedFrontier(
            open_parts(
                home / "frontier", state, key_seed=seed, now=clock.now(),
                resumed_delay=politeness.host_delay, run_size=settings.frontier.sieve_run,
                limits=SiteLimits(),
            ),
            landlord=self._mailbox, clock=clock,
            rule=FrontRule(settings.frontier.front_min, settings.frontier.front_max), key_seed=seed,
            errand_links=settings.fetch.urls_per_visit, state=state, share=settings.refresh.share,
            forgiven=forgiven_keys(home, last), turn=self._turn, rests=self._rests,
        )  # fmt: skip
        self.allowance = PageAllowance(
            settings.crawl.pages, tellings=self._tellings, clock=clock, every=settings.cluster.heartbeat,
            hosts=lambda: self.frontier.holds if meter.allowed else 0, on_hunger=self._mailbox.post,
        )  # fmt: skip
        self._fetcher: LeasedFetcher | None = None
        self._messenger = Messenger(
            joining.board,
            terms=Terms(
                seed, settings.cluster.lease, settings.cluster.heartbeat, settings.cluster.keep_acked,
                SiteBounds(limits.hosts, limits.urls),
            ),
            mailbox=self._mailbox, tellings=self._tellings, lease=self._lease, tenant=self.frontier,
            allowance=self.allowance, clock=clock, rejoin=self._rejoin, advert=self._advert,
            unpack=luggage.unpack, place_new=self._chooser.place_new, on_pulse=self._on_pulse,
            on_trouble=fuse.blow, on_unbooked=self._on_unbooked, on_refused=self._on_refused, nudge=bell.ring,
        )  # fmt: skip
        self._board, self._neighbours, self._unreadable = joining.board, Neighbours(), UnreadableAdverts()
        self.limits = WholeLimits(
            settings.crawl.pages, settings.crawl.time, clock, endless=settings.refresh.on
        )
        self._agents = self._again = 0
        self._priced_at, self._backlog, self._price = -math.inf, 0.0, 0.0
        self._me, self._share, self._heard = "", 1.0, False
        self._wanted_elsewhere = False  # an agent polls known pages, perhaps of hosts that we hold
        self._idle_at = 0.0  # when nothing waited in the whole crawl, as far as we heard

    @property
    def scope(self) -> SharedScope:
        """What joined the scope with any agent."""
        return self._mailbox.scope

    @property
    def parts(self) -> Sequence[Part]:
        """What is durable with the crawl; sealed after the frontier, which says what is settled."""
        return (self._tellings, self._unbooked)

    def may_ask(self) -> bool:
        """Looked at again when a connection has come: who was stopped meanwhile must not ask any more."""
        return self._lease.valid

    def leased(self, fetcher: Fetcher) -> LeasedFetcher:
        self._fetcher = LeasedFetcher(
            fetcher, lease=self._lease, mailbox=self._mailbox, chooser=self._chooser, clock=self._clock,
            politeness=self._politeness,
        )  # fmt: skip
        return self._fetcher

    def errands(self, run: Callable[[Errand], Awaitable[Report]], fetcher: LeasedFetcher) -> LeasedErrands:
        return LeasedErrands(
            run, fetcher=fetcher, mailbox=self._mailbox, chooser=self._chooser, clock=self._clock,
            epoch_of=self.frontier.epoch_of, politeness=self._politeness, colleagues=self.colleagues,
        )  # fmt: skip

    # -- a life

    def forgive(self, mercy: Mercy, outcomes: Log, now: float) -> None:
        """Take our failures back: part of the first checkpoint, and told to the board behind it."""
        mercy.send_out(
            self._take_back, outcomes, self._unbooked, self._tally, now, own_from=own_from(self._home.path)
        )

    def _take_back(self, links: Sequence[tuple[Link, str]]) -> None:
        self._mailbox.take_back(links)
        self.frontier.take_back([key_of(link.url, self._home.identity.key_seed) for link, _ in links])

    async def begin(self) -> None:
        """Join the others, however long the board is away; not if we are told to stop meanwhile."""
        joining = asyncio.create_task(self._messenger.begin(last_start(self._home.path)))
        try:
            while not joining.done() and not self._stopping.asked:
                await asyncio.wait({joining}, timeout=_LOOK_EVERY)
        finally:
            await call_off([joining])
        if joining.done() and not joining.cancelled():
            joining.result()

    async def end(self) -> bool:
        why = self._stopping.reason
        return await self._messenger.end(why.value if why in _FOR_ALL else "")

    async def close(self) -> None:
        await self._messenger.close()
        await self._board.close()

    def _rejoin(self) -> Name:
        name = next_start(self._home.path, self._crawl)
        self._tellings.call(name.agent, name.incarnation)
        self._chooser.call(name.agent)
        self._me = name.agent
        return name

    def settled_since(self, found_at: float) -> bool:
        """Whether what was found then has an outcome, with whomever: later nothing waited anywhere."""
        return self._idle_at >= found_at + 3 * self._settings.cluster.heartbeat

    def share(self) -> float:
        return self._share  # of the crawl's budget of polls: that of the pages that we have

    def _turn(self) -> float:
        """Seconds that a host stays with us when others may have known pages of it, as some say they do."""
        polled = self._settings.refresh.on or self._wanted_elsewhere
        return self._settings.cluster.lease if polled else math.inf

    def _rests(self) -> bool:
        """Whether our network is gone, and others may reach what we cannot."""
        return self._meter.cut_off and self.colleagues.present

    @property
    def whole(self) -> WholeCrawl:
        books = self._mailbox.books
        return WholeCrawl(
            self._agents, books.kinds.get("page", 0), books.seen, books.settled, books.waiting, self._again
        )

    # -- what others hear of us, and we of them

    def _advert(self) -> bytes:
        robots = max(1, self._meter.allowed)
        # Hosts that robots without an errand are about to take wait for nobody.
        now = self._clock.now()
        if now >= self._priced_at + 0.5 * self._settings.cluster.heartbeat:  # who is idle is heard more often
            due = self.frontier.ready_hosts(now) - max(0, robots - self._meter.out)
            self._priced_at = now
            self._backlog = self._chooser.backlog(due, robots, self._meter.behind)
            self._price = self._chooser.price()
        return msgspec.msgpack.encode(
            Advert(
                self._backlog,
                self._chooser.speed,
                self._price,
                pages=self._tally.pages,
                robots=self._meter.out,
                machine=socket.gethostname(),
                directory=str(self._home.path.absolute()),
                polls=self._tally.polled.polls,
                refreshes=self._settings.refresh.on,
                resting=self._meter.cut_off,
                load=round(self._meter.load, 3),
            )
        )

    def _on_pulse(self, pulse: Pulse) -> str | None:
        """Returns which limit ends the crawl, if that is news; "" if it goes on after all."""
        first, self._heard = not self._heard, True
        self._unreadable.meet(pulse.agents)
        notes = self._neighbours.hear(pulse)
        self._chooser.meet(table_of(notes), {note.agent for note in pulse.agents})
        self.colleagues.meet(self._me, notes)
        if self._rests():
            self.frontier.let_idle_go()
        self._agents = pulse.alive
        self._share = share_of(notes, self._me, pulse.alive)
        self._wanted_elsewhere = anybody_refreshes(notes)
        if pulse.books.begun and not pulse.books.waiting and not len(self._tellings):
            self._idle_at = self._clock.now()
        if self._fetcher is not None:
            self._fetcher.extend()
        if pulse.draining:
            self._stopping.ask(StoppedBy.DRAINED)
        reached = self.limits.reached(pulse.books)
        if not reached:  # others may have lower limits, or older ones: those stop them alone
            return "" if pulse.over else None
        self._stopping.ask(reached)
        return None if first or pulse.over else reached.value  # who comes too late tells nobody

    def _on_unbooked(self, urls: Sequence[DoneUrl]) -> None:
        """Others have them, too, or will: our copies stay, and are marked."""
        self._again += len(urls)
        for url in urls:
            self._unbooked.append(msgspec.msgpack.encode((url.url, self._clock.now())))
            self._settled_kinds.note(url.key, url.kind)

    def _on_refused(self, address: str) -> None:
        """The board forgot that it is ours, and may give it to others: we leave at once."""
        if self._fetcher is not None:
            self._fetcher.hang_up(address)
