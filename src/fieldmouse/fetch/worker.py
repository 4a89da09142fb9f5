"""Fetch workers and their pool: host visits, from DNS lookup to the last outcome, as many as the concurrency rule
allows.

The pool asks its rule how many fetch workers may run at the present buffer level, and starts that many
host visits. A fetch worker that returns takes the next visit at once. When no host is ready the pool
sleeps until one is, or until a wake-up signal after a change. When the rule wants fewer, a fetch worker
finishes the request in flight, since its host has served that already, and returns instead of making
another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from fieldmouse.aio import WakeUpCallbacks, cancel_and_wait
from fieldmouse.backpressure_state import BackpressureState
from fieldmouse.clock import Clock
from fieldmouse.fetch.outage import FailureAttribution, OutageDetector, UnreachableHostReferral
from fieldmouse.fetch.politeness_gate import FetchServices
from fieldmouse.fetch.response_outcome import describe_failure, describe_requested_wait, outcome_of
from fieldmouse.fetch.robotstxt_loader import RobotsTxtLoader
from fieldmouse.http.dns import FailedLookup, ForbiddenAddress, FoundAddress
from fieldmouse.policy.dns_and_header_options import is_address
from fieldmouse.policy.local_outage import FailureCause, cause_of
from fieldmouse.policy.politeness import Politeness
from fieldmouse.policy.retry import retry_rule_for, retry_wait
from fieldmouse.robotstxt.parser import RobotsTxt
from fieldmouse.types.host_state import HostState
from fieldmouse.types.outcome import Failed, Outcome, Page, Refused, Response
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.request import FrontierEntry, HostVisit, NumberedRequest, Request
from fieldmouse.url import Host, hostname_of, path_of

_ANSWERED_BY_US = frozenset(
    {
        OutcomeReason.PRIVATE_ADDRESS,
        OutcomeReason.HOST_FULL,
        OutcomeReason.ROBOTS_TXT_UNREACHABLE,
        OutcomeReason.ROBOTS_TXT_EXCLUDED,
    }
)  # verdicts that are refusals; the others are failures of the host


class ResultReceiver(Protocol):
    """Receiver of a fetch worker's results."""

    async def deliver(self, ticket: NumberedRequest, outcome: Outcome) -> None: ...

    async def archive_robots_txt(self, link: Request, response: Response) -> None:
        """Archive a response that is no outcome: a robots.txt."""

    def requeue_failed_request(self, ticket: NumberedRequest, link: Request) -> None: ...

    def queue_sitemaps(self, host: Host, found: Sequence[str]) -> None: ...

    def try_start_fetch(self, ticket: NumberedRequest) -> bool:
        """Whether this page may be requested now; each True is followed by one `deliver` or `requeue`."""


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """Settings of all fetch workers."""

    politeness: Politeness
    obey_robots_txt: bool = True
    max_redirects: int = 10
    pages_per_host: int = 0  # 0: no limit
    retry_patience: float = 1.0
    max_robots_txt_bytes: int = 500 << 10


#: The new state of the host, and the unused tickets.
VisitReport = tuple[HostState, Sequence[NumberedRequest]]


