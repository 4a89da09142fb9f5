"""Politeness of a crawl as the server saw it, and the number of pages a polite crawl could have fetched.

A gap is the time between two requests to one host, or to one address, by their arrival. The delay is
required between any two of them, robots.txt and errors included. An overlap is a request that arrived
while another to its address was being answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from fieldmouse.testing.meadow.server import Arrival


class Manners(msgspec.Struct, frozen=True):
    """Statistics of the gaps between the requests of one crawl."""

    gaps: int  # between two requests to one host
    short: int  # of those, shorter than the delay
    short_by_address: int  # the same, by address
    overlaps: int
    shortest: float  # seconds; infinite when there is no gap


def manners(arrivals: Iterable[Arrival], delay: float) -> Manners:
    """Judge arrivals given in order of time.

    >>> def at(t: float) -> Arrival:
    ...     return Arrival(t, "h", "127.0.0.1", "/", 0, "")
    >>> manners([at(1.0), at(1.25), at(1.35)], delay=0.2).short
    1
    """
    last_by_host: dict[str, float] = {}
    last_by_address: dict[str, float] = {}
    gaps = short = short_by_address = overlaps = 0
    shortest = float("inf")
    for arrival in arrivals:
        before = last_by_host.get(arrival.host)
        if before is not None:
            gaps += 1
            gap = arrival.t - before
            shortest = min(shortest, gap)
            short += gap < delay
        last_by_host[arrival.host] = arrival.t
        before = last_by_address.get(arrival.address)
        short_by_address += before is not None and arrival.t - before < delay
        last_by_address[arrival.address] = arrival.t
        overlaps += arrival.busy > 0
    return Manners(gaps, short, short_by_address, overlaps, shortest)


def ideal_pages(sizes: Sequence[int], seconds: float, delay: float) -> int:
    """Pages that a crawler could fetch if it knew every URL at once and never kept a host waiting.

    >>> ideal_pages([1000, 10], seconds=60, delay=0.2)
    310
    """
    most = round(seconds / delay)
    return sum(min(size, most) for size in sizes)
