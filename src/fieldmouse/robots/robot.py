"""One errand, run to its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from fieldmouse.clock import Clock
from fieldmouse.policy.politeness import Politeness, sane_delay
from fieldmouse.policy.retry import next_try, rule_for
from fieldmouse.records import (
    Errand,
    Failed,
    HostState,
    Kind,
    Link,
    Outcome,
    Page,
    Reason,
    Refused,
    Response,
    Ticket,
)
from fieldmouse.robots.answers import outcome_of, retry_after
from fieldmouse.robots.exclusions import Exclusions
from fieldmouse.robots.gate import Gate
from fieldmouse.url import Host, Url, host_of, name_of, path_of
from fieldmouse.web.exclusion import Exclusion, Redirect, Unreachable, lifetime
from fieldmouse.web.fetcher import Fetcher
from fieldmouse.web.resolver import Forbidden, Found, NoAddress, Resolver

_ANSWERED_BY_US = frozenset(
    {Reason.PRIVATE, Reason.HOST_FULL, Reason.EXCLUSION_UNREACHABLE, Reason.EXCLUDED}
)  # verdicts that are refusals; the others are failures of the host
_HOST_WIDE = frozenset({Reason.NO_CONNECTION, Reason.TLS})  # would have met any other URL of the host, too


class Outlet(Protocol):
    """Where a robot's results go."""

    async def deliver(self, ticket: Ticket, outcome: Outcome) -> None: ...

    async def keep(self, link: Link, response: Response) -> None:
        """Archive an answer that is no outcome: a robots.txt."""

    def retry(self, ticket: Ticket, link: Link) -> None: ...

    def sitemaps(self, host: Host, found: Sequence[str]) -> None: ...

    def may_ask(self, ticket: Ticket) -> bool:
        """Whether this page may be asked for now; each yes is followed by one deliver or retry."""


@dataclass(frozen=True, slots=True)
class Manners:
    """What a robot is told once."""

    politeness: Politeness
    obey_exclusion: bool = True
    most_redirects: int = 10
    pages_per_host: int = 0  # 0: no limit
    patience: float = 1.0
    exclusion_bytes: int = 500 << 10


Report = tuple[HostState, Sequence[Ticket]]
"""What is to be remembered of the host, and the tickets that were not used."""


