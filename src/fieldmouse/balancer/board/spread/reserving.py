"""Page limit on several servers: the first one stores reservations, each counts its acknowledged pages.

The counts of the other servers are read before and after pages are reserved. If they are the same, they
held at the time of the reservation. Otherwise it is repeated; until then only the caller could use the
reserved pages, and it does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fieldmouse.balancer.board.contract import Board, Name
from fieldmouse.balancer.board.pagelimit import PageAsk, PageCount
from fieldmouse.balancer.board.spread.gathering import together

_TRIES = 5  # tries to find the other counts unchanged; after them nothing new is reserved this time


async def reserve_on(boards: Sequence[Board], name: Name, ask: PageAsk) -> int:
    first, *others = boards
    counts = await _counts(others)
    for _ in range(_TRIES):
        pages = await first.reserve_pages(name, _told(ask, counts))
        again = await _counts(others)
        if again == counts:
            return pages
        counts = again
    return await first.reserve_pages(name, replace(_told(ask, counts), still=True))


async def _counts(boards: Sequence[Board]) -> list[PageCount]:
    return await together([board.count_pages() for board in boards])


def _told(ask: PageAsk, counts: Sequence[PageCount]) -> PageAsk:
    elsewhere = ask.elsewhere + sum(count.booked for count in counts)
    return replace(ask, elsewhere=elsewhere, still=ask.still or any(count.calm for count in counts))


async def count_on(boards: Sequence[Board]) -> PageCount:
    counts = await _counts(boards)
    return PageCount(sum(count.booked for count in counts), any(count.calm for count in counts))
