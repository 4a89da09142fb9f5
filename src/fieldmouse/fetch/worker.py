"""Fetch worker: makes one host visit, from DNS lookup to the last outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from fieldmouse.fetch.blame import Blame, OurWord, SecondOpinion
from fieldmouse.fetch.gate import Transport
from fieldmouse.fetch.outage import Prober
from fieldmouse.fetch.responses import asked_words, outcome_of
from fieldmouse.fetch.robotstxt_loader import Rulebook
from fieldmouse.http.dns import Forbidden, FoundAddress, NoAddress
from fieldmouse.policy.name_resolution import is_address
from fieldmouse.policy.outage import Cause, cause_of
from fieldmouse.policy.politeness import Politeness
from fieldmouse.policy.retry import next_try, rule_for
from fieldmouse.robotstxt.parser import Exclusion
from fieldmouse.types.host import HostState
from fieldmouse.types.outcome import Failed, Outcome, Page, Refused, Response
from fieldmouse.types.reason import Reason
from fieldmouse.types.request import Door, Errand, Link, Ticket
from fieldmouse.url import Host, name_of, path_of

_ANSWERED_BY_US = frozenset(
    {Reason.PRIVATE, Reason.HOST_FULL, Reason.EXCLUSION_UNREACHABLE, Reason.EXCLUDED}
)  # verdicts that are refusals; the others are failures of the host


class Outlet(Protocol):
    """Receiver of a fetch worker's results."""

    async def deliver(self, ticket: Ticket, outcome: Outcome) -> None: ...

    async def keep(self, link: Link, response: Response) -> None:
        """Archive a response that is no outcome: a robots.txt."""

    def retry(self, ticket: Ticket, link: Link) -> None: ...

    def sitemaps(self, host: Host, lookup: Sequence[str]) -> None: ...

    def may_ask(self, ticket: Ticket) -> bool:
        """Whether this page may be requested now; each True is followed by one `deliver` or `retry`."""


@dataclass(frozen=True, slots=True)
class Manners:
    """Settings of all fetch workers."""

    politeness: Politeness
    obey_exclusion: bool = True
    most_redirects: int = 10
    pages_per_host: int = 0  # 0: no limit
    patience: float = 1.0
    exclusion_bytes: int = 500 << 10


Report = tuple[HostState, Sequence[Ticket]]
"""The new state of the host, and the unused tickets."""


