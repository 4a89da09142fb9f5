"""Distribution policies: which URL goes online next, and which waits offline.

The frontier is an urn game. URLs are balls and hosts are colours; they come out of the sieve in arbitrary
order. Online places are few, and fetch workers use one URL of each host at a time, so the number of
*different* hosts online counts. All other URLs wait offline, in a queue per host.

A distribution policy answers two questions and receives four events. The lab plays it with colours as
integers, the live distributor with host numbers, and replay with those of a recorded crawl; the answers
must not depend on this.

- `neutral`: every drawn URL goes online; the reference without an offline side.
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
    """Two questions (`recall`, `place`) and the events from which a policy learns.

    The caller asks `recall()` first. For a host: read some of its queue, then report `recalled` and
    `came_online`. For None: draw a URL, ask `place`, then report `came_online` or `stored`.
    """

    def recall(self, dry: bool = False) -> H | None:
        """Host whose queue should be read now, or None: draw from the source.

        `dry` means that the source is empty, so any waiting host is better than none.
        """
        ...

    def place(self, host: H) -> bool:
        """Whether the drawn URL goes online; otherwise it joins its host's queue."""
        ...

    def came_online(self, host: H, balls: int = 1) -> None: ...

    def left_online(self, host: H, balls: int = 1) -> None: ...

    def stored(self, host: H, balls: int = 1) -> None: ...

    def recalled(self, host: H, balls: int = 1) -> None: ...

    def located(self, host: H, address: Hashable) -> bool:
        """Record the address of a host; False asks for the host to be sent offline."""
        ...


POLICIES: dict[str, Callable[..., Distribution[Any]]] = {
    "index": Index,
    "mice-and-elephants": MiceAndElephants,
    "greedy": Greedy,
    "neutral": Neutral,
}
"""Policies by the name used in settings; parameters are keyword arguments with defaults."""
