"""Sink for the results of fetch workers: responses go to the buffer, other outcomes are recorded at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from fieldmouse.agent.booking import Booking
from fieldmouse.agent.intake import Intake
from fieldmouse.agent.stopping import Stopping
from fieldmouse.outcome import OutcomeKind
from fieldmouse.records import (
    Door,
    Failed,
    Link,
    Moved,
    Outcome,
    Page,
    Reason,
    Refused,
    Response,
    Ticket,
)
from fieldmouse.robots.roster import Roster
from fieldmouse.url import Host, Url

_FOR_GOOD = frozenset((301, 308))


class BookedOutlet:
    """See `robots.robot.Outlet`."""

    def __init__(
        self, *, booking: Booking, intake: Intake, roster: Roster, stopping: Stopping,
        has_moved: Callable[[Link, Url], bool] | None = None,
    ):  # fmt: skip
        """`has_moved` tells whether the redirect target of a polled page is stored; None: the page stays."""
        self._booking, self._intake, self._roster, self._stopping = booking, intake, roster, stopping
        self._has_moved = has_moved
        self._desk = booking.desk

    async def deliver(self, ticket: Ticket, outcome: Outcome) -> None:
        if ticket.door is Door.POLLED:
            outcome = self._of_poll(outcome)
            if isinstance(outcome, Failed) and outcome.reason is Reason.EXCLUDED:
                await self._hand_in(ticket, outcome)
                return
        if isinstance(outcome, Refused) or (isinstance(outcome, Failed) and outcome.response is None):
            self._booking.judged(ticket, outcome)
            return
        await self._hand_in(ticket, outcome)

    def _of_poll(self, outcome: Outcome) -> Outcome:
        """The outcome as it affects the stored copy: only the indexer can remove that from search."""
        link = outcome.link
        match outcome:
            case Refused(reason=Reason.EXCLUDED) if link.was == OutcomeKind.PAGE:
                return Failed(link, outcome.reason, outcome.at, outcome.detail)
            case Moved() if outcome.response.status in _FOR_GOOD and link.was != OutcomeKind.MOVED:
                if self._has_moved is not None and self._has_moved(link, outcome.target):
                    return msgspec.structs.replace(outcome, for_good=True)
        return outcome

    async def _hand_in(self, ticket: Ticket, outcome: Outcome) -> None:
        self._desk.handed_over(ticket.number, ticket.link)
        if not await self._intake.put(ticket.number, outcome):
            self._booking.fetch_again(ticket.number)

    async def keep(self, link: Link, response: Response) -> None:
        await self._intake.put(0, Page(link, response))

    def retry(self, ticket: Ticket, link: Link) -> None:
        self._booking.retry(ticket, link)

    def sitemaps(self, host: Host, found: Sequence[str]) -> None:
        self._booking.sitemaps(host, found)

    def may_ask(self, ticket: Ticket) -> bool:
        return not self._stopping.asked and self._roster.may_go_on() and self._desk.may_ask(ticket)
