"""Outage detector: tells failures of our network from failures of hosts, and lowers the concurrency when file
descriptors run out.

Fetch workers report the hosts they reached and those they did not. When this looks like an outage of our
network (`policy/local_outage.py` decides), hosts that were reached before are asked for their robots.txt. There
is one check at a time, all failing hosts share its result, and the result is kept for a while. If one
host responds, the failing hosts are at fault. If none does, the fetch pool rests, the user is told once,
and the check is repeated after 1, 2, 4, ... 60 seconds until a host responds. Each time a single fetch
worker runs as well, because it may reach hosts that were never tried.

A machine without free file descriptors continues with fewer fetch workers, and slowly with more again.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Coroutine, Iterable, Sequence
from itertools import islice
from typing import Any, Protocol

import msgspec

from fieldmouse.aio import WakeUpCallbacks
from fieldmouse.backpressure_state import BackpressureState
from fieldmouse.clock import Clock
from fieldmouse.fetch.politeness_gate import FetchServices
from fieldmouse.http.dns import FoundAddress
from fieldmouse.policy.local_outage import (
    BENEFIT,
    MAX_POSTPONEMENTS,
    MAX_SILENT_OUTAGE,
    WITNESSES,
    FailureCause,
    OutageEvidence,
    cause_of,
)
from fieldmouse.policy.politeness import MAX_POSTPONEMENT, Politeness, clamp_crawl_delay
from fieldmouse.policy.retry import retry_rule_for
from fieldmouse.robotstxt.parser import RobotsTxt
from fieldmouse.types.host_state import HostState
from fieldmouse.types.outcome import Response
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.request import Request, RequestKind
from fieldmouse.url import Host, Url, hostname_of

log = logging.getLogger(__name__)

_EASE = 30.0  # seconds after which the limit is doubled
_PLENTY = 4096  # fetch workers; above this the limit is removed


class FileDescriptorBackoff:
    """`on_change` is called when `max_workers`, the limit on fetch workers, has changed."""

    def __init__(self, clock: Clock, meter: BackpressureState, on_change: Callable[[], None]):
        self._clock, self._meter, self._on_change = clock, meter, on_change
        self.max_workers = sys.maxsize
        self._squeezed_at = -_EASE
        self._easing: asyncio.TimerHandle | None = None

    def halve_worker_limit(self, moment: float) -> None:
        """Halve the limit because descriptors ran out; at most once in `moment` seconds."""
        now = self._clock.now()
        if now - self._squeezed_at >= moment:
            self._squeezed_at = now
            self.max_workers = max(1, min(self.max_workers, self._meter.active_visits) // 2)
            log.warning("out of file descriptors: continuing with %d fetch workers", self.max_workers)
            self._on_change()
            if self._easing is None:
                self._easing = asyncio.get_running_loop().call_later(_EASE, self._double_worker_limit)

    def _double_worker_limit(self) -> None:
        self._easing = None
        if self._clock.now() - self._squeezed_at >= _EASE / 2:
            self.max_workers = 2 * self.max_workers if self.max_workers < _PLENTY else sys.maxsize
            self._on_change()
        if self.max_workers < sys.maxsize:
            self._easing = asyncio.get_running_loop().call_later(_EASE, self._double_worker_limit)

    def close(self) -> None:
        if self._easing is not None:
            self._easing.cancel()


# seconds for which a result is kept, and in which a witness is not asked again if there are others
RESULT_LIFETIME = 60.0
_SHORT_REST, _LONG_REST = 5.0, 60.0  # longest wait for a witness to be rested, in seconds
_PATIENCE = 30.0  # seconds for a response, from when the witness is rested


class SharedCheck:
    """A check that runs once at a time and shares its result."""

    def __init__(self, clock: Clock, ask: Callable[[], Coroutine[Any, Any, bool]]):
        self._clock, self._ask = clock, ask
        self._task: asyncio.Task[bool] | None = None
        self._answer, self._answered_at = False, float("-inf")

    async def result(self, *, fresh: bool = False) -> bool:
        """The result of a running check, else the last one unless it is old, else of a new check.

        With `fresh`, a result from before this call is not used.
        """
        if self._task is None:
            if not fresh and self._clock.now() < self._answered_at + RESULT_LIFETIME:
                return self._answer
            self._task = asyncio.get_running_loop().create_task(self._run_check())
        # A cancelled caller must not cancel the check of the others.
        return await asyncio.shield(self._task)

    async def _run_check(self) -> bool:
        try:
            self._answer = await self._ask()
            self._answered_at = self._clock.now()
            return self._answer
        finally:
            self._task = None

    async def close(self) -> None:
        if (tasks := self._task) is not None:
            tasks.cancel()
            await asyncio.wait({tasks})


class NetworkCheck:
    """Requests the robots.txt of a few hosts, through the gate like any other request."""

    def __init__(
        self, transport: FetchServices, politeness: Politeness, size: int, on_answer: Callable[[Host, str], None]
    ):
        """`size` limits the bytes of a robots.txt; `on_answer` gets host and address of each response."""
        self._transport, self._gate, self._clock = transport, transport.gate, transport.clock
        self._politeness, self._size, self._on_answer = politeness, size, on_answer
        self._answered: dict[Host, float] = {}  # time of each host's response; the latest last
        self._longest_rest = min(max(_SHORT_REST, politeness.delay), _LONG_REST)

    def seconds_until_host_free(self, host: Host) -> float:
        """Seconds until the host may be visited."""
        return max(0.0, self._gate.seconds_until_free(host))

    def is_host_free_soon(self, host: Host) -> bool:
        """Whether the host is rested soon. A host that asked for an hour's pause is no witness then."""
        return self._gate.seconds_until_free(host) <= self._longest_rest

    def host_answered_recently(self, host: Host) -> bool:
        """Whether the host answered this check a moment ago."""
        return self._clock.now() < self._answered.get(host, float("-inf")) + RESULT_LIFETIME

    async def any_host_responds(self, hosts: Iterable[Host]) -> bool:
        """Whether one of the hosts responds in time."""
        tasks = {asyncio.ensure_future(self._host_responds(host)) for host in hosts}
        until = self._clock.now() + self._longest_rest + _PATIENCE
        try:
            while tasks and (left := until - self._clock.now()) > 0:
                done, tasks = await asyncio.wait(tasks, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if any(task.result() for task in done):
                    return True
            return False
        finally:
            for task in tasks:
                task.cancel()

    async def any_name_resolves(self, hosts: Iterable[Host]) -> bool:
        """Whether a fresh DNS lookup finds the name of one of the hosts. It sends the hosts no request."""
        began, names = self._clock.now(), {hostname_of(host) for host in hosts}
        await asyncio.gather(*(self._transport.resolver.lookup(name, fresh=True) for name in sorted(names)))
        return self._transport.resolver.answered_at >= began

    async def _host_responds(self, host: Host) -> bool:
        """Whether the host responds to one polite request for its robots.txt, which is always allowed."""
        lookup = await self._transport.resolver.lookup(hostname_of(host), fresh=True)
        if not isinstance(lookup, FoundAddress):
            return False
        address, url = lookup.address, Url(host + "/robots.txt")
        await self._gate.enter(host, address)
        now = self._clock.now()
        rules = self._transport.robots_txt_cache.get(host)
        state = HostState(crawl_delay=clamp_crawl_delay(rules.crawl_delay if rules else None))
        after = self._politeness.state_after_visit(state, now, now)
        try:
            answer = await self._transport.fetcher.fetch(
                Request(url, kind=RequestKind.ROBOTS_TXT), host, address, body_limit=self._size
            )
            if isinstance(answer, Response):
                read = await self._transport.robots_txt_cache.parse_response(answer, url, 0)
                if isinstance(read, RobotsTxt) and rules is None:
                    state = HostState(crawl_delay=clamp_crawl_delay(read.crawl_delay))
                after = self._politeness.state_after_visit(state, answer.answered_at, answer.ended_at)
            else:
                after = self._politeness.state_after_visit(state, answer.at, answer.at)
        finally:
            self._gate.leave(host, address, after.ready_at, after.address_ready_at)
        if isinstance(answer, Response) or cause_of(answer) is None:
            self._answered.pop(host, None)
            self._answered[host] = self._clock.now()
            if len(self._answered) > WITNESSES:
                del self._answered[next(iter(self._answered))]
            self._on_answer(host, address)
            return True
        return False


CHECK_DELAY = 1.0  # seconds in which a fetch worker may reach a host by itself, before a check starts
_LONGEST = 60.0  # seconds between two checks
_AT_ONCE = 3  # hosts asked per check
_TRUST = 30.0  # seconds after a response in which no check starts; failures count as usual
_SEEDS = 64  # hosts to ask if no host was ever reached
_HOLD = 10.0  # seconds for which the fetch pool waits for a check
_LATELY = 10.0  # seconds for which a page, or a resolved name, counts as a successful check


class OutageDetector:
    def __init__(
        self,
        transport: FetchServices,
        politeness: Politeness,
        *,
        size: int = 500 << 10,
        seeds: Iterable[Host] = (),
        meter: BackpressureState | None = None,
        bell: WakeUpCallbacks | None = None,
    ):
        """The concurrency that the network allows is written to the `meter`."""
        self.resolver, self._clock = transport.resolver, transport.clock
        self._seeds = list(islice(seeds, _SEEDS))
        self._meter, self._bell = meter or BackpressureState(), bell or WakeUpCallbacks()
        self.outage = OutageEvidence()
        self._enquiry = NetworkCheck(transport, politeness, size, self._record_witness_response)
        self._there = SharedCheck(self._clock, lambda: self._enquiry.any_host_responds(self._hosts_to_ask()))
        self._named = SharedCheck(
            self._clock, lambda: self._enquiry.any_name_resolves(self._witnesses_resolved_earlier())
        )
        self._check_task: asyncio.Task[None] | None = None
        self._waiting: list[asyncio.Future[None]] = []  # callers waiting until any host is reached
        self._benefit = self._probing = self._warned_of_dns = False
        self._scouting = False  # one fetch worker may run in spite of the outage
        self._responded_at = self._reached_at = self._back_at = float("-inf")
        self._headroom = FileDescriptorBackoff(self._clock, self._meter, self._publish_max_concurrency)
        self._turn = 0

    @property
    def is_outage(self) -> bool:
        """Whether there is an outage."""
        return self.outage.since is not None

    @property
    def is_ignoring_failures(self) -> bool:
        """Whether failures are not counted at the moment."""
        return self._benefit or self.outage.since is not None

    def _publish_max_concurrency(self) -> None:
        """Publish the concurrency that the network and our descriptors allow."""
        most = 0 if self._probing else self._headroom.max_workers
        self._meter.set_max_by_network(int(self._scouting) if self.is_outage else most, cut_off=self.is_outage)
        self._bell.fire()

    # -- reports of fetch workers

    def record_reached(self, host: Host, address: str) -> None:
        self._reached_at = self._clock.now()
        self.outage.record_reached(host, address)
        if self._waiting:
            for turn in self._waiting:
                if not turn.done():
                    turn.set_result(None)
            self._waiting.clear()

    def record_failure(self, host: Host, cause: FailureCause, *, known: bool = False, address: str = "") -> None:
        if self._scouting:
            self._scouting = False
            self._publish_max_concurrency()
        if cause is FailureCause.MACHINE:
            self._headroom.halve_worker_limit(CHECK_DELAY)
            return
        self.outage.record_failed(host, cause, known=known, address=address)
        if self.outage.suspects_outage:
            self._start_check()

    # -- questions of fetch workers

    def is_too_early_to_give_up(self, host: Host, *, ask: bool) -> bool:
        """Whether giving up the host or a URL of it after this failure would be rash.

        With `ask`, other hosts are checked if necessary; until they have responded, giving up is rash.
        """
        if self.outage.protects_host(host):
            return True
        if not ask or not self.outage.can_ask_other_hosts(host) or self._responded_recently:
            return False
        self._start_check()
        return True

    async def dns_denies_all_names(self, host: Host) -> bool:
        """Whether the DNS denies the host's name because it denies every name.

        Reached hosts prove nothing here, because addresses are cached; only a resolved name does.
        """
        began, resolver, denied = self._clock.now(), self.resolver, self.outage.denied
        self.outage.record_missing_name(host, began, named_at=resolver.answered_at)
        await self._clock.sleep(CHECK_DELAY)
        if resolver.answered_at >= began or (len(denied) < self.outage.few and not self.is_outage):
            return False
        names = self._witnesses_resolved_earlier()
        await self._enquiry.any_name_resolves(names)
        if resolver.answered_at >= began or not (names or began < min(denied.values()) + BENEFIT):
            return False
        if not self._warned_of_dns:
            self._warned_of_dns = True
            log.warning("the DNS denies every name: %d hosts wait", len(denied))
        return True

    async def others_are_reachable(self, cause: FailureCause) -> bool:
        """Whether another host can be reached, just now, in the way that failed."""
        now = self._clock.now()
        if self.is_outage or now < self._back_at + MAX_POSTPONEMENT:
            return False  # the failure may date from the outage
        if cause is FailureCause.DNS:
            return now < self.resolver.answered_at + _LATELY or await self._named.result()
        return now < self._reached_at + _LATELY or await self._there.result()

    # -- checking

    @property
    def _responded_recently(self) -> bool:
        return self._clock.now() < self._responded_at + _TRUST

    def _start_check(self) -> None:
        if self._check_task is None and not self._responded_recently:
            self._check_task = asyncio.get_running_loop().create_task(self._check_network())

    async def _check_network(self) -> None:
        try:
            if await self._wait_for_reached_host(CHECK_DELAY):
                return
            if not self._has_askable_witness:
                await self._wait_then_give_up_suspects()
                return
            self._probing = True  # no fetch worker shall be at the gates before the check
            self._publish_max_concurrency()
            holding = asyncio.get_running_loop().call_later(_HOLD, self._resume_fetching_before_result)
            try:
                answers = await self._there.result(fresh=True)
            finally:
                holding.cancel()
                self._benefit = False
            if not answers:
                await self._wait_for_network()
        finally:
            self._check_task = None
            self._resume_fetching()

    def _resume_fetching_before_result(self) -> None:
        """Release the fetch pool because the check takes long; failures are not counted until its result."""
        self._benefit = True
        self._resume_fetching()

    def _resume_fetching(self) -> None:
        self._probing = False
        self._publish_max_concurrency()

    def _record_witness_response(self, host: Host, address: str) -> None:
        """Record the response of a witness."""
        self.record_reached(host, address)
        self._responded_at = self._clock.now()

    @property
    def _has_askable_witness(self) -> bool:
        """Whether there is a host to ask now whose silence would mean something.

        Witnesses that rest for long cannot be asked, and the fetch pool does not wait for them.
        """
        outage = self.outage
        witnesses = outage.witnesses.values()
        some = any(host in outage.suspects or self._enquiry.is_host_free_soon(host) for host in witnesses)
        return outage.has_usable_witness and (some or not witnesses)

    async def _wait_then_give_up_suspects(self) -> None:
        """Try other hosts for a while; if none is reached, the suspects count as dead."""
        if not self.outage.gave_up:
            log.warning("no host has responded yet: %d hosts unreachable", len(self.outage.suspects))
        self._benefit = True
        try:
            if not await self._wait_for_reached_host(self.outage.benefit_of_doubt_seconds):
                self.outage.give_up_suspects()
        finally:
            self._benefit = False

    async def _wait_for_network(self) -> None:
        outage, wait = self.outage, 1.0
        began = self._clock.now()
        outage.begin_outage(began)
        self._publish_max_concurrency()
        hosts = len(outage.suspects)
        log.warning("no network: waiting; %d %s unreachable", hosts, "host" if hosts == 1 else "hosts")
        try:
            while not (await self._wait_for_reached_host(wait) or await self._there.result(fresh=True)):
                wait = min(2 * wait, _LONGEST)
                if not outage.has_failure_with_local_cause and self._clock.now() > began + MAX_SILENT_OUTAGE:
                    outage.give_up_suspects()
                    log.warning("no host has responded for %.0f h: these hosts count as dead", MAX_SILENT_OUTAGE / 3600)
                    return
                self._scouting = True
                self._publish_max_concurrency()
            self._back_at = self._clock.now()
        finally:
            self._scouting = False
            lasted = outage.end_outage(self._clock.now())
            self._publish_max_concurrency()
            self.resolver.forget_failures()
        log.warning("the network is back after %.0f s", lasted)

    async def _wait_for_reached_host(self, seconds: float) -> bool:
        """Wait for any fetch worker to reach any host."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await asyncio.wait({turn}, timeout=seconds)
        if turn.done():
            return True
        if turn in self._waiting:
            self._waiting.remove(turn)
        return False

    def _hosts_to_ask(self) -> Sequence[Host]:
        """Witnesses in turn, the rested first; if there are none, seeds and suspects."""
        suspects, askable = self.outage.suspects, self._enquiry.is_host_free_soon
        hosts = [host for host in dict.fromkeys(reversed(self.outage.witnesses.values())) if askable(host)]
        if not hosts:
            others = dict.fromkeys([*self._seeds, *islice(suspects, 2 * _AT_ONCE)])
            hosts = [host for host in others if askable(host)]
        hosts = [host for host in hosts if not self._enquiry.host_answered_recently(host)] or hosts
        start, self._turn = self._turn % len(hosts) if hosts else 0, self._turn + _AT_ONCE
        in_turn = hosts[start:] + hosts[:start]
        in_turn.sort(key=lambda host: (host in suspects, self._enquiry.seconds_until_host_free(host)))
        return in_turn[: max(_AT_ONCE, self.outage.few - len(suspects))]

    def _witnesses_resolved_earlier(self) -> Sequence[Host]:
        """A few witnesses whose names the DNS has resolved before."""
        witnesses, written = self.outage.witnesses.values(), self.resolver.is_known_without_dns
        return [host for host in witnesses if not written(hostname_of(host))][-_AT_ONCE:]

    async def close(self) -> None:
        self._headroom.close()
        if self._check_task is not None:
            self._check_task.cancel()
            await asyncio.wait({self._check_task})
        await self._there.close()
        await self._named.close()


class UnreachableHostReferral(Protocol):
    """The other agents of a cluster, which may reach a host that we cannot (`policy/local_outage.py`)."""

    def offer_to_others(self, state: HostState, reason: OutcomeReason, *, final: bool) -> HostState | None:
        """The host with a note for the next agent that tries it; None if this agent decides.

        `final`: this would be a verdict; otherwise our own trouble prevents the request.
        """


class FailureAttribution:
    """Every failure passes here on its way to the outage detector. Without other agents our own result counts."""

    def __init__(
        self, prober: OutageDetector, politeness: Politeness, clock: Clock, opinion: UnreachableHostReferral | None
    ):
        self._prober, self._politeness, self._clock, self._opinion = prober, politeness, clock, opinion

    def offer_to_other_agents(self, state: HostState, reason: OutcomeReason) -> HostState | None:
        """The unchanged host, for another agent to try before host or URL are given up; None: give up."""
        noted = self._opinion.offer_to_others(state, reason, final=True) if self._opinion else None
        return noted and self._politeness.state_for_handover(noted, self._clock.now())

    def _postpone_host(self, state: HostState, reason: OutcomeReason, at_least: float = 0.0) -> HostState:
        """Put the host off for our own trouble, or for another agent, which our DNS does not delay."""
        noted = self._opinion.offer_to_others(state, reason, final=False) if self._opinion else None
        now = self._clock.now()
        return self._politeness.after_local_fault(noted or state, now, at_least=0.0 if noted else at_least)

    def remove_own_failures(self, host: Host, state: HostState) -> HostState:
        """The host without the failures that turned out to be ours."""
        ours = self._prober.outage.take_withdrawn_failures(host)
        return msgspec.structs.replace(state, failures=max(0, state.failures - ours)) if ours else state

    def remove_own_tries(self, link: Request) -> Request:
        ours = self._prober.outage.take_withdrawn_tries(link.url)
        return msgspec.structs.replace(link, tries=max(0, link.tries - ours)) if ours else link

    async def postpone_for_local_fault(
        self,
        host: Host,
        state: HostState,
        cause: FailureCause,
        reason: OutcomeReason,
        detail: str,
        at_least: float = 0.0,
    ) -> HostState:
        """Put the host off without counting a failure, unless other hosts are reachable all the time."""
        self._prober.record_failure(host, cause, known=state.pages > 0, address=state.address)
        often = state.put_off + 1 >= MAX_POSTPONEMENTS and cause is not FailureCause.MACHINE
        if often and await self._prober.others_are_reachable(cause):
            verdict = msgspec.structs.replace(state, verdict=reason, detail=detail)
            return self.offer_to_other_agents(state, reason) or verdict
        return self._postpone_host(state, reason, at_least)

    def attribute_failure(
        self,
        host: Host,
        before: HostState,
        after: HostState,
        cause: FailureCause | None,
        reason: OutcomeReason,
        url: str = "",
        *,
        final: bool = False,
        ask: bool = False,
        unheard: bool = False,
        asked: float = 0.0,
    ) -> tuple[bool, HostState]:
        """Whether `after` is fair, and the resulting state of the host.

        Giving up a host or a URL is `final` and must not be rash. For a host, and with `ask`, other hosts
        are checked first. If the request may not have arrived (`unheard`), or a host is given up, another
        agent decides.
        """
        gives_up = bool(after.verdict) and (cause is not None or reason is OutcomeReason.TLS)
        if cause is not None:
            rash = (final or gives_up) and self._prober.is_too_early_to_give_up(host, ask=ask or gives_up)
            self._prober.record_failure(host, cause, known=before.pages > 0, address=before.address)
            if rash or self._prober.is_ignoring_failures:
                return False, self._postpone_host(before, reason, asked)
        if (gives_up or (final and unheard)) and (other := self.offer_to_other_agents(before, reason)) is not None:
            return False, other
        if cause is not None:
            self._prober.outage.record_counted_failures(host, url, failures=after.failures - before.failures)
        return True, after

    async def state_after_host_failure(
        self,
        host: Host,
        state: HostState,
        cause: FailureCause | None,
        reason: OutcomeReason,
        detail: str,
        asked: float = 0.0,
        words: str = "",
    ) -> HostState:
        """State of a host that cannot be fetched from; once it is given up, `reason` is the verdict on its
        URLs.

        `asked` is the number of seconds the host asked us to wait, `words` its wording.
        """
        if cause is not None and cause.is_local:
            return await self.postpone_for_local_fault(host, state, cause, reason, detail, asked)
        bury_after = retry_rule_for(OutcomeReason.ROBOTS_TXT_UNREACHABLE).bury_after
        now = self._clock.now()
        after = self._politeness.after_failure(state, now, retry_after=asked, bury_after=bury_after, asked=words)
        if after.verdict:
            after = msgspec.structs.replace(after, verdict=reason, detail=detail)
        return self.attribute_failure(host, state, after, cause, reason, asked=asked)[1]

    async def after_unknown_name(self, host: Host, state: HostState, detail: str) -> HostState:
        """Accept that the name does not exist, unless the DNS denies every name or the host gave pages
        before."""
        vanished = state.pages and state.put_off + 1 < MAX_POSTPONEMENTS
        if vanished or await self._prober.dns_denies_all_names(host):
            self._prober.resolver.forget_name(hostname_of(host))  # the next visit looks it up again
            return self._postpone_host(state, OutcomeReason.NO_ADDRESS)
        verdict = msgspec.structs.replace(state, verdict=OutcomeReason.NO_ADDRESS, detail=detail)
        return self.offer_to_other_agents(state, OutcomeReason.NO_ADDRESS) or verdict