class FetchWorker:
    """Makes host visits; stateless, so one instance serves all."""

    def __init__(
        self,
        transport: FetchServices,
        manners: FetchSettings,
        result_receiver: ResultReceiver,
        prober: OutageDetector | None = None,
        opinion: UnreachableHostReferral | None = None,
    ):
        self._fetcher, self._resolver = transport.fetcher, transport.resolver
        self._gate, self._clock, self._exclusions = transport.gate, transport.clock, transport.robots_txt_cache
        self._manners, self._result_receiver = manners, result_receiver
        politeness, size = manners.politeness, manners.max_robots_txt_bytes
        self._prober = prober = prober or OutageDetector(transport, politeness, size=size)
        self._blame = FailureAttribution(prober, politeness, self._clock, opinion)
        self._rulebook = RobotsTxtLoader(
            transport,
            politeness,
            size,
            prober,
            self._blame,
            result_receiver.archive_robots_txt,
            result_receiver.queue_sitemaps,
        )

    async def visit_host(self, visit: HostVisit) -> VisitReport:
        state, tickets = visit.state, visit.tickets
        if state.verdict:
            await self._deliver_verdict(tickets, state.verdict, state.detail)
            return state, ()
        state = self._blame.remove_own_failures(visit.host, state)
        lookup = await self._resolver.lookup(hostname_of(visit.host))
        if not isinstance(lookup, FoundAddress):
            return await self._state_if_unresolved(visit.host, state, lookup), tickets
        if lookup.address != visit.address:
            # The lease is for another address; this one may be leased to another visit.
            return msgspec.structs.replace(state, address=lookup.address, address_ready_at=0.0), tickets
        obeys = self._manners.obey_robots_txt
        rules = await self._exclusions.get_without_blocking(visit.host) if obeys else RobotsTxt.ALLOW_ALL
        if rules is None:
            state, rules = await self._rulebook.fetch(visit, state)
            if rules is None or state.ready_at > self._clock.now():
                return state, tickets
        return await self._fetch_until_host_rests(visit, state, rules)

    async def _fetch_until_host_rests(self, visit: HostVisit, state: HostState, rules: RobotsTxt) -> VisitReport:
        result_receiver, manners = self._result_receiver, self._manners
        for position, ticket in enumerate(visit.tickets):
            link = ticket.link
            if (rule := rules.forbidding_rule(path_of(link.url))) is not None:
                await result_receiver.deliver(
                    ticket, Refused(link, OutcomeReason.ROBOTS_TXT_EXCLUDED, self._clock.now(), rule)
                )
                continue
            if (
                manners.pages_per_host
                and state.pages >= manners.pages_per_host
                and ticket.frontier_entry is not FrontierEntry.POLLED
            ):
                if any(later.frontier_entry is FrontierEntry.POLLED for later in visit.tickets[position:]):
                    await result_receiver.deliver(ticket, Refused(link, OutcomeReason.HOST_FULL, self._clock.now()))
                    continue
                full = msgspec.structs.replace(state, verdict=OutcomeReason.HOST_FULL)
                return full, visit.tickets[position:]
            if not result_receiver.try_start_fetch(ticket):
                return state, visit.tickets[position:]
            before = state
            state, outcome = await self._fetch_one(link, visit.host, visit.address, state)
            if isinstance(outcome, Failed):
                state = await self._handle_failure(ticket, visit.host, before, state, outcome)
            else:
                await result_receiver.deliver(ticket, outcome)
            if state.verdict or state.ready_at > self._clock.now():
                return state, visit.tickets[position + 1 :]
        return state, ()

    async def _handle_failure(
        self, ticket: NumberedRequest, host: Host, before: HostState, after: HostState, failed: Failed
    ) -> HostState:
        """Retry the URL or give it up; returns the state of the host, with the failure counted only if that
        is fair."""
        link, cause = self._blame.remove_own_tries(ticket.link), cause_of(failed)
        if cause is not None and cause.is_local:
            state = await self._blame.postpone_for_local_fault(
                host, before, cause, failed.reason, describe_failure(failed)
            )
            if state.verdict:
                await self._result_receiver.deliver(ticket, failed)
            else:
                self._result_receiver.requeue_failed_request(ticket, link)
            return state
        polled = ticket.frontier_entry is FrontierEntry.POLLED
        wait = retry_wait(failed.reason, link.tries + 1, self._manners.retry_patience, polled=polled)
        # After a successful connection, a silent page does not suggest a network outage.
        ask = failed.reason is OutcomeReason.NO_CONNECTION
        unheard = (ask and after.failures > link.tries) or failed.reason is OutcomeReason.TLS
        fair, state = self._blame.attribute_failure(
            host, before, after, cause, failed.reason, link.url, final=wait is None, ask=ask, unheard=unheard
        )
        if not fair:
            self._result_receiver.requeue_failed_request(ticket, link)
        elif wait is not None and not state.verdict:
            later = failed.at + wait if wait else 0.0
            again = msgspec.structs.replace(link, tries=link.tries + 1, not_before=later)
            self._result_receiver.requeue_failed_request(ticket, again)
        else:
            await self._result_receiver.deliver(ticket, failed)
        return state

    async def _fetch_one(self, link: Request, host: Host, address: str, state: HostState) -> tuple[HostState, Outcome]:
        """Make one request; returns its effect on the host, and the outcome."""
        gate, manners = self._gate, self._manners
        await gate.enter(host, address)
        # If the fetch is cancelled, host and address still rest from now on.
        after = manners.politeness.state_after_visit(state, self._clock.now(), self._clock.now())
        try:
            answer = await self._fetcher.fetch(link, host, address)
            if isinstance(answer, Failed):
                outcome: Outcome = answer
                spoke = cause_of(answer) is None and answer.reason is not OutcomeReason.NOT_SIGNED
            else:
                outcome, spoke = outcome_of(link, answer, most_redirects=manners.max_redirects), True
            if spoke:
                self._prober.record_reached(host, address)
            after = self._state_after(state, outcome)
        finally:
            gate.leave(host, address, after.ready_at, after.address_ready_at)
        return after, outcome

    def _state_after(self, state: HostState, outcome: Outcome) -> HostState:
        politeness = self._manners.politeness
        if isinstance(outcome, Failed):
            rule = retry_rule_for(outcome.reason)
            if rule.host and not (rule.once and outcome.link.tries):
                after = politeness.after_failure(
                    state,
                    outcome.at,
                    retry_after=outcome.retry_after,
                    bury_after=rule.bury_after,
                    asked=describe_requested_wait(outcome.response),
                )
                return msgspec.structs.replace(after, detail=describe_failure(outcome)) if after.verdict else after
        response = None if isinstance(outcome, Refused) else outcome.response
        if response is None:
            # A missing response is no sign of health: the host rests, and its failures still count.
            now = self._clock.now()
            rested = politeness.state_after_visit(state, now, now)
            return msgspec.structs.replace(rested, failures=state.failures, unreached=state.unreached)
        after = politeness.state_after_visit(state, response.answered_at, response.ended_at)
        if isinstance(outcome, Page) and outcome.link.door is not FrontierEntry.POLLED:
            after = msgspec.structs.replace(after, pages=after.pages + 1)
        return after

    async def _state_if_unresolved(
        self, host: Host, state: HostState, lookup: ForbiddenAddress | FailedLookup
    ) -> HostState:
        if isinstance(lookup, ForbiddenAddress):
            detail = f"{lookup.address} is {lookup.reason}"
            verdict = msgspec.structs.replace(state, verdict=OutcomeReason.PRIVATE_ADDRESS, detail=detail)
            if is_address(hostname_of(host)):
                return verdict
            return self._blame.offer_to_other_agents(state, OutcomeReason.PRIVATE_ADDRESS) or verdict
        if not lookup.temporary:
            return await self._blame.after_unknown_name(host, state, lookup.reason)
        asked = max(0.0, lookup.expires_at - self._clock.now())
        return await self._blame.postpone_for_local_fault(
            host, state, FailureCause.DNS, OutcomeReason.NO_ADDRESS, lookup.reason, asked
        )

    async def _deliver_verdict(self, tickets: Sequence[NumberedRequest], reason: OutcomeReason, detail: str) -> None:
        """Deliver the verdict on a host as the outcome of its URLs, without a request."""
        now = self._clock.now()
        for ticket in tickets:
            answer = Refused if reason in _ANSWERED_BY_US else Failed
            await self._result_receiver.deliver(ticket, answer(ticket.link, reason, now, detail))


