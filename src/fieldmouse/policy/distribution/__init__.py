"""Which URL goes online next, and which waits offline.

The frontier is an urn game. URLs are balls and hosts are colours; they come out of the sieve in an order
nobody chose. Online there is room for few; a robot can use one URL of each host at a time, so what counts
is the number of *different* hosts online. Whatever is not wanted online now waits offline, in a queue per
host.

A distribution policy answers two questions and is told of four events. The lab plays it with colours as
integers, the live distributor with the numbers of hosts, and replay with those of yesterday's crawl; none
of them may change the answers.

- `neutral`: all that is drawn goes online; the reference without an offline side.
- `greedy`: only hosts absent online are accepted (Buijsrogge 2014, Algorithm 4).
- `mice-and-elephants`: hosts that crowd the front wait offline (Algorithm 12).
- `index`: hosts with a backlog and nothing online come first, and the source is
  drawn only when there is none. It keeps every place for a different host.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeVar

from fieldmouse.policy.distribution.greedy import Greedy
from fieldmouse.policy.distribution.index import Index
from fieldmouse.policy.distribution.mice import MiceAndElephants
from fieldmouse.policy.distribution.neutral import Neutral

__all__ = ["POLICIES", "Distribution", "Greedy", "Index", "MiceAndElephants", "Neutral"]

H = TypeVar("H", bound=Hashable)


class Distribution(Protocol[H]):
    """Two questions (`recall`, `place`) and the events a policy learns from.

    Whoever plays it asks `recall()` first. A host: read some of its queue, tell `recalled` and
    `came_online`. None: draw a URL, ask `place`, then tell `came_online` or `stored`.
    """

    def recall(self, dry: bool = False) -> H | None:
        """The host whose queue should be read now, or None: draw from the source.

        `dry` says that the source has nothing left, so any waiting host is better than none.
        """
        ...

    def place(self, host: H) -> bool:
        """Whether the URL just drawn goes online; else it joins its host's queue."""
        ...

    def came_online(self, host: H, balls: int = 1) -> None: ...

    def left_online(self, host: H, balls: int = 1) -> None: ...

    def stored(self, host: H, balls: int = 1) -> None: ...

    def recalled(self, host: H, balls: int = 1) -> None: ...

    def located(self, host: H, address: Hashable) -> bool:
        """The host was found to live at `address`; False asks for it to be sent offline."""
        ...


POLICIES: dict[str, Callable[..., Distribution[Any]]] = {
    "index": Index,
    "mice-and-elephants": MiceAndElephants,
    "greedy": Greedy,
    "neutral": Neutral,
}
"""Every strategy by the name a setting calls it; parameters are keyword arguments with defaults."""
