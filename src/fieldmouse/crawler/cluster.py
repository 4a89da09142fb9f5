"""Cluster stage of an agent: its leased frontier, its host visits under leases, and its session with the coordinator.

The coordinator may grant URLs that this agent already has an outcome for: outcomes that came too late
because the lease was lost, and those of an agent that was forgotten. The agent then acknowledges its own
copies without fetching. Their kinds are read from the outcome log, each part of it at most once.

Hosts of other agents may have the same address. So an agent sends no request to an address without the
coordinator's grant, neither for a page nor for a robots.txt that another host redirects to. And it sends none
after its lease has expired: requests in flight are aborted then, because other agents may soon get the host.
Times in a host payload are seconds left, because the clocks of machines differ.
"""

from __future__ import annotations

import asyncio
import logging
import math
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from errno import ENETUNREACH

import msgspec
import numpy as np

from fieldmouse.aio import WakeUp, cancel_and_wait
from fieldmouse.backpressure import Backpressure
from fieldmouse.clock import Clock
from fieldmouse.cluster.client.identity import LeaseClock, begin_start, boottime, first_own_outcome, last_start
from fieldmouse.cluster.client.membership import (
    KnownAgents,
    StatusWarnings,
    agent_table,
    any_agent_refreshes,
    page_share,
)
from fieldmouse.cluster.client.outbox import AckedUrl, Outbox
from fieldmouse.cluster.client.page_quota import ClusterPageQuota
from fieldmouse.cluster.client.pending import PendingCalls
from fieldmouse.cluster.client.placement import ClusterOpinion, HostPlacement
from fieldmouse.cluster.client.session import ClusterSession, SessionSettings
from fieldmouse.cluster.client.shared_scope import SharedScope
from fieldmouse.cluster.coordinator import (
    AgentId,
    AgentStatus,
    Coordinator,
    DamagedField,
    HeartbeatReply,
    HostGrant,
    HostPayload,
    SiteBounds,
)
from fieldmouse.cluster.decoding import MOST_ROBOTS_TXT, MOST_STATE, decode_host_payload
from fieldmouse.config.factories import site_limits_of
from fieldmouse.config.settings_file import Settings
from fieldmouse.crawler.retry_failed import RetryFailed
from fieldmouse.crawler.stop_conditions import ClusterLimits, FailureLatch, StopRequest
from fieldmouse.fetch.worker import VisitReport
from fieldmouse.frontier.leased import LeasedFrontier
from fieldmouse.frontier.state import open_parts, sealed_frontier
from fieldmouse.http.client import Fetcher
from fieldmouse.policy import outage
from fieldmouse.policy.balance import balancer
from fieldmouse.policy.front_size import FrontSizeRule
from fieldmouse.policy.outage import blocked_agents
from fieldmouse.policy.politeness import Politeness
from fieldmouse.policy.scope import SiteLimits
from fieldmouse.robotstxt.parser import RobotsTxtCache
from fieldmouse.storage import outcome_log
from fieldmouse.storage.checkpoint import (
    Checkpoint,
    CrawlCounters,
    Durable,
    DurableLog,
    read_checkpoint,
    sealed_outcomes,
)
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.log import Log, records
from fieldmouse.types.host import HostState
from fieldmouse.types.outcome import Failed, OutcomeRow, Response
from fieldmouse.types.reason import OutcomeKind, OutcomeReason, StoppedBy
from fieldmouse.types.request import HostVisit, Request
from fieldmouse.types.stats import ClusterSummary
from fieldmouse.url import Host, key_of

_TRIES = 20  # attempts to get an address that another agent holds


