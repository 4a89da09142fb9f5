"""Host visits under leases, and the state that moves with a host between agents.

Hosts of other agents may have the same address. So an agent sends no request to an address without the
coordinator's grant, neither for a page nor for a robots.txt that another host redirects to. And it sends none
after its lease has expired: requests in flight are aborted then, because other agents may soon get the host.
Times in a host payload are seconds left, because the clocks of machines differ.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from errno import ENETUNREACH

import msgspec

from fieldmouse.clock import Clock
from fieldmouse.cluster.client.lease_clock import LeaseClock
from fieldmouse.cluster.client.pending import PendingCalls
from fieldmouse.cluster.client.placement import ClusterOpinion, HostPlacement
from fieldmouse.cluster.coordinator import DamagedField, HostGrant, HostPayload
from fieldmouse.cluster.decoding import MOST_ROBOTS_TXT, MOST_STATE, decode_host_payload
from fieldmouse.fetch.worker import VisitReport
from fieldmouse.http.client import Fetcher
from fieldmouse.policy import outage
from fieldmouse.policy.outage import blocked_agents
from fieldmouse.policy.politeness import Politeness
from fieldmouse.robotstxt.cache import RobotsTxtCache
from fieldmouse.types.host import HostState
from fieldmouse.types.outcome import Failed, Response
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.request import HostVisit, Request
from fieldmouse.url import Host

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

    async def _fetch(
        self, link: Request, host: Host, address: str, body_limit: int | None
    ) -> Response | Failed:
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
        self._chooser.record_queue_time(
            errand.host, max(0.0, now - max(state.ready_at, state.address_ready_at))
        )
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

    def __init__(
        self, chooser: HostPlacement, exclusions: RobotsTxtCache, politeness: Politeness, clock: Clock
    ):
        self._chooser, self._exclusions = chooser, exclusions
        self._politeness, self._clock = politeness, clock

    def export_host(self, host: Host, state: HostState) -> HostPayload:
        now = self._clock.now()
        text, until = self._exclusions.export_host(host)
        if len(text) > MOST_ROBOTS_TXT:  # too long for the coordinator: the next agent fetches it again
            text = b""
        learned, notes = self._chooser.policy_data(host), outage.export_notes(state.unreached, now)[-_NOTES:]
        detail = state.detail[:_DETAIL]
        bare = msgspec.structs.replace(
            state, ready_at=0.0, address_ready_at=0.0, unreached=notes, detail=detail
        )
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
