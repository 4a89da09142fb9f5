"""Attribution of failures: counted against the host, or put off because our own network is at fault."""

from __future__ import annotations

from typing import Protocol

import msgspec

from fieldmouse.clock import Clock
from fieldmouse.fetch.outage import OutageDetector
from fieldmouse.policy.outage import MAX_POSTPONEMENTS, FailureCause
from fieldmouse.policy.politeness import Politeness
from fieldmouse.policy.retry import rule_for
from fieldmouse.types.host import HostState
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.request import Request
from fieldmouse.url import Host


class SecondOpinion(Protocol):
    """The other agents of a cluster, which may reach a host that we cannot (`policy/outage.py`)."""

    def offer_to_others(self, state: HostState, reason: OutcomeReason, *, final: bool) -> HostState | None:
        """The host with a note for the next agent that tries it; None if this agent decides.

        `final`: this would be a verdict; otherwise our own trouble prevents the request.
        """


class LocalOpinion:
    """Opinion of a crawl without other agents: its own result counts."""

    def offer_to_others(self, state: HostState, reason: OutcomeReason, *, final: bool) -> HostState | None:
        return None


class FailureAttribution:
    """Every failure passes here on its way to the outage detector."""

    def __init__(self, prober: OutageDetector, politeness: Politeness, clock: Clock, opinion: SecondOpinion):
        self._prober, self._politeness, self._clock, self._opinion = prober, politeness, clock, opinion

    def leave_to_others(self, state: HostState, reason: OutcomeReason) -> HostState | None:
        """The unchanged host, for another agent to try before host or URL are given up; None: give up."""
        noted = self._opinion.offer_to_others(state, reason, final=True)
        return noted and self._politeness.after_handover(noted, self._clock.now())

    def _later(self, state: HostState, reason: OutcomeReason, at_least: float = 0.0) -> HostState:
        """Put the host off for our own trouble, or for another agent, which our DNS does not delay."""
        noted = self._opinion.offer_to_others(state, reason, final=False)
        now = self._clock.now()
        return self._politeness.after_local_fault(noted or state, now, at_least=0.0 if noted else at_least)

    def remove_own_failures(self, host: Host, state: HostState) -> HostState:
        """The host without the failures that turned out to be ours."""
        ours = self._prober.outage.take_withdrawn_failures(host)
        return msgspec.structs.replace(state, failures=max(0, state.failures - ours)) if ours else state

    def remove_own_tries(self, link: Request) -> Request:
        ours = self._prober.outage.take_withdrawn_tries(link.url)
        return msgspec.structs.replace(link, tries=max(0, link.tries - ours)) if ours else link

    async def postpone(
        self,
        host: Host,
        state: HostState,
        cause: FailureCause,
        reason: OutcomeReason,
        detail: str,
        at_least: float = 0.0,
    ) -> HostState:
        """Put the host off without counting a failure, unless other hosts are reachable all the time."""
        self._prober.note_failed(host, cause, known=state.pages > 0, address=state.address)
        often = state.put_off + 1 >= MAX_POSTPONEMENTS and cause is not FailureCause.MACHINE
        if often and await self._prober.others_are_reachable(cause):
            verdict = msgspec.structs.replace(state, verdict=reason, detail=detail)
            return self.leave_to_others(state, reason) or verdict
        return self._later(state, reason, at_least)

    def attribute(
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
            self._prober.note_failed(host, cause, known=before.pages > 0, address=before.address)
            if rash or self._prober.ignores_failures:
                return False, self._later(before, reason, asked)
        if (gives_up or (final and unheard)) and (other := self.leave_to_others(before, reason)) is not None:
            return False, other
        if cause is not None:
            self._prober.outage.count_failures(host, url, failures=after.failures - before.failures)
        return True, after

    async def after_host_failure(
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
            return await self.postpone(host, state, cause, reason, detail, asked)
        bury_after = rule_for(OutcomeReason.ROBOTS_TXT_UNREACHABLE).bury_after
        now = self._clock.now()
        after = self._politeness.after_failure(
            state, now, retry_after=asked, bury_after=bury_after, asked=words
        )
        if after.verdict:
            after = msgspec.structs.replace(after, verdict=reason, detail=detail)
        return self.attribute(host, state, after, cause, reason, asked=asked)[1]

    async def after_unknown_name(self, host: Host, state: HostState, detail: str) -> HostState:
        """Accept that the name does not exist, unless the DNS denies every name or the host gave pages
        before."""
        vanished = state.pages and state.put_off + 1 < MAX_POSTPONEMENTS
        if vanished or await self._prober.dns_denies_all_names(host):
            self._prober.forget_name(host)
            return self._later(state, OutcomeReason.NO_ADDRESS)
        verdict = msgspec.structs.replace(state, verdict=OutcomeReason.NO_ADDRESS, detail=detail)
        return self.leave_to_others(state, OutcomeReason.NO_ADDRESS) or verdict
