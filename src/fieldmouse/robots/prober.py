"""Is the network there? One place that all sightings of trouble go through, and that finds out.

Robots tell the prober whom they reached and whom they did not. When this looks like an
outage of our own (`policy/outage.py` says when), hosts that were reached before are
asked for their robots.txt, through the gate like anybody else. If one answers, the others are
in trouble, and that is that. If none does, the fleet rests, the user is told once, and
the question is asked again after 1, 2, 4, ... 60 seconds until somebody answers.

A machine out of descriptors goes on with fewer robots, and slowly with more again.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from fieldmouse.clock import Clock
from fieldmouse.policy.outage import BENEFIT, Cause, Outage, cause_of
from fieldmouse.policy.politeness import Politeness, sane_delay
from fieldmouse.records import HostState, Kind, Link, Response
from fieldmouse.robots.exclusions import Exclusions
from fieldmouse.robots.gate import Gate
from fieldmouse.url import Host, Url, name_of
from fieldmouse.web.exclusion import Exclusion
from fieldmouse.web.fetcher import Fetcher
from fieldmouse.web.resolver import Found, Resolver

log = logging.getLogger(__name__)

MOMENT = 1.0  # seconds in which somebody may be reached by itself, before anybody is asked
_LONGEST = 60.0  # between two questions
_AT_ONCE = 3  # hosts asked at a time
_TRUST = 30.0  # seconds for which an answer is proof enough that the network is there
_EASE = 30.0  # seconds after which twice as many robots may try again
_PLENTY = 4096  # robots: nobody has more


class Prober:
    def __init__(
        self, *, fetcher: Fetcher, resolver: Resolver, gate: Gate, clock: Clock, exclusions: Exclusions,
        politeness: Politeness, size: int = 500 << 10, seeds: Iterable[Host] = (),
        busy: Callable[[], int] = lambda: 0, on_change: Callable[[], None] = lambda: None,
    ):  # fmt: skip
        """`busy` is how many robots are out; `on_change` is told when more of them may go."""
        self._fetcher, self._resolver, self._gate, self._clock = fetcher, resolver, gate, clock
        self._exclusions, self._politeness, self._size = exclusions, politeness, size
        self._seeds, self._busy, self._on_change = list(islice(seeds, _AT_ONCE)), busy, on_change
        self.outage = Outage()
        self._doubting: asyncio.Task[None] | None = None
        self._waiting: list[asyncio.Future[None]] = []  # for anybody to be reached
        self._benefit = self._probing = self._told_denied = False
        self._proved_at = float("-inf")
        self._squeezed = sys.maxsize  # robots that we have descriptors for
        self._squeezed_at = -_EASE
        self._easing: asyncio.TimerHandle | None = None
        self._turn = 0

    @property
    def out(self) -> bool:
        """Is there an outage?"""
        return self.outage.since is not None

    @property
    def lenient(self) -> bool:
        """Is nothing to be held against anybody now?"""
        return self._benefit or self.outage.since is not None

    @property
    def most_robots(self) -> int:
        """As many robots may be out, as far as the network and our descriptors go."""
        return 0 if self._probing or self.outage.since is not None else self._squeezed

    # -- what robots say

    def reached(self, host: Host, address: str) -> None:
        self.outage.reached(host, address)
        if self._waiting:
            for turn in self._waiting:
                if not turn.done():
                    turn.set_result(None)
            self._waiting.clear()

    def failed(self, host: Host, cause: Cause, *, known: bool = False) -> None:
        if cause is Cause.MACHINE:
            self._squeeze()
            return
        self.outage.failed(host, cause, known=known)
        if self.outage.suspicious:
            self._begin_to_doubt()

    # -- what robots ask

    def is_rash(self, host: Host, *, ask: bool) -> bool:
        """Would it be rash to give up the host, or a URL of it, for one more failure?

        `ask` others about it, if need be: then it is until they have answered.
        """
        if self.outage.unfair(host):
            return True
        if not ask or not self.outage.comparable(host) or self._trusts:
            return False
        self._begin_to_doubt()
        return True

    async def denies_all(self, host: Host) -> bool:
        """Is the name of the host said not to exist by a DNS that says so of every name?

        Whom we reach proves nothing here, for addresses are remembered; only a name that is found does.
        """
        began, resolver, denied = self._clock.now(), self._resolver, self.outage.denied
        self.outage.deny(host, began, named_at=resolver.heard_at)
        await self._clock.sleep(MOMENT)
        if resolver.heard_at >= began or (len(denied) < self.outage.few and not self.out):
            return False
        names = [name_of(known) for known in self.outage.witnesses.values()]
        names = [name for name in names if not resolver.is_written_down(name)]
        for name in names[-_AT_ONCE:]:
            await resolver.lookup(name, fresh=True)
        if resolver.heard_at >= began or not (names or began < min(denied.values()) + BENEFIT):
            return False
        if not self._told_denied:
            self._told_denied = True
            log.warning("the DNS denies every name: %d hosts wait", len(denied))
        return True

    def doubt_name(self, host: Host) -> None:
        """What the DNS said of this name is not believed: it is asked again next time."""
        self._resolver.forget(name_of(host))

    async def others_are_fine(self, cause: Cause) -> bool:
        """Could somebody else be asked, just now, in the way that failed?"""
        if self.out:
            return False
        began = self._clock.now()
        return await self._ask_around() and (cause is not Cause.DNS or self._resolver.heard_at >= began)

    # -- finding out

    @property
    def _trusts(self) -> bool:
        return self._clock.now() < self._proved_at + _TRUST

    def _begin_to_doubt(self) -> None:
        if self._doubting is None and not self._trusts:
            self._doubting = asyncio.get_running_loop().create_task(self._doubt())

    async def _doubt(self) -> None:
        try:
            if await self._somebody_is_reached(MOMENT):
                return
            if not self.outage.provable:
                await self._give_benefit()
                return
            self._probing = True  # nobody shall be before us at the gates
            if not await self._ask_around():
                await self._sit_it_out()
        finally:
            self._doubting = None
            self._probing = False
            self._on_change()

    async def _give_benefit(self) -> None:
        """Nobody was ever reached. Others are tried for a while; if that helps nobody, these are dead."""
        log.warning("nobody answers yet: %d hosts unreachable", len(self.outage.suspects))
        self._benefit = True
        try:
            if not await self._somebody_is_reached(self.outage.benefit):
                self.outage.resign()
        finally:
            self._benefit = False

    async def _sit_it_out(self) -> None:
        outage, wait = self.outage, 1.0
        outage.begin(self._clock.now())
        hosts = len(outage.suspects)
        log.warning("no network: waiting; %d %s unreachable", hosts, "host" if hosts == 1 else "hosts")
        try:
            while not (await self._somebody_is_reached(wait) or await self._ask_around()):
                wait = min(2 * wait, _LONGEST)
        finally:
            lasted = outage.end(self._clock.now())
            self._resolver.forget_failures()
        log.warning("the network is back after %.0f s", lasted)

    async def _somebody_is_reached(self, seconds: float) -> bool:
        """Wait so long for any robot to reach anybody."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await asyncio.wait({turn}, timeout=seconds)
        if turn.done():
            return True
        if turn in self._waiting:
            self._waiting.remove(turn)
        return False

    async def _ask_around(self) -> bool:
        """Ask a few hosts that should answer; does one?"""
        asking = {asyncio.ensure_future(self._ask(host)) for host in self._candidates()}
        try:
            while asking:
                done, asking = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
                if any(task.result() for task in done):
                    return True
            return False
        finally:
            for task in asking:
                task.cancel()

    def _candidates(self) -> Sequence[Host]:
        """Witnesses in turn, the rested first; where there are none, seeds and suspects."""
        suspects = self.outage.suspects
        hosts = list(dict.fromkeys(reversed(self.outage.witnesses.values())))
        if not hosts:
            hosts = list(dict.fromkeys([*self._seeds, *islice(suspects, 2 * _AT_ONCE)]))
        start, self._turn = self._turn % len(hosts) if hosts else 0, self._turn + _AT_ONCE
        in_turn = hosts[start:] + hosts[:start]
        in_turn.sort(key=lambda host: (host in suspects, max(0.0, self._gate.rests(host))))
        return in_turn[: max(_AT_ONCE, self.outage.few - len(suspects))]

    async def _ask(self, host: Host) -> bool:
        """One polite request for a robots.txt, which is always allowed; is anybody there?"""
        found = await self._resolver.lookup(name_of(host), fresh=True)
        if not isinstance(found, Found):
            return False
        address, url = found.address, Url(host + "/robots.txt")
        await self._gate.enter(host, address)
        now = self._clock.now()
        rules = self._exclusions.get(host)
        state = HostState(crawl_delay=sane_delay(rules.crawl_delay if rules else None))
        after = self._politeness.after_visit(state, now, now)
        try:
            answer = await self._fetcher.fetch(
                Link(url, kind=Kind.EXCLUSION), host, address, body_limit=self._size
            )
            if isinstance(answer, Response):
                read = await self._exclusions.read(answer, url, 0)
                if isinstance(read, Exclusion) and rules is None:
                    state = HostState(crawl_delay=sane_delay(read.crawl_delay))
                after = self._politeness.after_visit(state, answer.answered_at, answer.ended_at)
            else:
                after = self._politeness.after_visit(state, answer.at, answer.at)
        finally:
            self._gate.leave(host, address, after.ready_at, after.address_ready_at)
        if isinstance(answer, Response) or cause_of(answer) is None:
            self.reached(host, address)
            self._proved_at = self._clock.now()
            return True
        return False

    # -- descriptors

    def _squeeze(self) -> None:
        """Out of descriptors: half the robots that are out are enough for now."""
        now = self._clock.now()
        if now - self._squeezed_at >= MOMENT:
            self._squeezed_at = now
            self._squeezed = max(1, min(self._squeezed, self._busy()) // 2)
            log.warning("out of file descriptors: going on with %d robots", self._squeezed)
            if self._easing is None:
                self._easing = asyncio.get_running_loop().call_later(_EASE, self._ease)

    def _ease(self) -> None:
        self._easing = None
        if self._clock.now() - self._squeezed_at >= _EASE / 2:
            self._squeezed = 2 * self._squeezed if self._squeezed < _PLENTY else sys.maxsize
            self._on_change()
        if self._squeezed < sys.maxsize:
            self._easing = asyncio.get_running_loop().call_later(_EASE, self._ease)

    async def close(self) -> None:
        if self._easing is not None:
            self._easing.cancel()
        if self._doubting is not None:
            self._doubting.cancel()
            await asyncio.wait({self._doubting})
