"""Pages of one limit on several servers: the first keeps what is reserved, each counts what it has booked.

What other servers have booked is read before pages are reserved, and after it: if it was the same, it was
so when they were. Else it is done once more; until then only the caller could use what it was given, and
does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fieldmouse.balancer.board.contract import Board, Name
from fieldmouse.balancer.board.pagelimit import PageAsk, PageCount
from fieldmouse.balancer.board.spread.gathering import together

_TRIES = 5  # of finding the others at rest; then nothing new is reserved this time


async def reserve_on(boards: Sequence[Board], name: Name, ask: PageAsk) -> int:
    first, *others = boards
    before = await _counts(others)
    for _ in range(_TRIES):
        pages = await first.reserve_pages(name, _told(ask, before))
        after = await _counts(others)
        if after == before:
            return pages
        before = after
    return await first.reserve_pages(name, replace(_told(ask, before), still=True))


async def _counts(boards: Sequence[Board]) -> list[PageCount]:
    return await together([board.count_pages() for board in boards])


def _told(ask: PageAsk, counts: Sequence[PageCount]) -> PageAsk:
    elsewhere = ask.elsewhere + sum(count.booked for count in counts)
    return replace(ask, elsewhere=elsewhere, still=ask.still or any(count.calm for count in counts))


async def count_on(boards: Sequence[Board]) -> PageCount:
    counts = await _counts(boards)
    return PageCount(sum(count.booked for count in counts), any(count.calm for count in counts))
