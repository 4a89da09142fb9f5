"""Network check: asks a few known hosts whether our network works.

Thousands of failing hosts may need the same answer at the same moment. So there is one check at a time,
all share its result, and the result is kept for a while (`Shared`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from fieldmouse.clock import Clock
from fieldmouse.policy.outage import WITNESSES, cause_of
from fieldmouse.policy.politeness import Politeness, sane_delay
from fieldmouse.records import HostState, Kind, Link, Response
from fieldmouse.robots.gate import Transport
from fieldmouse.url import Host, Url, name_of
from fieldmouse.web.exclusion import Exclusion
from fieldmouse.web.resolver import FoundAddress

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