class LeasedFetcher:
    """A fetcher that sends requests only under a valid lease, and records response times."""

    def __init__(
        self,
        fetcher: Fetcher,
        *,
        lease: LeaseClock,
        mailbox: PendingCalls,
        chooser: HostPlacement,
        clock: Clock,
        politeness: Politeness,
    ):
        self._fetcher, self._lease, self._mailbox = fetcher, lease, mailbox
        self._chooser, self._clock, self._politeness = chooser, clock, politeness
        self._granted: Counter[str] = Counter()  # addresses of host visits in progress
        self._limits: dict[asyncio.Timeout, str] = {}  # timeouts of requests in flight, with their addresses

    async def fetch(
        self, link: Request, host: Host, address: str, *, body_limit: int | None = None
    ) -> Response | Failed:
        if self._granted[address]:
            return await self._fetch(link, host, address, body_limit)
        # A host that we do not hold: only its address can be leased.
        for _ in range(_TRIES):
            answer = await self._mailbox.lease_address(address, host, 0, HostState())
            if answer.granted:
                try:
                    return await self._fetch(link, host, address, body_limit)
                finally:
                    self._mailbox.release_address(address, self._clock.now() + self._politeness.delay)
            await self._clock.sleep(max(0.05, answer.retry_seconds))
        return self._own_failure(link, "another agent holds its address")

    async def _fetch(self, link: Request, host: Host, address: str, body_limit: int | None) -> Response | Failed:
        if not self._lease.is_valid:
            return self._own_failure(link, "our lease is over")
        try:
            async with asyncio.timeout(self._lease.seconds_left) as limit:
                self._limits[limit] = address
                answer = await self._fetcher.fetch(link, host, address, body_limit=body_limit)
        except TimeoutError:
            return self._own_failure(link, "our lease is over")
        finally:
            self._limits.pop(limit, None)
        if isinstance(answer, Response):
            self._chooser.record_round_trip(host, answer.answered_at - answer.started_at)
        return answer

    def _own_failure(self, link: Request, why: str) -> Failed:
        """A failure that is not counted against the host."""
        return Failed(link, OutcomeReason.NO_CONNECTION, self._clock.now(), why, errno=ENETUNREACH)

    def extend_requests(self) -> None:
        """Extend requests in flight after the lease was renewed."""
        at = asyncio.get_running_loop().time() + self._lease.seconds_left
        for limit in self._limits:
            # an expired timeout cannot be rescheduled, and its request may not have noticed yet
            if not limit.expired():
                limit.reschedule(at)

    def abort_requests(self, address: str) -> None:
        """Abort requests to an address that is no longer ours."""
        now = asyncio.get_running_loop().time()
        for limit in [limit for limit, where in self._limits.items() if where == address]:
            del self._limits[limit]  # so that `extend_requests` skips it
            if not limit.expired():
                limit.reschedule(now)

    async def close(self) -> None:
        await self._fetcher.close()

    def allow_address(self, address: str) -> None:
        self._granted[address] += 1

    def disallow_address(self, address: str) -> None:
        self._granted[address] -= 1
        if not self._granted[address]:
            del self._granted[address]


class LeasedDispatcher:
    """Runs host visits under leases; the fetch pool calls it instead of the plain dispatcher."""

    def __init__(
        self,
        run: Callable[[HostVisit], Awaitable[VisitReport]],
        *,
        fetcher: LeasedFetcher,
        mailbox: PendingCalls,
        chooser: HostPlacement,
        clock: Clock,
        epoch_of: Callable[[Host], int],
        politeness: Politeness,
        colleagues: ClusterOpinion,
    ):
        self._run, self._fetcher, self._mailbox = run, fetcher, mailbox
        self._chooser, self._clock, self._epoch_of = chooser, clock, epoch_of
        self._politeness, self._colleagues = politeness, colleagues

    async def run_visit(self, errand: HostVisit) -> VisitReport:
        report = await self._run_leased(self._colleagues.begin_visit(errand))
        if report[0].unreached and (heir := self._colleagues.next_agent_to_try(errand.state, report[0])):
            self._chooser.place_at(errand.host, heir)
        return report

    async def _run_leased(self, errand: HostVisit) -> VisitReport:
        address, state, now = errand.address, errand.state, self._clock.now()
        if not address or state.verdict:
            return await self._run(errand)
        answer = await self._mailbox.lease_address(address, errand.host, self._epoch_of(errand.host), state)
        if not answer.granted:
            if answer.holder and answer.holder not in blocked_agents(state.unreached, now):
                self._chooser.place_at(errand.host, answer.holder)
            later = self._clock.now() + max(0.05, answer.retry_seconds)
            return msgspec.structs.replace(state, address_ready_at=later), errand.tickets
        self._chooser.record_queue_time(errand.host, max(0.0, now - max(state.ready_at, state.address_ready_at)))
        self._fetcher.allow_address(address)
        free_at = self._clock.now() + self._politeness.host_delay(state)  # if the visit is cancelled
        try:
            report = await self._run(errand)
            free_at = report[0].address_ready_at
            return report
        finally:
            self._fetcher.disallow_address(address)
            self._mailbox.release_address(address, free_at)