class Robot:
    """Runs errands; has no state of its own, so one serves for all."""

    def __init__(
        self, *, fetcher: Fetcher, resolver: Resolver, exclusions: Exclusions, gate: Gate, clock: Clock,
        manners: Manners, outlet: Outlet,
    ):  # fmt: skip
        self._fetcher, self._resolver, self._exclusions = fetcher, resolver, exclusions
        self._gate, self._clock, self._manners, self._outlet = gate, clock, manners, outlet

    async def run(self, errand: Errand) -> Report:
        state, tickets = errand.state, errand.tickets
        if state.verdict:
            await self._answer_all(tickets, Reason(state.verdict), state.detail)
            return state, ()
        found = await self._resolver.lookup(name_of(errand.host))
        if not isinstance(found, Found):
            return self._unresolved(state, found), tickets
        if found.address != errand.address:
            # The lease is for another address; this one may be in somebody's hands.
            return msgspec.structs.replace(state, address=found.address, address_ready_at=0.0), tickets
        rules = self._exclusions.get(errand.host) if self._manners.obey_exclusion else Exclusion.EVERYTHING
        if rules is None:
            state, rules = await self._exclusion(errand, state)
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
            if manners.pages_per_host and state.pages >= manners.pages_per_host:
                full = msgspec.structs.replace(state, verdict=Reason.HOST_FULL.value)
                return full, errand.tickets[position:]
            if not outlet.may_ask(ticket):
                return state, errand.tickets[position:]
            state, outcome = await self._ask(link, errand.host, errand.address, state)
            if isinstance(outcome, Failed):
                wait = next_try(outcome.reason, link.tries + 1, manners.patience)
                if wait is not None and not state.verdict:
                    later = outcome.at + wait if wait else 0.0
                    outlet.retry(
                        ticket, msgspec.structs.replace(link, tries=link.tries + 1, not_before=later)
                    )
                else:
                    await outlet.deliver(ticket, outcome)
            else:
                await outlet.deliver(ticket, outcome)
            if state.verdict or state.ready_at > self._clock.now():
                return state, errand.tickets[position + 1 :]
        return state, ()

    async def _ask(self, link: Link, host: Host, address: str, state: HostState) -> tuple[HostState, Outcome]:
        """One request and what it means for the URL and for the host."""
        gate, manners = self._gate, self._manners
        await gate.enter(host, address)
        # Should the fetch be cancelled, host and address still rest from now on.
        after = manners.politeness.after_visit(state, self._clock.now(), self._clock.now())
        try:
            answer = await self._fetcher.fetch(link, host, address)
            if isinstance(answer, Failed):
                outcome: Outcome = answer
            else:
                outcome = outcome_of(link, answer, most_redirects=manners.most_redirects)
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
                    state, outcome.at, retry_after=outcome.retry_after, bury_after=rule.bury_after
                )
                return _explained(after, _sentence(outcome))
        response = None if isinstance(outcome, Refused) else outcome.response
        if response is None:
            # No answer is no sign of health: the host rests, and its failures still count.
            now = self._clock.now()
            rested = politeness.after_visit(state, now, now)
            return msgspec.structs.replace(rested, failures=state.failures)
        after = politeness.after_visit(state, response.answered_at, response.ended_at)
        if isinstance(outcome, Page):
            after = msgspec.structs.replace(after, pages=after.pages + 1)
        return after

    async def _exclusion(self, errand: Errand, state: HostState) -> tuple[HostState, Exclusion | None]:
        """Fetch the host's robots.txt; None when there is none to be had for now."""
        host, address = errand.host, errand.address
        target, hops = Url(errand.host + "/robots.txt"), 0
        while True:
            at_home = host == errand.host
            link = Link(target, kind=Kind.EXCLUSION)
            after, answer = await self._ask_exclusion(link, host, address, state if at_home else HostState())
            state = after if at_home else state
            if isinstance(answer, Response):
                await self._outlet.keep(link, answer)
            found: Exclusion | Redirect | Unreachable = await self._exclusions.read(answer, target, hops)
            if isinstance(found, Redirect):
                target, host = found.target, host_of(found.target)
                where = await self._resolver.lookup(name_of(host))
                if isinstance(where, Found):
                    address, hops = where.address, hops + 1
                    continue
                if isinstance(where, NoAddress) and where.temporary:
                    return self._exclusion_unresolved(state, target, where), None
                # A redirect to where nobody is, or where we may not go, is the same as no robots.txt
                # (RFC 9309, 2.3.1.2).
                found = Exclusion.EVERYTHING
            if isinstance(found, Unreachable):
                return self._exclusion_trouble(state, answer, at_home), None
            return self._learn(errand.host, state, found, answer), found

    def _learn(self, host: Host, state: HostState, rules: Exclusion, answer: Response | Failed) -> HostState:
        """Remember the rules, and rest as long as they ask for."""
        self._exclusions.keep(host, rules, lifetime(answer))
        if rules.sitemaps:
            self._outlet.sitemaps(host, rules.sitemaps)
        state = msgspec.structs.replace(state, crawl_delay=sane_delay(rules.crawl_delay), failures=0)
        if isinstance(answer, Response):
            state = self._manners.politeness.after_visit(state, answer.answered_at, answer.ended_at)
        return state

    async def _ask_exclusion(
        self, link: Link, host: Host, address: str, state: HostState
    ) -> tuple[HostState, Response | Failed]:
        gate, politeness = self._gate, self._manners.politeness
        await gate.enter(host, address)
        now = self._clock.now()
        after = politeness.after_visit(state, now, now)
        try:
            answer = await self._fetcher.fetch(link, host, address, body_limit=self._manners.exclusion_bytes)
            if isinstance(answer, Response):
                after = politeness.after_visit(state, answer.answered_at, answer.ended_at)
            else:
                after = politeness.after_visit(state, answer.at, answer.at)
        finally:
            gate.leave(host, address, after.ready_at, after.address_ready_at)
        # Whether the host is well is for the reader of the answer to say.
        return msgspec.structs.replace(after, failures=state.failures), answer

    def _exclusion_unresolved(self, state: HostState, target: Url, where: NoAddress) -> HostState:
        """The DNS cannot say now where robots.txt was moved to: that is no leave to do without it."""
        now = self._clock.now()
        detail = f"redirected to {target}: {where.why}"
        asked = max(0.0, where.expires_at - now)
        return self._in_trouble(state, Reason.EXCLUSION_UNREACHABLE, now, detail, asked)

    def _exclusion_trouble(self, state: HostState, answer: Response | Failed, at_home: bool) -> HostState:
        """Nothing may be fetched until robots.txt can be had; in the end the host is given up."""
        now = self._clock.now()
        if isinstance(answer, Response):
            asked = retry_after(answer.header("retry-after"), now)
            return self._in_trouble(
                state, Reason.EXCLUSION_UNREACHABLE, now, f"status {answer.status}", asked
            )
        if at_home and answer.reason in _HOST_WIDE:
            return self._in_trouble(state, answer.reason, now, answer.detail)
        return self._in_trouble(
            state, Reason.EXCLUSION_UNREACHABLE, now, _sentence(answer), answer.retry_after
        )

    def _unresolved(self, state: HostState, found: Forbidden | NoAddress) -> HostState:
        if isinstance(found, Forbidden):
            detail = f"{found.address} is {found.why}"
            return msgspec.structs.replace(state, verdict=Reason.PRIVATE.value, detail=detail)
        if not found.temporary:
            return msgspec.structs.replace(state, verdict=Reason.NO_ADDRESS.value, detail=found.why)
        now = self._clock.now()
        return self._in_trouble(state, Reason.NO_ADDRESS, now, found.why, max(0.0, found.expires_at - now))

    def _in_trouble(
        self, state: HostState, reason: Reason, now: float, detail: str, asked: float = 0.0
    ) -> HostState:
        """Nothing can be asked of the host; once it is given up, the reason is the verdict on its URLs."""
        rule = rule_for(Reason.NO_ADDRESS if reason is Reason.NO_ADDRESS else Reason.EXCLUSION_UNREACHABLE)
        after = self._manners.politeness.after_trouble(
            state, now, retry_after=asked, bury_after=rule.bury_after
        )
        return msgspec.structs.replace(after, verdict=reason.value, detail=detail) if after.verdict else after

    async def _answer_all(self, tickets: Sequence[Ticket], reason: Reason, detail: str) -> None:
        """Every URL of a host we have a verdict on gets its outcome, without a request."""
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