class Robot:
    """Makes host visits; stateless, so one instance serves all."""

    def __init__(
        self,
        transport: Transport,
        manners: Manners,
        outlet: Outlet,
        prober: Prober | None = None,
        opinion: SecondOpinion | None = None,
    ):
        self._fetcher, self._resolver = transport.fetcher, transport.resolver
        self._gate, self._clock = transport.gate, transport.clock
        self._manners, self._outlet = manners, outlet
        politeness, size = manners.politeness, manners.exclusion_bytes
        self._prober = prober = prober or Prober(transport, politeness, size=size)
        self._blame = Blame(prober, politeness, self._clock, opinion or OurWord())
        self._rulebook = Rulebook(
            transport, politeness, size, prober, self._blame, outlet.keep, outlet.sitemaps
        )

    async def run(self, errand: Errand) -> Report:
        state, tickets = errand.state, errand.tickets
        if state.verdict:
            await self._answer_all(tickets, state.verdict, state.detail)
            return state, ()
        state = self._blame.excuse(errand.host, state)
        lookup = await self._resolver.lookup(name_of(errand.host))
        if not isinstance(lookup, FoundAddress):
            return await self._unresolved(errand.host, state, lookup), tickets
        if lookup.address != errand.address:
            # The lease is for another address; this one may be leased to another visit.
            return msgspec.structs.replace(state, address=lookup.address, address_ready_at=0.0), tickets
        obeys = self._manners.obey_exclusion
        rules = await self._rulebook.recall(errand.host) if obeys else Exclusion.EVERYTHING
        if rules is None:
            state, rules = await self._rulebook.ask(errand, state)
            if rules is None or state.ready_at > self._clock.now():
                return state, tickets
        return await self._ask_all(errand, state, rules)

    async def _ask_all(self, errand: Errand, state: HostState, rules: Exclusion) -> Report:
        outlet, manners = self._outlet, self._manners
        for position, ticket in enumerate(errand.tickets):
            link = ticket.link
            if (rule := rules.objection(path_of(link.url))) is not None:
                await outlet.deliver(ticket, Refused(link, Reason.EXCLUDED, self._clock.now(), rule))
                continue
            if (
                manners.pages_per_host
                and state.pages >= manners.pages_per_host
                and ticket.door is not Door.POLLED
            ):
                if any(later.door is Door.POLLED for later in errand.tickets[position:]):
                    await outlet.deliver(ticket, Refused(link, Reason.HOST_FULL, self._clock.now()))
                    continue
                full = msgspec.structs.replace(state, verdict=Reason.HOST_FULL)
                return full, errand.tickets[position:]
            if not outlet.may_ask(ticket):
                return state, errand.tickets[position:]
            before = state
            state, outcome = await self._ask(link, errand.host, errand.address, state)
            if isinstance(outcome, Failed):
                state = await self._handle_failure(ticket, errand.host, before, state, outcome)
            else:
                await outlet.deliver(ticket, outcome)
            if state.verdict or state.ready_at > self._clock.now():
                return state, errand.tickets[position + 1 :]
        return state, ()

    async def _handle_failure(
        self, ticket: Ticket, host: Host, before: HostState, after: HostState, failed: Failed
    ) -> HostState:
        """Retry the URL or give it up; returns the state of the host, with the failure counted only if that
        is fair."""
        link, cause = self._blame.excuse_link(ticket.link), cause_of(failed)
        if cause is not None and cause.ours:
            state = await self._blame.put_off(host, before, cause, failed.reason, _sentence(failed))
            if state.verdict:
                await self._outlet.deliver(ticket, failed)
            else:
                self._outlet.retry(ticket, link)
            return state
        polled = ticket.door is Door.POLLED
        wait = next_try(failed.reason, link.tries + 1, self._manners.patience, polled=polled)
        # After a successful connection, a silent page does not suggest a network outage.
        ask = failed.reason is Reason.NO_CONNECTION
        unheard = (ask and after.failures > link.tries) or failed.reason is Reason.TLS
        fair, state = self._blame.weigh(
            host, before, after, cause, failed.reason, link.url, final=wait is None, ask=ask, unheard=unheard
        )
        if not fair:
            self._outlet.retry(ticket, link)
        elif wait is not None and not state.verdict:
            later = failed.at + wait if wait else 0.0
            self._outlet.retry(ticket, msgspec.structs.replace(link, tries=link.tries + 1, not_before=later))
        else:
            await self._outlet.deliver(ticket, failed)
        return state

    async def _ask(self, link: Link, host: Host, address: str, state: HostState) -> tuple[HostState, Outcome]:
        """Make one request; returns its effect on the host, and the outcome."""
        gate, manners = self._gate, self._manners
        await gate.enter(host, address)
        # If the fetch is cancelled, host and address still rest from now on.
        after = manners.politeness.after_visit(state, self._clock.now(), self._clock.now())
        try:
            answer = await self._fetcher.fetch(link, host, address)
            if isinstance(answer, Failed):
                outcome: Outcome = answer
                spoke = cause_of(answer) is None and answer.reason is not Reason.UNSIGNED
            else:
                outcome, spoke = outcome_of(link, answer, most_redirects=manners.most_redirects), True
            if spoke:
                self._prober.reached(host, address)
            after = self._after(state, outcome)
        finally:
            gate.leave(host, address, after.ready_at, after.address_ready_at)
        return after, outcome

    def _after(self, state: HostState, outcome: Outcome) -> HostState:
        politeness = self._manners.politeness
        if isinstance(outcome, Failed):
            rule = rule_for(outcome.reason)
            if rule.host and not (rule.once and outcome.link.tries):
                after = politeness.after_trouble(
                    state,
                    outcome.at,
                    retry_after=outcome.retry_after,
                    bury_after=rule.bury_after,
                    asked=asked_words(outcome.response),
                )
                return _explained(after, _sentence(outcome))
        response = None if isinstance(outcome, Refused) else outcome.response
        if response is None:
            # A missing response is no sign of health: the host rests, and its failures still count.
            now = self._clock.now()
            rested = politeness.after_visit(state, now, now)
            return msgspec.structs.replace(rested, failures=state.failures, unreached=state.unreached)
        after = politeness.after_visit(state, response.answered_at, response.ended_at)
        if isinstance(outcome, Page) and outcome.link.door is not Door.POLLED:
            after = msgspec.structs.replace(after, pages=after.pages + 1)
        return after

    async def _unresolved(self, host: Host, state: HostState, lookup: Forbidden | NoAddress) -> HostState:
        if isinstance(lookup, Forbidden):
            detail = f"{lookup.address} is {lookup.why}"
            verdict = msgspec.structs.replace(state, verdict=Reason.PRIVATE, detail=detail)
            if is_address(name_of(host)):
                return verdict
            return self._blame.elsewhere(state, Reason.PRIVATE) or verdict
        if not lookup.temporary:
            return await self._blame.no_such_name(host, state, lookup.why)
        asked = max(0.0, lookup.expires_at - self._clock.now())
        return await self._blame.put_off(host, state, Cause.DNS, Reason.NO_ADDRESS, lookup.why, asked)

    async def _answer_all(self, tickets: Sequence[Ticket], reason: Reason, detail: str) -> None:
        """Deliver the verdict on a host as the outcome of its URLs, without a request."""
        now = self._clock.now()
        for ticket in tickets:
            if reason in _ANSWERED_BY_US:
                await self._outlet.deliver(ticket, Refused(ticket.link, reason, now, detail))
            else:
                await self._outlet.deliver(ticket, Failed(ticket.link, reason, now, detail))


def _sentence(failed: Failed) -> str:
    return f"{failed.reason.value}: {failed.detail}" if failed.detail else failed.reason.value


def _explained(state: HostState, detail: str) -> HostState:
    return msgspec.structs.replace(state, detail=detail) if state.verdict else state
