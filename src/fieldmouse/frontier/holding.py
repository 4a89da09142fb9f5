"""What waited before a refresh stays where it is, while what the refresh discovers is fetched.

A crawl that was stopped may have millions of URLs waiting. Who only wants its pages kept fresh does
not want those; but links that are new on a page that changed are news. The two are told apart by when
they were seen; a time in the future was noted while the clock was ahead, so that URL waited, too. What is
held is gathered in its host's queue, and nobody takes anything from there: so the queue of URLs that passed
the sieve has only new ones, and they go straight online.

Nothing is remembered of it. A later run that holds nothing finds all URLs where they always wait.
"""

from __future__ import annotations

import msgspec

from fieldmouse.frontier.parts import FrontierParts
from fieldmouse.records import Door, Link

_decode = msgspec.msgpack.Decoder(Link).decode


class Holding:
    """URLs discovered before a moment (epoch seconds) are left alone; `now` is the time of opening."""

    def __init__(self, before: float, now: float, parts: FrontierParts):
        self._before, self._now, self._ready, self._queues = before, now, parts.ready, parts.queues

    def holds(self, link: Link) -> bool:
        """Whether a URL that waited when the frontier was opened is left alone."""
        return link.door is not Door.POLLED and not self._before <= link.seen_at <= self._now

    def begin(self) -> None:
        """Gather what waits in the hosts' queues, and let the rest wait in its turn."""
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
        """How many of them wait in queues."""
        return len(self._queues)
