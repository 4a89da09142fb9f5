"""Page limit of a whole crawl: agents reserve pages at the coordinator before they fetch them.

An agent fetches a page only within its reservation. The reservation covers pages in flight, pages that are
known but not acknowledged, and some to spare. Acknowledging a page takes it off the reservation. The
reservation of an agent that leaves or is fenced is free again. So acknowledged and reserved pages together
never exceed the limit, and a request that yields no page costs nothing of it.
"""

from __future__ import annotations

from dataclasses import dataclass

PAGE = "page"
"""Kind of outcome that counts against the limit."""


@dataclass(frozen=True, slots=True)
class PageAsk:
    """Request for a reservation. All numbers are absolute, so repeating it changes nothing."""

    limit: int  # pages of the whole crawl
    keep: int  # pages of its reservation that the caller keeps: they may be in flight
    want: int  # total reservation that the caller wants
    elsewhere: int = 0  # pages acknowledged on other servers
    still: bool = False  # another server is calm: reserve nothing new


@dataclass(frozen=True, slots=True)
class PageCount:
    """Number of acknowledged pages; `calm` if the server may have lost some of the latest."""

    booked: int
    calm: bool


def reserved(ask: PageAsk, *, booked: int, others: int, agents: int, calm: bool) -> int:
    """Compute a reservation.

    `others` is reserved for the other agents; `agents` counts the living agents with the caller.

    >>> reserved(PageAsk(100, keep=3, want=20), booked=40, others=10, agents=2, calm=False)
    14
    >>> reserved(PageAsk(100, keep=3, want=20), booked=85, others=12, agents=2, calm=False)
    3
    >>> reserved(PageAsk(100, keep=0, want=20), booked=40, others=58, agents=9, calm=False)
    1
    """
    free = ask.limit - booked - ask.elsewhere - others - ask.keep
    if calm or ask.still or free <= 0:
        return ask.keep
    return max(ask.keep, min(ask.want, ask.keep + min(free, max(1, free // (2 * max(1, agents))))))
