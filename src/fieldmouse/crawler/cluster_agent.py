"""Cluster stage of an agent: its leased frontier, its host visits under leases, and its session with the coordinator.

Hosts of other agents may have the same address. So an agent sends no request to an address without the
coordinator's grant, neither for a page nor for a robots.txt that another host redirects to. And it sends none
after its lease has expired: requests in flight are aborted then, because other agents may soon get the host.
"""

from __future__ import annotations

import asyncio
import math
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from errno import ENETUNREACH

import msgspec
import numpy as np

from fieldmouse.aio import WakeUpCallbacks, cancel_and_wait
from fieldmouse.backpressure_state import BackpressureState
from fieldmouse.clock import Clock
from fieldmouse.cluster.client import host_placement, pending_calls
from fieldmouse.cluster.client.coordinator_outbox import Outbox, OutcomeKindLookup
from fieldmouse.cluster.client.host_payload import HostPayloadCodec
from fieldmouse.cluster.client.identity import first_own_outcome
from fieldmouse.cluster.client.pending_calls import AddressLeases, ClusterPageQuota, PendingCalls
from fieldmouse.cluster.client.session import ClusterSession, SessionSettings
from fieldmouse.cluster.coordinator import AgentReport, Coordinator, HeartbeatReply, SiteBounds
from fieldmouse.config.rules_from_settings import site_limits_of
from fieldmouse.config.settings_file import Settings
from fieldmouse.crawler.retry_failed import RetryFailed
from fieldmouse.crawler.stop_conditions import ClusterLimits, FailureLatch, StopRequest
from fieldmouse.fetch.worker import VisitReport
from fieldmouse.frontier.agent_frontier import AgentFrontier
from fieldmouse.frontier.durable_parts import frontier_state_of, open_frontier_parts
from fieldmouse.http.client import Fetcher
from fieldmouse.policy.balance import agent_choice
from fieldmouse.policy.front_size import FrontSizeRule
from fieldmouse.policy.local_outage import blocked_agents
from fieldmouse.policy.politeness import Politeness
from fieldmouse.policy.scope import SharedScopeAdditions, SiteLimits
from fieldmouse.robotstxt.parser import RobotsTxtCache
from fieldmouse.storage import outcome_log_reader
from fieldmouse.storage.checkpoint import Checkpoint, CrawlCounters, Durable, sealed_outcome_bytes
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.log import Log
from fieldmouse.types.host_state import HostState
from fieldmouse.types.outcome import Failed, Response
from fieldmouse.types.reason import OutcomeReason, StoppedBy
from fieldmouse.types.request import HostVisit, Request
from fieldmouse.types.stats import ClusterSummary
from fieldmouse.url import Host, key_of

_TRIES = 20  # attempts to get an address that another agent holds