_NOTES = 128  # agents that could not reach a host, the latest ones
_DETAIL = 1000  # characters of the reason it was given up


class HostTransfer:
    """Times are sent as seconds left, because the clocks of machines differ."""

    def __init__(self, chooser: HostPlacement, exclusions: RobotsTxtCache, politeness: Politeness, clock: Clock):
        self._chooser, self._exclusions = chooser, exclusions
        self._politeness, self._clock = politeness, clock

    def export_host(self, host: Host, state: HostState) -> HostPayload:
        now = self._clock.now()
        text, until = self._exclusions.export_host(host)
        if len(text) > MOST_ROBOTS_TXT:  # too long for the coordinator: the next agent fetches it again
            text = b""
        learned, notes = self._chooser.policy_data(host), outage.export_notes(state.unreached, now)[-_NOTES:]
        detail = state.detail[:_DETAIL]
        bare = msgspec.structs.replace(state, ready_at=0.0, address_ready_at=0.0, unreached=notes, detail=detail)
        return HostPayload(
            msgspec.msgpack.encode(bare),
            rest=max(0.0, state.ready_at - now),
            delay=self._politeness.host_delay(state),
            policy_data=learned if len(learned) <= MOST_STATE else b"",
            robots_txt=text,
            robots_txt_seconds=max(0.0, until - now),
        )

    def import_host(self, grant: HostGrant) -> tuple[HostState, list[DamagedField]]:
        """State of a granted host, and its unreadable fields, which take the values of a new host."""
        luggage, now = grant.payload, self._clock.now()
        state, learned, damaged = decode_host_payload(luggage)
        rest, text = max(0.0, luggage.rest), luggage.robots_txt
        if any(field.field == "st" for field in damaged):
            # Its Crawl-delay is lost, too, so its robots.txt is fetched again.
            rest, text = max(rest, self._politeness.delay), b""
        self._chooser.add_host(grant.host, learned)
        self._exclusions.import_host(grant.host, text, luggage.robots_txt_seconds)
        # It waits for us from now on, not from time 0: the policy learns from that wait.
        notes = outage.import_notes(state.unreached, now)
        # Its address is only a hint: fetch workers look the name up themselves, and go nowhere else.
        own = msgspec.structs.replace(state, ready_at=now + rest, unreached=notes, address_ready_at=0.0)
        return own, damaged


_decode = msgspec.msgpack.Decoder(OutcomeRow).decode
_KINDS = list(OutcomeKind)


def withdrawn_keys(home: CrawlDir, last: Checkpoint | None) -> set[int]:
    """Keys whose outcomes were withdrawn, without another outcome since."""
    state = sealed_frontier(last) if last is not None else None
    if last is None or state is None or state.sieve.seen == state.done:
        return set()  # no outcome was ever withdrawn
    seed = home.identity.key_seed
    return {key_of(url, seed) for url in outcome_log.retried_urls(home, length=sealed_outcomes(last))}


