"""Holding back of URLs that were waiting before a refresh.

A crawl that was stopped may have millions of URLs waiting. A refresh that only keeps pages fresh
should not fetch these, but should fetch links that are new on a changed page. The two kinds are
distinguished by the time at which they were seen; a time in the future was noted while the clock
was ahead, so that URL was waiting, too. Held URLs are moved to their host's queue, and nothing is
taken from queues in that run. The ready queue then has only new URLs, and they go straight online.

Nothing of this is stored. A later run without it finds all URLs in their usual places.
"""

from __future__ import annotations

import msgspec

from fieldmouse.frontier.parts import FrontierParts
from fieldmouse.records import Door, Link

_decode = msgspec.msgpack.Decoder(Link).decode


class Holding:
    """URLs discovered before `before` (epoch seconds) are left alone; `now` is the time of opening."""

    def __init__(self, before: float, now: float, parts: FrontierParts):
        self._before, self._now, self._ready, self._queues = before, now, parts.ready, parts.queues

    def holds(self, link: Link) -> bool:
        """Whether a URL that was waiting when the frontier was opened is left alone."""
        return link.door is not Door.POLLED and not self._before <= link.seen_at <= self._now

    def begin(self) -> None:
        """Move held URLs of the ready queue to their host's queue; the others keep their order."""
        for _ in range(len(self._ready)):
            item = self._ready.pop()
            assert item is not None
            host, row = item
            if self.holds(_decode(row)):
                self._queues.append(host, row)
            else:
                self._ready.push((item,))

    @property
    def queued(self) -> int:
        """Number of held URLs in queues."""
        return len(self._queues)
