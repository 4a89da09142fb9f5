"""Fetching under leases: an address lease is acquired before each host visit and released after it.

Hosts of other agents may have the same address. So an agent sends no request to an address without the
coordinator's grant, neither for a page nor for a robots.txt that another host redirects to. And it sends
none after its lease has expired: requests in flight are aborted then, because other agents may soon get
the host.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from errno import ENETUNREACH

import msgspec

from fieldmouse.balancer.choice import Chooser
from fieldmouse.balancer.colleagues import Colleagues
from fieldmouse.balancer.lease import LeaseClock
from fieldmouse.balancer.mailbox import Mailbox
from fieldmouse.clock import Clock
from fieldmouse.policy.opinion import shunned
from fieldmouse.policy.politeness import Politeness
from fieldmouse.records import Errand, Failed, HostState, Link, Reason, Response
from fieldmouse.robots.robot import Report
from fieldmouse.url import Host
from fieldmouse.web.fetcher import Fetcher

_TRIES = 20  # attempts to get an address that another agent holds


class LeasedFetcher:
    """A fetcher that sends requests only under a valid lease, and records response times."""

    def __init__(
        self,
        fetcher: Fetcher,
        *,
        lease: LeaseClock,
        mailbox: Mailbox,
        chooser: Chooser,
        clock: Clock,
        politeness: Politeness,
    ):
        self._fetcher, self._lease, self._mailbox = fetcher, lease, mailbox
        self._chooser, self._clock, self._politeness = chooser, clock, politeness
        self._granted: Counter[str] = Counter()  # addresses of host visits in progress
        self._limits: dict[asyncio.Timeout, str] = {}  # timeouts of requests in flight, with their addresses

    async def fetch(
        self, link: Link, host: Host, address: str, *, body_limit: int | None = None
    ) -> Response | Failed:
        if self._granted[address]:
            return await self._fetch(link, host, address, body_limit)
        # A host that we do not hold: only its address can be leased.
        for _ in range(_TRIES):
            answer = await self._mailbox.ask_address(address, host, 0, HostState())
            if answer.granted:
                try:
                    return await self._fetch(link, host, address, body_limit)
                finally:
                    self._mailbox.free_address(address, self._clock.now() + self._politeness.delay)
            await self._clock.sleep(max(0.05, answer.rest))
        return self._own_failure(link, "another agent holds its address")

    async def _fetch(self, link: Link, host: Host, address: str, body_limit: int | None) -> Response | Failed:
        if not self._lease.valid:
            return self._own_failure(link, "our lease is over")
        try:
            async with asyncio.timeout(self._lease.left) as limit:
                self._limits[limit] = address
                answer = await self._fetcher.fetch(link, host, address, body_limit=body_limit)
        except TimeoutError:
            return self._own_failure(link, "our lease is over")
        finally:
            self._limits.pop(limit, None)
        if isinstance(answer, Response):
            self._chooser.took(host, answer.answered_at - answer.started_at)
        return answer

    def _own_failure(self, link: Link, why: str) -> Failed:
        """A failure that is not counted against the host."""
        return Failed(link, Reason.NO_CONNECTION, self._clock.now(), why, errno=ENETUNREACH)

    def extend(self) -> None:
        """Extend requests in flight after the lease was renewed."""
        at = asyncio.get_running_loop().time() + self._lease.left
        for limit in self._limits:
            # an expired timeout cannot be rescheduled, and its request may not have noticed yet
            if not limit.expired():
                limit.reschedule(at)

    def hang_up(self, address: str) -> None:
        """Abort requests to an address that is no longer ours."""
        now = asyncio.get_running_loop().time()
        for limit in [limit for limit, where in self._limits.items() if where == address]:
            del self._limits[limit]  # so that `extend` skips it
            if not limit.expired():
                limit.reschedule(now)

    async def close(self) -> None:
        await self._fetcher.close()

    def grant(self, address: str) -> None:
        self._granted[address] += 1

    def withdraw(self, address: str) -> None:
        self._granted[address] -= 1
        if not self._granted[address]:
            del self._granted[address]


class LeasedErrands:
    """Runs host visits under leases; the fetch pool calls it instead of the plain dispatcher."""

    def __init__(
        self,
        run: Callable[[Errand], Awaitable[Report]],
        *,
        fetcher: LeasedFetcher,
        mailbox: Mailbox,
        chooser: Chooser,
        clock: Clock,
        epoch_of: Callable[[Host], int],
        politeness: Politeness,
        colleagues: Colleagues,
    ):
        self._run, self._fetcher, self._mailbox = run, fetcher, mailbox
        self._chooser, self._clock, self._epoch_of = chooser, clock, epoch_of
        self._politeness, self._colleagues = politeness, colleagues

    async def run(self, errand: Errand) -> Report:
        report = await self._run_leased(self._colleagues.visit(errand))
        if report[0].unreached and (heir := self._colleagues.heir(errand.state, report[0])):
            self._chooser.prefers(errand.host, heir)
        return report

    async def _run_leased(self, errand: Errand) -> Report:
        address, state, now = errand.address, errand.state, self._clock.now()
        if not address or state.verdict:
            return await self._run(errand)
        answer = await self._mailbox.ask_address(address, errand.host, self._epoch_of(errand.host), state)
        if not answer.granted:
            if answer.holder and answer.holder not in shunned(state.unreached, now):
                self._chooser.prefers(errand.host, answer.holder)
            later = self._clock.now() + max(0.05, answer.rest)
            return msgspec.structs.replace(state, address_ready_at=later), errand.tickets
        self._chooser.queued(errand.host, max(0.0, now - max(state.ready_at, state.address_ready_at)))
        self._fetcher.grant(address)
        free_at = self._clock.now() + self._politeness.host_delay(state)  # if the visit is cancelled
        try:
            report = await self._run(errand)
            free_at = report[0].address_ready_at
            return report
        finally:
            self._fetcher.withdraw(address)
            self._mailbox.free_address(address, free_at)