class OutcomeKindIndex:
    def __init__(self, home: CrawlDir):
        self._home, self._seed = home, home.identity.key_seed
        self._late: dict[int, str] = {}  # by key
        # sorted; indices into `_KINDS`
        self._keys, self._kind_indices = np.zeros(0, np.uint64), np.zeros(0, np.uint8)
        self._read_length = 0  # length of the log that was read

    def record_rejected(self, key: int, kind: str) -> None:
        """Record the kind of an outcome that came too late to count."""
        self._late[key] = kind

    def __call__(self, keys: Sequence[int]) -> list[str]:
        """Kind of each key's first outcome, whatever polls changed; "" if no checkpoint holds it yet."""
        if any(key not in self._late for key in keys):
            self._update()
        return [self._late.get(key) or self._read(key) for key in keys]

    def _read(self, key: int) -> str:
        at = int(self._keys.searchsorted(np.uint64(key), "right")) - 1  # the last of equal keys
        return _KINDS[self._kind_indices[at]].value if at >= 0 and self._keys[at] == key else ""

    def _update(self) -> None:
        last = read_checkpoint(self._home)
        length = sealed_outcomes(last) if last is not None else 0
        if length <= self._read_length:
            return
        keys, kind_indices = list[int](), list[int]()
        for _, record in records(self._home / "outcomes.log", start=self._read_length, length=length):
            row = _decode(record)
            if not row.polled and row.kind is not OutcomeKind.WITHDRAWN:
                keys.append(key_of(row.url, self._seed))
                kind_indices.append(_KINDS.index(row.kind))
        all_keys = np.concatenate([self._keys, np.array(keys, np.uint64)])
        order = all_keys.argsort(kind="stable")  # the latest row of a key comes last
        self._keys = all_keys[order]
        self._kind_indices = np.concatenate([self._kind_indices, np.array(kind_indices, np.uint8)])[order]
        self._read_length = length


log = logging.getLogger(__name__)

_CHECK_EVERY = 0.1  # seconds
_SHARED_LIMITS = (StoppedBy.TIME_LIMIT, StoppedBy.PAGE_LIMIT)


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """The crawl to join, and its coordinator."""

    coordinator: Coordinator
    crawl: str
    now: Callable[[], float] = boottime  # a clock that includes time asleep


