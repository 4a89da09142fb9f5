"""Attribution of failures: counted against the host, or put off because our own network is at fault."""

from __future__ import annotations

from typing import Protocol

import msgspec

from fieldmouse.clock import Clock
from fieldmouse.fetch.outage import Prober
from fieldmouse.policy.outage import PUT_OFFS, Cause
from fieldmouse.policy.politeness import Politeness
from fieldmouse.policy.retry import rule_for
from fieldmouse.types.host import HostState
from fieldmouse.types.reason import Reason
from fieldmouse.types.request import Link
from fieldmouse.url import Host


class SecondOpinion(Protocol):
    """The other agents of a cluster, which may reach a host that we cannot (`policy/outage`)."""

    def hand_on(self, state: HostState, reason: Reason, *, final: bool) -> HostState | None:
        """The host with a note for the next agent that tries it; None if this agent decides.

        `final`: this would be a verdict; otherwise our own trouble prevents the request.
        """


class OurWord:
    """Opinion of a crawl without other agents: its own result counts."""

    def hand_on(self, state: HostState, reason: Reason, *, final: bool) -> HostState | None:
        return None


class Blame:
    """Every failure passes here on its way to the outage detector."""

    def __init__(self, prober: Prober, politeness: Politeness, clock: Clock, opinion: SecondOpinion):
        self._prober, self._politeness, self._clock, self._opinion = prober, politeness, clock, opinion

    def elsewhere(self, state: HostState, reason: Reason) -> HostState | None:
        """The unchanged host, for another agent to try before host or URL are given up; None: give up."""
        noted = self._opinion.hand_on(state, reason, final=True)
        return noted and self._politeness.handed_on(noted, self._clock.now())

    def _later(self, state: HostState, reason: Reason, at_least: float = 0.0) -> HostState:
        """Put the host off for our own trouble, or for another agent, which our DNS does not delay."""
        noted = self._opinion.hand_on(state, reason, final=False)
        now = self._clock.now()
        return self._politeness.put_off(noted or state, now, at_least=0.0 if noted else at_least)

    def excuse(self, host: Host, state: HostState) -> HostState:
        """The host without the failures that turned out to be ours."""
        ours = self._prober.outage.excused(host)
        return msgspec.structs.replace(state, failures=max(0, state.failures - ours)) if ours else state

    def excuse_link(self, link: Link) -> Link:
        ours = self._prober.outage.excused_tries(link.url)
        return msgspec.structs.replace(link, tries=max(0, link.tries - ours)) if ours else link

    async def put_off(
        self, host: Host, state: HostState, cause: Cause, reason: Reason, detail: str, at_least: float = 0.0
    ) -> HostState:
        """Put the host off without counting a failure, unless other hosts are reachable all the time."""
        self._prober.failed(host, cause, known=state.pages > 0, address=state.address)
        often = state.put_off + 1 >= PUT_OFFS and cause is not Cause.MACHINE
        if often and await self._prober.others_are_fine(cause):
            verdict = msgspec.structs.replace(state, verdict=reason, detail=detail)
            return self.elsewhere(state, reason) or verdict
        return self._later(state, reason, at_least)

    def weigh(
        self,
        host: Host,
        before: HostState,
        after: HostState,
        cause: Cause | None,
        reason: Reason,
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
        gives_up = bool(after.verdict) and (cause is not None or reason is Reason.TLS)
        if cause is not None:
            rash = (final or gives_up) and self._prober.is_rash(host, ask=ask or gives_up)
            self._prober.failed(host, cause, known=before.pages > 0, address=before.address)
            if rash or self._prober.lenient:
                return False, self._later(before, reason, asked)
        if (gives_up or (final and unheard)) and (other := self.elsewhere(before, reason)) is not None:
            return False, other
        if cause is not None:
            self._prober.outage.counted(host, url, failures=after.failures - before.failures)
        return True, after

    async def in_trouble(
        self,
        host: Host,
        state: HostState,
        cause: Cause | None,
        reason: Reason,
        detail: str,
        asked: float = 0.0,
        words: str = "",
    ) -> HostState:
        """State of a host that cannot be fetched from; once it is given up, `reason` is the verdict on its
        URLs.

        `asked` is the number of seconds the host asked us to wait, `words` its wording.
        """
        if cause is not None and cause.ours:
            return await self.put_off(host, state, cause, reason, detail, asked)
        bury_after = rule_for(Reason.EXCLUSION_UNREACHABLE).bury_after
        now = self._clock.now()
        after = self._politeness.after_trouble(
            state, now, retry_after=asked, bury_after=bury_after, asked=words
        )
        if after.verdict:
            after = msgspec.structs.replace(after, verdict=reason, detail=detail)
        return self.weigh(host, state, after, cause, reason, asked=asked)[1]

    async def no_such_name(self, host: Host, state: HostState, detail: str) -> HostState:
        """Accept that the name does not exist, unless the DNS denies every name or the host gave pages
        before."""
        vanished = state.pages and state.put_off + 1 < PUT_OFFS
        if vanished or await self._prober.denies_all(host):
            self._prober.doubt_name(host)
            return self._later(state, Reason.NO_ADDRESS)
        verdict = msgspec.structs.replace(state, verdict=Reason.NO_ADDRESS, detail=detail)
        return self.elsewhere(state, Reason.NO_ADDRESS) or verdict