class LeasedFetcher:
    """A fetcher that sends requests only under a valid lease, and records response times."""

    def __init__(self, fetcher: Fetcher, calls: PendingCalls, addresses: AddressLeases, politeness: Politeness):
        self._fetcher, self._addresses, self._politeness = fetcher, addresses, politeness
        self._lease, self._placement, self._clock = calls.lease, calls.transfer.placement, calls.clock
        self._granted: Counter[str] = Counter()  # addresses of host visits in progress
        self._limits: dict[asyncio.Timeout, str] = {}  # timeouts of requests in flight, with their addresses

    async def fetch(
        self, link: Request, host: Host, address: str, *, body_limit: int | None = None
    ) -> Response | Failed:
        if self._granted[address]:
            return await self._fetch(link, host, address, body_limit)
        # A host that we do not hold: only its address can be leased.
        for _ in range(_TRIES):
            answer = await self._addresses.lease_address(address, host, 0, self._politeness.host_delay(HostState()))
            if answer.granted:
                try:
                    return await self._fetch(link, host, address, body_limit)
                finally:
                    self._addresses.release_address(address, self._clock.now() + self._politeness.delay)
            await self._clock.sleep(max(0.05, answer.retry_seconds))
        return self._make_local_failure(link, "another agent holds its address")

    async def _fetch(self, link: Request, host: Host, address: str, body_limit: int | None) -> Response | Failed:
        if not self._lease.is_valid:
            return self._make_local_failure(link, "our lease is over")
        try:
            async with asyncio.timeout(self._lease.seconds_left) as limit:
                self._limits[limit] = address
                answer = await self._fetcher.fetch(link, host, address, body_limit=body_limit)
        except TimeoutError:
            return self._make_local_failure(link, "our lease is over")
        finally:
            self._limits.pop(limit, None)
        if isinstance(answer, Response):
            self._placement.record_round_trip(host, answer.answered_at - answer.started_at)
        return answer

    def _make_local_failure(self, link: Request, why: str) -> Failed:
        """A failure that is not counted against the host."""
        return Failed(link, OutcomeReason.NO_CONNECTION, self._clock.now(), why, errno=ENETUNREACH)

    def extend_request_deadlines(self) -> None:
        """Extend requests in flight after the lease was renewed."""
        at = asyncio.get_running_loop().time() + self._lease.seconds_left
        for limit in self._limits:
            # an expired timeout cannot be rescheduled, and its request may not have noticed yet
            if not limit.expired():
                limit.reschedule(at)

    def abort_requests_to_address(self, address: str) -> None:
        """Abort requests to an address that is no longer ours."""
        now = asyncio.get_running_loop().time()
        for limit in [limit for limit, where in self._limits.items() if where == address]:
            del self._limits[limit]  # so that `extend_request_deadlines` skips it
            if not limit.expired():
                limit.reschedule(now)

    async def close(self) -> None:
        await self._fetcher.close()

    @contextmanager
    def allow_address_during_visit(self, address: str) -> Iterator[None]:
        """Allow requests to an address that was leased for a host visit."""
        self._granted[address] += 1
        try:
            yield
        finally:
            self._granted[address] -= 1
            if not self._granted[address]:
                del self._granted[address]

    async def run_visit_with_address_lease(
        self, visit: HostVisit, epoch: int, run: Callable[[HostVisit], Awaitable[VisitReport]]
    ) -> VisitReport:
        """Run a host visit under a lease of its address; without the lease it comes back unvisited."""
        address, state, now = visit.address, visit.state, self._clock.now()
        if not address or state.verdict:
            return await run(visit)
        delay = self._politeness.host_delay(state)
        answer = await self._addresses.lease_address(address, visit.host, epoch, delay)
        if not answer.granted:
            if answer.holder and answer.holder not in blocked_agents(state.unreached, now):
                self._placement.place_host_at(visit.host, answer.holder)
            later = self._clock.now() + max(0.05, answer.retry_seconds)
            return msgspec.structs.replace(state, address_ready_at=later), visit.tickets
        self._placement.record_queue_time(visit.host, max(0.0, now - max(state.ready_at, state.address_ready_at)))
        free_at = self._clock.now() + delay  # if the visit is cancelled
        try:
            with self.allow_address_during_visit(address):
                report = await run(visit)
            free_at = report[0].address_ready_at
            return report
        finally:
            self._addresses.release_address(address, free_at)


def withdrawn_keys(home: CrawlDir, last: Checkpoint | None) -> set[int]:
    """Keys whose outcomes were withdrawn, without another outcome since."""
    state = frontier_state_of(last) if last is not None else None
    if last is None or state is None or state.sieve.seen == state.done:
        return set()  # no outcome was ever withdrawn
    seed = home.identity.key_seed
    return {key_of(url, seed) for url in outcome_log_reader.retried_urls(home, length=sealed_outcome_bytes(last))}


_CHECK_EVERY = 0.1  # seconds
_SHARED_LIMITS = (StoppedBy.TIME_LIMIT, StoppedBy.PAGE_LIMIT)


@dataclass(frozen=True, slots=True)
class CrawlToJoin:
    """The crawl to join, and its coordinator."""

    coordinator: Coordinator
    crawl: str
    now: Callable[[], float] = pending_calls.seconds_since_boot  # a clock that includes time asleep