class ClusterStage:
    """The parts that an agent of a cluster has in addition to a crawl on one machine."""

    def __init__(
        self,
        joining: JoinRequest,
        home: CrawlDir,
        settings: Settings,
        last: Checkpoint | None,
        *,
        clock: Clock,
        politeness: Politeness,
        exclusions: RobotsTxtCache,
        tally: CrawlCounters,
        meter: Backpressure,
        bell: WakeUp,
        fuse: FailureLatch,
        stopping: StopRequest,
    ):
        self._home, self._settings, self._crawl = home, settings, joining.crawl
        self._clock, self._politeness = clock, politeness
        self._tally, self._meter, self._stopping = tally, meter, stopping
        seed = home.identity.key_seed
        limits = site_limits_of(settings)
        self._tellings = Outbox(home / "board", last, joining.now)
        self._unbooked = DurableLog("unbooked", home / "unbooked.log", last)
        self._lease = LeaseClock(settings.cluster.lease, joining.now)
        rng = np.random.default_rng()
        self._chooser = HostPlacement(balancer.find_balancer(settings.cluster.policy)(rng))
        self.other_agents = ClusterOpinion(clock, rng, socket.gethostname())
        self._settled_kinds = OutcomeKindIndex(home)
        luggage = HostTransfer(self._chooser, exclusions, politeness, clock)
        self._mailbox = PendingCalls(
            tellings=self._tellings,
            lease=self._lease,
            chooser=self._chooser,
            clock=clock,
            pack=luggage.export_host,
            delay=politeness.host_delay,
            key_of=lambda url: key_of(url, seed),
            kinds_of=self._settled_kinds,
        )
        state = sealed_frontier(last) if last else None
        parts = open_parts(
            home / "frontier",
            state,
            key_seed=seed,
            now=clock.now(),
            resumed_delay=politeness.host_delay,
            run_size=settings.frontier.sieve_run,
            limits=SiteLimits(),
        )
        self.frontier = LeasedFrontier(
            parts,
            landlord=self._mailbox,
            clock=clock,
            rule=FrontSizeRule(settings.frontier.front_min, settings.frontier.front_max),
            key_seed=seed,
            errand_links=settings.fetch.urls_per_visit,
            state=state,
            share=settings.refresh.share,
            forgiven=withdrawn_keys(home, last),
            turn=self._lease_turn,
            rests=self._is_cut_off,
        )
        self.page_quota = ClusterPageQuota(
            settings.crawl.pages,
            tellings=self._tellings,
            clock=clock,
            every=settings.cluster.heartbeat,
            hosts=lambda: self.frontier.lease_count if meter.concurrency else 0,
            on_hunger=self._mailbox.notify,
        )
        self._fetcher: LeasedFetcher | None = None
        bounds, board = SiteBounds(limits.hosts, limits.urls), settings.cluster
        self._messenger = ClusterSession(
            joining.coordinator,
            terms=SessionSettings(seed, board.lease, board.heartbeat, board.keep_acked, bounds),
            mailbox=self._mailbox,
            tellings=self._tellings,
            lease=self._lease,
            tenant=self.frontier,
            allowance=self.page_quota,
            clock=clock,
            rejoin=self._rejoin,
            advert=self._advert,
            unpack=luggage.import_host,
            place_new=self._chooser.agent_for_new_host,
            on_pulse=self._on_pulse,
            on_trouble=fuse.record,
            on_unbooked=self._on_unbooked,
            on_refused=self._on_refused,
            nudge=bell.fire,
        )
        self._board, self._neighbours, self._unreadable = joining.coordinator, KnownAgents(), StatusWarnings()
        self.limits = ClusterLimits(settings.crawl.pages, settings.crawl.time, clock, endless=settings.refresh.on)
        self._agents = self._late = 0
        self._priced_at, self._backlog, self._price = -math.inf, 0.0, 0.0
        self._me, self._share, self._has_pulse = "", 1.0, False
        self._others_refresh = False  # another agent polls known pages, perhaps of hosts that we hold
        self._idle_at = 0.0  # last time that no URL waited in the whole crawl, as far as we know

    @property
    def scope(self) -> SharedScope:
        """Additions to the scope by all agents."""
        return self._mailbox.scope

    @property
    def durables(self) -> Sequence[Durable]:
        """Parts of the checkpoint; sealed after the frontier, which knows the settled URLs."""
        return (self._tellings, self._unbooked)

    def has_valid_lease(self) -> bool:
        """Checked again once a connection is open: a process that slept in between must not send."""
        return self._lease.is_valid

    def wrap_fetcher(self, fetcher: Fetcher) -> LeasedFetcher:
        self._fetcher = LeasedFetcher(
            fetcher,
            lease=self._lease,
            mailbox=self._mailbox,
            chooser=self._chooser,
            clock=self._clock,
            politeness=self._politeness,
        )
        return self._fetcher

    def wrap_dispatcher(
        self, run: Callable[[HostVisit], Awaitable[VisitReport]], fetcher: LeasedFetcher
    ) -> LeasedDispatcher:
        return LeasedDispatcher(
            run,
            fetcher=fetcher,
            mailbox=self._mailbox,
            chooser=self._chooser,
            clock=self._clock,
            epoch_of=self.frontier.epoch_of,
            politeness=self._politeness,
            colleagues=self.other_agents,
        )

    # -- running

    def retry_failed(self, mercy: RetryFailed, outcomes: Log, now: float) -> None:
        """Withdraw our failures: part of the first checkpoint, and sent to the coordinator after it."""
        mercy.requeue_on_cluster(
            self._take_back, outcomes, self._unbooked, self._tally, now, own_from=first_own_outcome(self._home.path)
        )

    def _take_back(self, links: Sequence[tuple[Request, str]]) -> None:
        self._mailbox.retry_failed(links)
        self.frontier.mark_unsettled([key_of(link.url, self._home.identity.key_seed) for link, _ in links])

    async def begin(self) -> None:
        """Join the cluster, however long the coordinator is away, unless the crawl is told to stop."""
        joining = asyncio.create_task(self._messenger.start(last_start(self._home.path)))
        try:
            while not joining.done() and not self._stopping.is_requested:
                await asyncio.wait({joining}, timeout=_CHECK_EVERY)
        finally:
            await cancel_and_wait([joining])
        if joining.done() and not joining.cancelled():
            joining.result()

    async def end(self) -> bool:
        why = self._stopping.reason
        return await self._messenger.leave(why.value if why in _SHARED_LIMITS else "")

    async def close(self) -> None:
        await self._messenger.close()
        await self._board.close()

    def _rejoin(self) -> AgentId:
        name = begin_start(self._home.path, self._crawl)
        self._tellings.set_agent(name.agent, name.incarnation)
        self._chooser.set_agent_name(name.agent)
        self._me = name.agent
        return name

    def all_done_since(self, found_at: float) -> bool:
        """Whether any URL found then has an outcome by now, on any agent: nothing waited anywhere later."""
        return self._idle_at >= found_at + 3 * self._settings.cluster.heartbeat

    def poll_budget_share(self) -> float:
        return self._share  # of the crawl's poll budget: our share of its pages

    def _lease_turn(self) -> float:
        """Seconds that we keep a host while other agents may have known pages of it."""
        polled = self._settings.refresh.on or self._others_refresh
        return self._settings.cluster.lease if polled else math.inf

    def _is_cut_off(self) -> bool:
        """Whether our network is down, and other agents may reach our hosts."""
        return self._meter.network_down and self.other_agents.has_others

    @property
    def summary(self) -> ClusterSummary:
        books = self._mailbox.totals
        return ClusterSummary(
            self._agents, books.kinds.get("page", 0), books.seen, books.settled, books.waiting, self._late
        )

    # -- status exchange with other agents

    def _advert(self) -> bytes:
        robots = max(1, self._meter.concurrency)
        # Hosts that idle fetch workers are about to take are no backlog.
        now = self._clock.now()
        # an idle agent sends its status more often
        if now >= self._priced_at + 0.5 * self._settings.cluster.heartbeat:
            due = self.frontier.ready_hosts(now) - max(0, robots - self._meter.active_visits)
            self._priced_at = now
            self._backlog = self._chooser.reported_backlog(due, robots, self._meter.backlog_seconds)
            self._price = self._chooser.reported_price()
        return msgspec.msgpack.encode(
            AgentStatus(
                self._backlog,
                self._chooser.speed,
                self._price,
                pages=self._tally.pages,
                robots=self._meter.active_visits,
                machine=socket.gethostname(),
                directory=str(self._home.path.absolute()),
                polls=self._tally.polled.polls,
                refreshes=self._settings.refresh.on,
                resting=self._meter.network_down,
                load=round(self._meter.load, 3),
            )
        )

    def _on_pulse(self, pulse: HeartbeatReply) -> str | None:
        """Returns the limit that ends the crawl, if that is news; "" if the crawl continues after all."""
        first, self._has_pulse = not self._has_pulse, True
        self._unreadable.check(pulse.agents)
        notes = self._neighbours.update(pulse)
        self._chooser.update_agents(agent_table(notes), {note.agent for note in pulse.agents})
        self.other_agents.update_agents(self._me, notes)
        if self._is_cut_off():
            self.frontier.release_idle()
        self._agents = pulse.alive
        self._share = page_share(notes, self._me, pulse.alive)
        self._others_refresh = any_agent_refreshes(notes)
        if pulse.totals.started and not pulse.totals.waiting and not len(self._tellings):
            self._idle_at = self._clock.now()
        if self._fetcher is not None:
            self._fetcher.extend_requests()
        if pulse.draining:
            self._stopping.request(StoppedBy.DRAINED)
        reached = self.limits.reached(pulse.totals)
        if not reached:  # other agents may have lower or older limits: those stop them alone
            return "" if pulse.stop_reason else None
        self._stopping.request(reached)
        # an agent that joins too late does not announce it
        return None if first or pulse.stop_reason else reached.value

    def _on_unbooked(self, urls: Sequence[AckedUrl]) -> None:
        """Mark our copies of URLs whose outcome other agents report; the copies stay."""
        self._late += len(urls)
        for url in urls:
            self._unbooked.append(msgspec.msgpack.encode((url.url, self._clock.now())))
            self._settled_kinds.record_rejected(url.key, url.kind)

    def _on_refused(self, address: str) -> None:
        """Abort requests to an address that the coordinator no longer grants us: it may give it to others."""
        if self._fetcher is not None:
            self._fetcher.abort_requests(address)
