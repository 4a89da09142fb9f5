"""Pages that agents may still fetch under a limit of the whole crawl: they are reserved on the board first.

An agent fetches a page only when it is one of those reserved for it. Reserved are its pages that are in the
air, those that are known and not booked yet, and some to spare. Booking takes from what is reserved, and
what an agent had reserved is anybody's again when it leaves or is fenced. So what was booked and what is
reserved never exceed the limit, and a page that leads nowhere costs nothing of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from fieldmouse.balancer.board.contract import Name

PAGE = "page"
"""The kind of outcome that is counted."""


@dataclass(frozen=True, slots=True)
class PageAsk:
    """Repeated it changes nothing: all numbers are what is to be, and none is added to what was."""

    limit: int  # pages of the whole crawl
    keep: int  # of those reserved for the caller before, it goes on having so many: they may be in the air
    want: int  # that should be reserved for it in all
    elsewhere: int = 0  # pages that were booked on other servers
    still: bool = False  # another server is calm: nothing new is reserved


@dataclass(frozen=True, slots=True)
class PageCount:
    """How many pages were booked; `calm` if the server may have forgotten some of late."""

    booked: int
    calm: bool


class PageBoard(Protocol):
    """The part of a board that counts pages."""

    async def reserve_pages(self, name: Name, ask: PageAsk) -> int:
        """How many pages are reserved for `name` from now on: at least what it keeps, at most what it wants.

        When few are left nobody gets more than his part of half of them, so that nobody has all of the last.
        Nothing new is reserved while the board is calm: what others had may be forgotten, and they say so.
        """

    async def count_pages(self) -> PageCount:
        """What was booked on this server."""


def reserved(ask: PageAsk, *, booked: int, others: int, agents: int, calm: bool) -> int:
    """The rule: `others` is what is reserved for the other agents, of which `agents` with the caller live.

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
