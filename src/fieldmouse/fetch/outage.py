"""Outage detector: tells failures of our network from failures of hosts.

Fetch workers report the hosts they reached and those they did not. When this looks like an outage of our
network (`policy/outage.py` decides), hosts that were reached before are asked for their robots.txt. There is one
check at a time, all failing hosts share its result, and the result is kept for a while. If one host responds,
the failing hosts are at fault. If none does, the fetch pool rests, the user is told once, and the check is
repeated after 1, 2, 4, ... 60 seconds until a host responds. Each time a single fetch worker runs as well,
because it may reach hosts that were never tried.

A machine without free file descriptors continues with fewer fetch workers, and slowly with more again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from itertools import islice
from typing import Any

from fieldmouse.aio import Bell
from fieldmouse.backpressure import Meter
from fieldmouse.clock import Clock
from fieldmouse.fetch.fd_limit import Headroom
from fieldmouse.fetch.gate import Transport
from fieldmouse.http.dns import FoundAddress
from fieldmouse.policy.outage import BENEFIT, LONGEST, WITNESSES, Cause, Outage, cause_of
from fieldmouse.policy.politeness import LONGEST_PUT_OFF, Politeness, sane_delay
from fieldmouse.robotstxt.parser import Exclusion
from fieldmouse.types.host import HostState
from fieldmouse.types.outcome import Response
from fieldmouse.types.request import Kind, Link
from fieldmouse.url import Host, Url, name_of

# seconds for which a result is kept, and in which a witness is not asked again if there are others
TRUST = 60.0
_SHORT_REST, _LONG_REST = 5.0, 60.0  # longest wait for a witness to be rested, in seconds
_PATIENCE = 30.0  # seconds for a response, from when the witness is rested


class Shared:
    """A check that runs once at a time and shares its result."""

    def __init__(self, clock: Clock, ask: Callable[[], Coroutine[Any, Any, bool]]):
        self._clock, self._ask = clock, ask
        self._task: asyncio.Task[bool] | None = None
        self._answer, self._answered_at = False, float("-inf")

    async def answer(self, *, fresh: bool = False) -> bool:
        """The result of a running check, else the last one unless it is old, else of a new check.

        With `fresh`, a result from before this call is not used.
        """
        if self._task is None:
            if not fresh and self._clock.now() < self._answered_at + TRUST:
                return self._answer
            self._task = asyncio.get_running_loop().create_task(self._run())
        # A cancelled caller must not cancel the check of the others.
        return await asyncio.shield(self._task)

    async def _run(self) -> bool:
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


class Enquiry:
    """Requests the robots.txt of a few hosts, through the gate like any other request."""

    def __init__(
        self, transport: Transport, politeness: Politeness, size: int, on_answer: Callable[[Host, str], None]
    ):
        """`size` limits the bytes of a robots.txt; `on_answer` gets host and address of each response."""
        self._transport, self._gate, self._clock = transport, transport.gate, transport.clock
        self._politeness, self._size, self._on_answer = politeness, size, on_answer
        self._answered: dict[Host, float] = {}  # time of each host's response; the latest last
        self._longest_rest = min(max(_SHORT_REST, politeness.delay), _LONG_REST)

    def rests(self, host: Host) -> float:
        """Seconds until the host may be visited."""
        return max(0.0, self._gate.rests(host))

    def askable(self, host: Host) -> bool:
        """Whether the host is rested soon. A host that asked for an hour's pause is no witness then."""
        return self._gate.rests(host) <= self._longest_rest

    def answered_lately(self, host: Host) -> bool:
        """Whether the host answered this check a moment ago."""
        return self._clock.now() < self._answered.get(host, float("-inf")) + TRUST

    async def any_answers(self, hosts: Iterable[Host]) -> bool:
        """Whether one of the hosts responds in time."""
        tasks = {asyncio.ensure_future(self._ask(host)) for host in hosts}
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

    async def any_is_named(self, hosts: Iterable[Host]) -> bool:
        """Whether a fresh DNS lookup finds the name of one of the hosts. It sends the hosts no request."""
        began, names = self._clock.now(), {name_of(host) for host in hosts}
        await asyncio.gather(*(self._transport.resolver.lookup(name, fresh=True) for name in sorted(names)))
        return self._transport.resolver.heard_at >= began

    async def _ask(self, host: Host) -> bool:
        """Whether the host responds to one polite request for its robots.txt, which is always allowed."""
        lookup = await self._transport.resolver.lookup(name_of(host), fresh=True)
        if not isinstance(lookup, FoundAddress):
            return False
        address, url = lookup.address, Url(host + "/robots.txt")
        await self._gate.enter(host, address)
        now = self._clock.now()
        rules = self._transport.exclusions.get(host)
        state = HostState(crawl_delay=sane_delay(rules.crawl_delay if rules else None))
        after = self._politeness.after_visit(state, now, now)
        try:
            answer = await self._transport.fetcher.fetch(
                Link(url, kind=Kind.EXCLUSION), host, address, body_limit=self._size
            )
            if isinstance(answer, Response):
                read = await self._transport.exclusions.read(answer, url, 0)
                if isinstance(read, Exclusion) and rules is None:
                    state = HostState(crawl_delay=sane_delay(read.crawl_delay))
                after = self._politeness.after_visit(state, answer.answered_at, answer.ended_at)
            else:
                after = self._politeness.after_visit(state, answer.at, answer.at)
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