class ClusterStage:
    """The parts that an agent of a cluster has in addition to a crawl on one machine."""

    def __init__(
        self,
        joining: CrawlToJoin,
        home: CrawlDir,
        settings: Settings,
        last: Checkpoint | None,
        *,
        clock: Clock,
        politeness: Politeness,
        exclusions: RobotsTxtCache,
        tally: CrawlCounters,
        meter: BackpressureState,
        bell: WakeUpCallbacks,
        failure_latch: FailureLatch,
        stopping: StopRequest,
    ):
        self._home, self._settings = home, settings
        self._clock, self._politeness = clock, politeness
        self._tally, self._meter, self._stopping = tally, meter, stopping
        seed, cluster, limits = home.identity.key_seed, settings.cluster, site_limits_of(settings)
        rng = np.random.default_rng()
        self._placement = host_placement.HostPlacement(agent_choice.find_balancer(cluster.policy)(rng))
        self.other_agents = host_placement.UnreachableHostReferrer(clock, rng, socket.gethostname())
        self._lease = pending_calls.HeartbeatDeadline(cluster.lease, joining.now)
        self._outcomes = OutcomeKindLookup(home, last)
        self._calls = PendingCalls(
            outbox=Outbox(home / "board", last, joining.now),
            lease=self._lease,
            transfer=HostPayloadCodec(self._placement, exclusions, politeness, clock),
            outcomes=self._outcomes,
            clock=clock,
            key_seed=seed,
        )
        state = frontier_state_of(last) if last else None
        parts = open_frontier_parts(
            home / "frontier",
            state,
            key_seed=seed,
            now=clock.now(),
            resumed_delay=politeness.host_delay,
            run_size=settings.frontier.sieve_run,
            limits=SiteLimits(),
        )
        self.frontier = AgentFrontier(
            parts,
            lease_source=self._calls,
            clock=clock,
            rule=FrontSizeRule(settings.frontier.front_min, settings.frontier.front_max),
            key_seed=seed,
            errand_links=settings.fetch.urls_per_visit,
            state=state,
            share=settings.refresh.share,
            forgiven=withdrawn_keys(home, last),
            turn=self._max_host_hold_seconds,
            rests=self._should_hand_over_in_outage,
        )
        self.page_quota = ClusterPageQuota(
            settings.crawl.pages,
            self._calls,
            hosts=lambda: self.frontier.lease_count if meter.concurrency else 0,
            every=cluster.heartbeat,
        )
        self._fetcher: LeasedFetcher | None = None
        self._board, self._known_agents = joining.coordinator, host_placement.KnownAgents()
        self._addresses = AddressLeases(self._board, self._lease, clock, self._abort_requests_to_lost_address)
        bounds = SiteBounds(limits.hosts, limits.urls)
        self._session = ClusterSession(
            self._board,
            SessionSettings(home.path, joining.crawl, cluster.heartbeat, cluster.keep_acked, bounds),
            calls=self._calls,
            addresses=self._addresses,
            quota=self.page_quota,
            frontier=self.frontier,
            bell=bell,
            encode_status=self._encode_status,
            on_reply=self._on_heartbeat_reply,
            on_error=failure_latch.record,
        )
        self.limits = ClusterLimits(settings.crawl.pages, settings.crawl.time, clock, endless=settings.refresh.on)
        self._living_agents, self._share, self._has_reply = 0, 1.0, False
        self._priced_at, self._backlog, self._price = -math.inf, 0.0, 0.0
        self._others_refresh = False  # another agent polls known pages, perhaps of hosts that we hold
        self._idle_at = 0.0  # last time that no URL waited in the whole crawl, as far as we know

    @property
    def scope_additions(self) -> SharedScopeAdditions:
        """Additions to the scope by all agents."""
        return self._calls.scope

    @property
    def durables(self) -> Sequence[Durable]:
        """Parts of the checkpoint; sealed after the frontier, which knows the settled URLs."""
        return (self._calls.outbox, self._outcomes.rejected_log)

    def has_valid_lease(self) -> bool:
        """Checked again once a connection is open: a process that slept in between must not send."""
        return self._lease.is_valid

    def wrap_fetcher(self, fetcher: Fetcher) -> LeasedFetcher:
        self._fetcher = LeasedFetcher(fetcher, self._calls, self._addresses, self._politeness)
        return self._fetcher

    def wrap_visits(
        self, run: Callable[[HostVisit], Awaitable[VisitReport]], fetcher: LeasedFetcher
    ) -> Callable[[HostVisit], Awaitable[VisitReport]]:
        """Run host visits under leases; the fetch pool calls this instead of `run`."""

        async def run_leased(visit: HostVisit) -> VisitReport:
            epoch = self.frontier.epoch_of(visit.host)
            report = await fetcher.run_visit_with_address_lease(
                self.other_agents.mark_if_polls_only_visit(visit), epoch, run
            )
            if report[0].unreached and (agent := self.other_agents.next_agent_to_try(visit.state, report[0])):
                self._placement.place_host_at(visit.host, agent)
            return report

        return run_leased

    # -- running

    def retry_failed_urls_of_crawl(self, retry_failed: RetryFailed, outcomes: Log, now: float) -> None:
        """Withdraw our failures: part of the first checkpoint, and sent to the coordinator after it."""
        retry_failed.requeue_on_cluster(
            self._retry_failed_urls,
            outcomes,
            self._outcomes.rejected_log,
            self._tally,
            now,
            own_from=first_own_outcome(self._home.path),
        )

    def _retry_failed_urls(self, links: Sequence[tuple[Request, str]]) -> None:
        self._calls.retry_failed(links)
        self.frontier.mark_unsettled([self._calls.key_of(link.url) for link, _ in links])

    async def join_cluster(self) -> None:
        """Join the cluster, however long the coordinator is away, unless the crawl is told to stop."""
        joining = asyncio.create_task(self._session.join_and_start())
        try:
            while not joining.done() and not self._stopping.is_requested:
                await asyncio.wait({joining}, timeout=_CHECK_EVERY)
        finally:
            await cancel_and_wait([joining])
        if joining.done() and not joining.cancelled():
            joining.result()

    async def leave_cluster(self) -> bool:
        why = self._stopping.reason
        return await self._session.leave(why.value if why in _SHARED_LIMITS else "")

    async def close(self) -> None:
        await self._session.close()
        await self._board.close()

    def was_idle_after(self, found_at: float) -> bool:
        """Whether any URL found then has an outcome by now, on any agent: nothing waited anywhere later."""
        return self._idle_at >= found_at + 3 * self._settings.cluster.heartbeat

    def poll_budget_share(self) -> float:
        return self._share  # of the crawl's poll budget: our share of its pages

    def _max_host_hold_seconds(self) -> float:
        """Seconds that we keep a host while other agents may have known pages of it."""
        polled = self._settings.refresh.on or self._others_refresh
        return self._settings.cluster.lease if polled else math.inf

    def _should_hand_over_in_outage(self) -> bool:
        """Whether our network is down, and other agents may reach our hosts."""
        return self._meter.network_down and self.other_agents.other_agents_take_hosts

    @property
    def summary(self) -> ClusterSummary:
        totals, pages = self._calls.totals, self._calls.totals.kinds.get("page", 0)
        rejected = self._outcomes.rejected_count
        return ClusterSummary(self._living_agents, pages, totals.seen, totals.settled, totals.waiting, rejected)

    # -- status exchange with other agents

    def _encode_status(self) -> bytes:
        robots = max(1, self._meter.concurrency)
        # Hosts that idle fetch workers are about to take are no backlog.
        now = self._clock.now()
        # an idle agent sends its status more often
        if now >= self._priced_at + 0.5 * self._settings.cluster.heartbeat:
            due = self.frontier.ready_host_count(now) - max(0, robots - self._meter.active_visits)
            self._priced_at = now
            self._backlog = self._placement.next_reported_backlog(due, robots, self._meter.backlog_seconds)
            self._price = self._placement.price_to_report()
        return msgspec.msgpack.encode(
            AgentReport(
                self._backlog,
                self._placement.slowdown,
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

    def _on_heartbeat_reply(self, reply: HeartbeatReply) -> str | None:
        """Returns the limit that ends the crawl, if that is news; "" if the crawl continues after all."""
        first, self._has_reply = not self._has_reply, True
        me, notes = self._lease.holder.agent, self._known_agents.update_from_reply(reply)
        self._placement.update_agents(host_placement.agent_table(notes), {note.agent for note in reply.agents})
        self.other_agents.set_other_agents(me, notes)
        if self._should_hand_over_in_outage():
            self.frontier.hand_over_unvisited_hosts()
        self._living_agents, self._share = reply.alive, host_placement.share_of_pages(notes, me, reply.alive)
        self._others_refresh = host_placement.any_agent_refreshes(notes)
        if reply.totals.started and not reply.totals.waiting and not len(self._calls.outbox):
            self._idle_at = self._clock.now()
        if self._fetcher is not None:
            self._fetcher.extend_request_deadlines()
        if reply.draining:
            self._stopping.request_stop(StoppedBy.DRAINED)
        reached = self.limits.limit_reached(reply.totals)
        if not reached:  # other agents may have lower or older limits: those stop them alone
            return "" if reply.stop_reason else None
        self._stopping.request_stop(reached)
        # an agent that joins too late does not announce it
        return None if first or reply.stop_reason else reached.value

    def _abort_requests_to_lost_address(self, address: str) -> None:
        """Abort requests to an address that the coordinator no longer grants us: it may give it to others."""
        if self._fetcher is not None:
            self._fetcher.abort_requests_to_address(address)
