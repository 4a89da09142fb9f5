"""Loader of a host's robots.txt, before any other request to the host."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from fieldmouse.fetch.outage import FailureAttribution, OutageDetector
from fieldmouse.fetch.politeness_gate import FetchServices
from fieldmouse.fetch.response_outcome import describe_failure, describe_requested_wait, requested_wait
from fieldmouse.http.dns import FailedLookup, FoundAddress
from fieldmouse.policy.local_outage import FailureCause, cause_of
from fieldmouse.policy.politeness import Politeness, clamp_crawl_delay
from fieldmouse.robotstxt.parser import RobotsTxt, RobotsTxtRedirect, RobotsTxtUnreachable, cache_seconds
from fieldmouse.types.host_state import HostState
from fieldmouse.types.outcome import Failed, Response
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.request import HostVisit, Request, RequestKind
from fieldmouse.url import Host, Url, host_of, hostname_of

_HOST_WIDE = frozenset(
    {OutcomeReason.NO_CONNECTION, OutcomeReason.TLS}
)  # would have failed any other URL of the host, too


class RobotsTxtLoader:
    """Fetches and caches robots.txt. `keep` archives it, `name` receives its sitemaps."""

    def __init__(
        self,
        transport: FetchServices,
        politeness: Politeness,
        size: int,
        prober: OutageDetector,
        blame: FailureAttribution,
        keep: Callable[[Request, Response], Awaitable[None]],
        name: Callable[[Host, Sequence[str]], None],
    ):
        self._fetcher, self._resolver, self._clock = transport.fetcher, transport.resolver, transport.clock
        self._gate, self._exclusions = transport.gate, transport.robots_txt_cache
        self._politeness, self._size = politeness, size
        self._prober, self._blame, self._keep, self._name = prober, blame, keep, name

    async def fetch(self, visit: HostVisit, state: HostState) -> tuple[HostState, RobotsTxt | None]:
        """Fetch the host's robots.txt; None if it is not available for now."""
        after, rules = await self._fetch_following_redirects(visit, state)
        # Other requests go to the host, too: network checks, and redirects of other robots.txt files.
        self._gate.close_host_until(visit.host, after.ready_at)
        return after, rules

    async def _fetch_following_redirects(
        self, visit: HostVisit, state: HostState
    ) -> tuple[HostState, RobotsTxt | None]:
        host, address = visit.host, visit.address
        target, hops = Url(visit.host + "/robots.txt"), 0
        while True:
            is_own = host == visit.host
            link = Request(target, kind=RequestKind.ROBOTS_TXT)
            visited = state if is_own else self._redirect_target_state(host)
            after, answer = await self._fetch_politely(link, host, address, visited)
            state = after if is_own else state
            if isinstance(answer, Response):
                await self._keep(link, answer)
            result: RobotsTxt | RobotsTxtRedirect | RobotsTxtUnreachable = await self._exclusions.parse_response(
                answer, target, hops
            )
            if isinstance(result, RobotsTxtRedirect):
                target, host = result.target, host_of(result.target)
                lookup = await self._resolver.lookup(hostname_of(host))
                if isinstance(lookup, FoundAddress):
                    address, hops = lookup.address, hops + 1
                    continue
                if isinstance(lookup, FailedLookup) and lookup.temporary:
                    return await self._target_unresolved(visit.host, state, target, lookup), None
                # A redirect to an unknown name or a forbidden address counts as no robots.txt (RFC 9309,
                # 2.3.1.2).
                result = RobotsTxt.ALLOW_ALL
            if isinstance(result, RobotsTxtUnreachable):
                return await self._handle_unreachable(visit.host, state, answer, is_own), None
            if not is_own and isinstance(answer, Response) and target == host + "/robots.txt":
                # The redirect target is the target host's own robots.txt: obey its Crawl-delay there, too.
                target_state = HostState(crawl_delay=clamp_crawl_delay(result.crawl_delay))
                self._gate.close_host_until(host, answer.answered_at + self._politeness.host_delay(target_state))
            return self._cache_rules(visit.host, state, result, answer), result

    def _redirect_target_state(self, host: Host) -> HostState:
        """State of a redirect target that this visit does not lease: it has its own Crawl-delay."""
        rules = self._exclusions.get(host)
        return HostState(crawl_delay=clamp_crawl_delay(rules.crawl_delay if rules else None))

    def _cache_rules(self, host: Host, state: HostState, rules: RobotsTxt, answer: Response | Failed) -> HostState:
        """Cache the rules, and rest as long as they ask for."""
        self._exclusions.put(host, rules, cache_seconds(answer))
        if rules.sitemaps:
            self._name(host, rules.sitemaps)
        state = msgspec.structs.replace(state, crawl_delay=clamp_crawl_delay(rules.crawl_delay), failures=0)
        if isinstance(answer, Response):
            state = self._politeness.state_after_visit(state, answer.answered_at, answer.ended_at)
        return state

    async def _fetch_politely(
        self, link: Request, host: Host, address: str, state: HostState
    ) -> tuple[HostState, Response | Failed]:
        gate, politeness = self._gate, self._politeness
        await gate.enter(host, address)
        now = self._clock.now()
        after = politeness.state_after_visit(state, now, now)
        try:
            answer = await self._fetcher.fetch(link, host, address, body_limit=self._size)
            if isinstance(answer, Response):
                after = politeness.state_after_visit(state, answer.answered_at, answer.ended_at)
            else:
                after = politeness.state_after_visit(state, answer.at, answer.at)
        finally:
            gate.leave(host, address, after.ready_at, after.address_ready_at)
        if isinstance(answer, Response) or cause_of(answer) is None:
            self._prober.record_reached(host, address)
        # The caller decides from the response whether the host is healthy.
        as_before = {"failures": state.failures, "put_off": state.put_off, "unreached": state.unreached}
        return msgspec.structs.replace(after, **as_before), answer

    async def _target_unresolved(self, host: Host, state: HostState, target: Url, lookup: FailedLookup) -> HostState:
        """Put the host off if the DNS fails for the redirect target: that does not permit fetching without
        robots.txt."""
        detail, asked = f"redirected to {target}: {lookup.reason}", lookup.expires_at - self._clock.now()
        return await self._blame.postpone_for_local_fault(
            host, state, FailureCause.DNS, OutcomeReason.ROBOTS_TXT_UNREACHABLE, detail, max(0.0, asked)
        )

    async def _handle_unreachable(
        self, host: Host, state: HostState, answer: Response | Failed, is_own: bool
    ) -> HostState:
        """Handle an unreachable robots.txt: nothing may be fetched without it, and in the end the host is
        given up."""
        reason = OutcomeReason.ROBOTS_TXT_UNREACHABLE
        if isinstance(answer, Failed):
            cause, detail = cause_of(answer), describe_failure(answer)
            response, wait = answer.response, answer.retry_after
            if is_own and answer.reason in _HOST_WIDE:
                reason, detail = answer.reason, answer.detail
        else:
            cause, detail = None, f"status {answer.status}"
            response, wait = answer, requested_wait(answer)
        words = describe_requested_wait(response)
        return await self._blame.state_after_host_failure(host, state, cause, reason, detail, wait, words)
