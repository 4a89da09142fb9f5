"""Each host's robots.txt, kept for a while.

Invariant: at most `size` hosts are remembered, and none for longer than its
answer may be kept (a day, RFC 9309).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from fieldmouse.clock import Clock
from fieldmouse.records import Failed, Response
from fieldmouse.url import Host, Url
from fieldmouse.web.exclusion import Exclusion, Redirect, Unreachable, judge

_PARSE_ELSEWHERE = 16 << 10  # a longer file is parsed in a thread, so that the loop does not stall


class Exclusions:
    """A bounded memory of parsed robots.txt files."""

    def __init__(self, clock: Clock, *, product: str, size: int = 20_000):
        self._clock, self._product, self._size = clock, product, size
        self._known: OrderedDict[Host, tuple[Exclusion, float]] = OrderedDict()

    def get(self, host: Host) -> Exclusion | None:
        found = self._known.get(host)
        if found is None:
            return None
        rules, until = found
        if self._clock.now() >= until:
            del self._known[host]
            return None
        self._known.move_to_end(host)
        return rules

    def keep(self, host: Host, rules: Exclusion, seconds: float) -> None:
        self._known[host] = (rules, self._clock.now() + seconds)
        self._known.move_to_end(host)
        while len(self._known) > self._size:
            self._known.popitem(last=False)

    async def read(
        self, answer: Response | Failed, url: Url, hops: int
    ) -> Exclusion | Redirect | Unreachable:
        """What the answer to a request for robots.txt means."""
        if isinstance(answer, Response) and len(answer.body) > _PARSE_ELSEWHERE:
            return await asyncio.to_thread(judge, answer, url, self._product, hops)
        return judge(answer, url, self._product, hops)