class ActiveWorkers:
    """The fetch pool adds and removes fetch workers; each checks here between two requests."""

    def __init__(self, meter: BackpressureState):
        self._meter = meter
        self.tasks: set[asyncio.Task[None]] = set()
        self._recalled: set[asyncio.Task[None]] = set()  # told to stop after their current request

    def __len__(self) -> int:
        """Fetch workers on a host visit."""
        return len(self.tasks)

    def add(self, task: asyncio.Task[None]) -> None:
        self.tasks.add(task)
        self._meter.set_active_visits(len(self.tasks))

    def remove(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        self._recalled.discard(task)
        self._meter.set_active_visits(len(self.tasks))

    def may_continue(self) -> bool:
        """Whether the calling fetch worker may make another request, with the present limit."""
        task = asyncio.current_task()
        if task in self._recalled:
            return False
        if len(self.tasks) - len(self._recalled) <= self._meter.concurrency:
            return True
        if task in self.tasks:
            self._recalled.add(task)
        return False


class ConcurrencyRule(Protocol):
    def concurrency_at(self, level: int) -> int: ...


class FetchPool:
    def __init__(
        self,
        *,
        rule: ConcurrencyRule,
        meter: BackpressureState,
        roster: ActiveWorkers,
        bell: WakeUpCallbacks,
        clock: Clock,
        take: Callable[[], HostVisit | None],
        ready_at: Callable[[], float | None],
        run: Callable[[HostVisit], Awaitable[VisitReport]],
        give_back: Callable[[HostVisit, VisitReport], None],
        on_change: Callable[[], None] = lambda: None,
    ):
        """`on_change` is called when the rule has changed or a fetch worker has returned."""
        self._rule, self._meter, self._roster, self._clock = rule, meter, roster, clock
        self._take, self._ready_at, self._run, self._give_back = take, ready_at, run, give_back
        self._on_change = on_change
        self._nudged = False
        self._stopped = False
        self._alarm: asyncio.TimerHandle | None = None
        meter.on_change(self._update_concurrency)
        bell.add_listener(self.wake)

    def _update_concurrency(self) -> None:
        """Update the allowed number after a change of the level, the network or the rule."""
        meter = self._meter
        meter.set_concurrency(0 if meter.paused else min(self._rule.concurrency_at(meter.level), meter.max_by_network))

    def set_rule(self, rule: ConcurrencyRule) -> None:
        """Replace the rule."""
        self._rule = rule
        self._update_concurrency()
        self._on_change()
        self.wake()

    def wake(self) -> None:
        """Check soon whether more fetch workers can start."""
        if not self._nudged and not self._stopped:
            self._nudged = True
            asyncio.get_running_loop().call_soon(self._start_visits)

    def _start_visits(self) -> None:
        self._nudged = False
        if self._stopped:
            return
        while len(self._roster) < self._meter.concurrency:
            visit = self._take()
            if visit is None:
                self._schedule_wake()
                return
            task = asyncio.get_running_loop().create_task(self._visit_loop(visit))
            self._roster.add(task)
            task.add_done_callback(self._worker_returned)

    async def _visit_loop(self, visit: HostVisit | None) -> None:
        while visit is not None:
            self._give_back(visit, await self._run(visit))
            # A visit may have run without awaiting anything; give other tasks a turn.
            await asyncio.sleep(0)
            if self._stopped or not self._roster.may_continue():
                return
            visit = self._take()

    def _worker_returned(self, task: asyncio.Task[None]) -> None:
        self._roster.remove(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error
        self._on_change()
        self.wake()

    def _schedule_wake(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        at = self._ready_at()
        if at is not None:
            # A host is ready but no visit started: the pages in flight reach the page limit. Do not spin.
            wait = at - self._clock.now() if at > self._clock.now() else 0.01
            self._alarm = asyncio.get_running_loop().call_later(wait, self.wake)

    async def stop(self, grace: float) -> None:
        """Start no visits; wait `grace` seconds for the running ones, then cancel them."""
        self._stopped = True
        if self._alarm is not None:
            self._alarm.cancel()
        out = self._roster.tasks
        if out:
            await asyncio.wait(out, timeout=grace)
        await cancel_and_wait(out)
