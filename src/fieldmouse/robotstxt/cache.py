"""Bounded cache of parsed robots.txt files.

At most `size` hosts are kept, in about `memory` bytes at most, and none for longer than its response may
be cached (a day, RFC 9309). Above the memory limit the longest file is evicted, so that no host can evict
all others.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from fieldmouse.clock import Clock
from fieldmouse.robotstxt.parser import (
    SLOW_SIZE,
    RobotsTxt,
    RobotsTxtRedirect,
    RobotsTxtUnreachable,
    interpret_response,
    is_slow_to_parse,
)
from fieldmouse.types.outcome import Failed, Response
from fieldmouse.url import Host, Url


class _UnreadText:
    """A robots.txt that has not been parsed yet."""

    __slots__ = ("text",)

    def __init__(self, text: bytes):
        self.text = text

    @property
    def size(self) -> int:
        return len(self.text)


class RobotsTxtCache:
    """A bounded cache of parsed robots.txt files."""

    def __init__(self, clock: Clock, *, product: str, size: int = 20_000, memory: int = 160 << 20):
        self._clock, self._product, self._size, self._memory = clock, product, size, memory
        self._held = 0
        self._known: OrderedDict[Host, tuple[RobotsTxt | _UnreadText, float]] = OrderedDict()

    def get(self, host: Host) -> RobotsTxt | None:
        """Rules of a host. `get_or_parse` does not block: use it for a long robots.txt from another agent."""
        rules = self._current(host)
        if isinstance(rules, _UnreadText):
            return self._parsed(host, rules, RobotsTxt.parse(rules.text, self._product))
        return rules

    async def get_or_parse(self, host: Host) -> RobotsTxt | None:
        """The rules; a long robots.txt from another agent is parsed in a thread on first use."""
        rules = self._current(host)
        if isinstance(rules, _UnreadText):
            return self._parsed(
                host, rules, await asyncio.to_thread(RobotsTxt.parse, rules.text, self._product)
            )
        return rules

    def _current(self, host: Host) -> RobotsTxt | _UnreadText | None:
        entry = self._known.get(host)
        if entry is None:
            return None
        rules, until = entry
        if self._clock.now() >= until:
            self._forget(host)
            return None
        self._known.move_to_end(host)
        return rules

    def _parsed(self, host: Host, text: _UnreadText, rules: RobotsTxt) -> RobotsTxt:
        """Store the parsed text, unless newer rules arrived during the parsing."""
        now, entry = self._clock.now(), self._known.get(host)
        if entry is not None and entry[0] is text and entry[1] > now:
            self.put(host, rules, entry[1] - now)
        elif entry is not None and isinstance(entry[0], RobotsTxt):
            return entry[0]
        return rules

    def export_host(self, host: Host) -> tuple[bytes, float]:
        """The robots.txt of a host that moves to another crawl, and the time until which it is valid."""
        rules = self._current(host)
        if rules is None:
            return b"", 0.0
        text = rules.text if isinstance(rules, _UnreadText) else rules.to_bytes()
        return text, self._known[host][1]

    def import_host(self, host: Host, text: bytes, seconds: float) -> None:
        """Store the robots.txt that `export_host` gave a host, valid for `seconds`.

        Many hosts arrive at once: a long text is parsed on first use.
        """
        if text and seconds > 0:
            long = len(text) > SLOW_SIZE
            self.put(host, _UnreadText(text) if long else RobotsTxt.parse(text, self._product), seconds)

    def put(self, host: Host, rules: RobotsTxt | _UnreadText, seconds: float) -> None:
        if host in self._known:
            self._forget(host)
        self._known[host] = (rules, self._clock.now() + seconds)
        self._held += rules.size
        while len(self._known) > self._size:
            self._forget(next(iter(self._known)))
        while self._held > self._memory and len(self._known) > 1:
            self._forget(max(self._known, key=lambda known: self._known[known][0].size))

    def _forget(self, host: Host) -> None:
        self._held -= self._known.pop(host)[0].size

    async def parse_response(
        self, answer: Response | Failed, url: Url, hops: int
    ) -> RobotsTxt | RobotsTxtRedirect | RobotsTxtUnreachable:
        """Interpret the response to a request for robots.txt; a long one is parsed in a thread."""
        if isinstance(answer, Response) and is_slow_to_parse(answer):
            return await asyncio.to_thread(interpret_response, answer, url, self._product, hops)
        return interpret_response(answer, url, self._product, hops)