log = logging.getLogger(__name__)

MOMENT = 1.0  # seconds in which a fetch worker may reach a host by itself, before a check starts
_LONGEST = 60.0  # seconds between two checks
_AT_ONCE = 3  # hosts asked per check
_TRUST = 30.0  # seconds after a response in which no check starts; failures count as usual
_SEEDS = 64  # hosts to ask if no host was ever reached
_HOLD = 10.0  # seconds for which the fetch pool waits for a check
_LATELY = 10.0  # seconds for which a page, or a resolved name, counts as a successful check


class Prober:
    def __init__(
        self,
        transport: Transport,
        politeness: Politeness,
        *,
        size: int = 500 << 10,
        seeds: Iterable[Host] = (),
        meter: Meter | None = None,
        bell: Bell | None = None,
    ):
        """The concurrency that the network allows is written to the `meter`."""
        self._resolver, self._clock = transport.resolver, transport.clock
        self._seeds, self._meter, self._bell = list(islice(seeds, _SEEDS)), meter or Meter(), bell or Bell()
        self.outage = Outage()
        self._enquiry = Enquiry(transport, politeness, size, self._record_response)
        self._there = Shared(self._clock, lambda: self._enquiry.any_answers(self._candidates()))
        self._named = Shared(self._clock, lambda: self._enquiry.any_is_named(self._named_witnesses()))
        self._check_task: asyncio.Task[None] | None = None
        self._waiting: list[asyncio.Future[None]] = []  # callers waiting until any host is reached
        self._benefit = self._probing = self._warned_of_dns = False
        self._scouting = False  # one fetch worker may run in spite of the outage
        self._responded_at = self._reached_at = self._back_at = float("-inf")
        self._headroom = Headroom(self._clock, self._meter, self._publish)
        self._turn = 0

    @property
    def out(self) -> bool:
        """Whether there is an outage."""
        return self.outage.since is not None

    @property
    def lenient(self) -> bool:
        """Whether failures are not counted at the moment."""
        return self._benefit or self.outage.since is not None

    def _publish(self) -> None:
        """Publish the concurrency that the network and our descriptors allow."""
        most = 0 if self._probing else self._headroom.robots
        self._meter.note_most(int(self._scouting) if self.out else most, cut_off=self.out)
        self._bell.ring()

    # -- reports of fetch workers

    def reached(self, host: Host, address: str) -> None:
        self._reached_at = self._clock.now()
        self.outage.reached(host, address)
        if self._waiting:
            for turn in self._waiting:
                if not turn.done():
                    turn.set_result(None)
            self._waiting.clear()

    def failed(self, host: Host, cause: Cause, *, known: bool = False, address: str = "") -> None:
        if self._scouting:
            self._scouting = False
            self._publish()
        if cause is Cause.MACHINE:
            self._headroom.squeeze(MOMENT)
            return
        self.outage.failed(host, cause, known=known, address=address)
        if self.outage.suspicious:
            self._start_check()

    # -- questions of fetch workers

    def is_rash(self, host: Host, *, ask: bool) -> bool:
        """Whether giving up the host or a URL of it after this failure would be rash.

        With `ask`, other hosts are checked if necessary; until they have responded, giving up is rash.
        """
        if self.outage.unfair(host):
            return True
        if not ask or not self.outage.comparable(host) or self._trusts:
            return False
        self._start_check()
        return True

    async def denies_all(self, host: Host) -> bool:
        """Whether the DNS denies the host's name because it denies every name.

        Reached hosts prove nothing here, because addresses are cached; only a resolved name does.
        """
        began, resolver, denied = self._clock.now(), self._resolver, self.outage.denied
        self.outage.deny(host, began, named_at=resolver.heard_at)
        await self._clock.sleep(MOMENT)
        if resolver.heard_at >= began or (len(denied) < self.outage.few and not self.out):
            return False
        names = self._named_witnesses()
        await self._enquiry.any_is_named(names)
        if resolver.heard_at >= began or not (names or began < min(denied.values()) + BENEFIT):
            return False
        if not self._warned_of_dns:
            self._warned_of_dns = True
            log.warning("the DNS denies every name: %d hosts wait", len(denied))
        return True

    def doubt_name(self, host: Host) -> None:
        """Drop the DNS result for this name, so that the next visit looks it up again."""
        self._resolver.forget(name_of(host))

    async def others_are_fine(self, cause: Cause) -> bool:
        """Whether another host can be reached, just now, in the way that failed."""
        now = self._clock.now()
        if self.out or now < self._back_at + LONGEST_PUT_OFF:
            return False  # the failure may date from the outage
        if cause is Cause.DNS:
            return now < self._resolver.heard_at + _LATELY or await self._named.answer()
        return now < self._reached_at + _LATELY or await self._there.answer()

    # -- checking

    @property
    def _trusts(self) -> bool:
        return self._clock.now() < self._responded_at + _TRUST

    def _start_check(self) -> None:
        if self._check_task is None and not self._trusts:
            self._check_task = asyncio.get_running_loop().create_task(self._check())

    async def _check(self) -> None:
        try:
            if await self._any_host_is_reached(MOMENT):
                return
            if not self._provable:
                await self._wait_without_witnesses()
                return
            self._probing = True  # no fetch worker shall be at the gates before the check
            self._publish()
            holding = asyncio.get_running_loop().call_later(_HOLD, self._stop_holding)
            try:
                answers = await self._there.answer(fresh=True)
            finally:
                holding.cancel()
                self._benefit = False
            if not answers:
                await self._wait_for_network()
        finally:
            self._check_task = None
            self._release_pool()

    def _stop_holding(self) -> None:
        """Release the fetch pool because the check takes long; failures are not counted until its result."""
        self._benefit = True
        self._release_pool()

    def _release_pool(self) -> None:
        self._probing = False
        self._publish()

    def _record_response(self, host: Host, address: str) -> None:
        """Record the response of a witness."""
        self.reached(host, address)
        self._responded_at = self._clock.now()

    @property
    def _provable(self) -> bool:
        """Whether there is a host to ask now whose silence would mean something.

        Witnesses that rest for long cannot be asked, and the fetch pool does not wait for them.
        """
        outage = self.outage
        witnesses = outage.witnesses.values()
        some = any(host in outage.suspects or self._enquiry.askable(host) for host in witnesses)
        return outage.provable and (some or not witnesses)

    async def _wait_without_witnesses(self) -> None:
        """Try other hosts for a while; if none is reached, the suspects count as dead."""
        if not self.outage.resigned:
            log.warning("no host has responded yet: %d hosts unreachable", len(self.outage.suspects))
        self._benefit = True
        try:
            if not await self._any_host_is_reached(self.outage.benefit):
                self.outage.resign()
        finally:
            self._benefit = False

    async def _wait_for_network(self) -> None:
        outage, wait = self.outage, 1.0
        began = self._clock.now()
        outage.begin(began)
        self._publish()
        hosts = len(outage.suspects)
        log.warning("no network: waiting; %d %s unreachable", hosts, "host" if hosts == 1 else "hosts")
        try:
            while not (await self._any_host_is_reached(wait) or await self._there.answer(fresh=True)):
                wait = min(2 * wait, _LONGEST)
                if not outage.ours and self._clock.now() > began + LONGEST:
                    outage.resign()
                    log.warning("no host has responded for %.0f h: these hosts count as dead", LONGEST / 3600)
                    return
                self._scouting = True
                self._publish()
            self._back_at = self._clock.now()
        finally:
            self._scouting = False
            lasted = outage.end(self._clock.now())
            self._publish()
            self._resolver.forget_failures()
        log.warning("the network is back after %.0f s", lasted)

    async def _any_host_is_reached(self, seconds: float) -> bool:
        """Wait for any fetch worker to reach any host."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await asyncio.wait({turn}, timeout=seconds)
        if turn.done():
            return True
        if turn in self._waiting:
            self._waiting.remove(turn)
        return False

    def _candidates(self) -> Sequence[Host]:
        """Witnesses in turn, the rested first; if there are none, seeds and suspects."""
        suspects, askable = self.outage.suspects, self._enquiry.askable
        hosts = [host for host in dict.fromkeys(reversed(self.outage.witnesses.values())) if askable(host)]
        if not hosts:
            others = dict.fromkeys([*self._seeds, *islice(suspects, 2 * _AT_ONCE)])
            hosts = [host for host in others if askable(host)]
        hosts = [host for host in hosts if not self._enquiry.answered_lately(host)] or hosts
        start, self._turn = self._turn % len(hosts) if hosts else 0, self._turn + _AT_ONCE
        in_turn = hosts[start:] + hosts[:start]
        in_turn.sort(key=lambda host: (host in suspects, self._enquiry.rests(host)))
        return in_turn[: max(_AT_ONCE, self.outage.few - len(suspects))]

    def _named_witnesses(self) -> Sequence[Host]:
        """A few witnesses whose names the DNS has resolved before."""
        witnesses, written = self.outage.witnesses.values(), self._resolver.is_written_down
        return [host for host in witnesses if not written(name_of(host))][-_AT_ONCE:]

    async def close(self) -> None:
        self._headroom.close()
        if self._check_task is not None:
            self._check_task.cancel()
            await asyncio.wait({self._check_task})
        await self._there.close()
        await self._named.close()
