"""Each host's robots.txt, fetched when needed and kept for a while.

RFC 9309 in words: what cannot be had because it is not there (4xx) allows
everything; what cannot be had because the server is in trouble (5xx, no
connection) forbids everything for now, and is asked for again later; redirects
are followed, five at most. At most `size` hosts are remembered.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass

from fieldmouse.clock import Clock
from fieldmouse.records import Response
from fieldmouse.url import Host
from fieldmouse.web.exclusion import Exclusion, Redirect, Unreachable, judge, keep_for

_PARSE_ELSEWHERE = 32 << 10  # a longer file is parsed in a thread, so that the loop does not stall


@dataclass(frozen=True, slots=True)
class Trouble:
    """robots.txt could not be had because of the server."""

    detail: str
    retry_after: float = 0.0


class Exclusions:
    """A bounded memory of parsed robots.txt files."""

    def __init__(self, clock: Clock, *, size: int = 20_000, product: str = "fieldmouse"):
        self._clock, self._size, self._product = clock, size, product
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

    async def read(self, response: Response) -> Exclusion | Redirect | Trouble:
        """What an answer to the question for robots.txt means."""
        if len(response.body) > _PARSE_ELSEWHERE:
            found = await asyncio.to_thread(judge, response, self._product)
        else:
            found = judge(response, self._product)
        if isinstance(found, Unreachable):
            return Trouble(found.detail, found.retry_after)
        return found

    def lifetime(self, response: Response) -> float:
        return keep_for(response)

