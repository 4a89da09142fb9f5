"""Sink for the results of fetch workers: responses go to the buffer, other outcomes are recorded at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from fieldmouse.agent.booking import Booking
from fieldmouse.agent.intake import Intake
from fieldmouse.agent.stopping import Stopping
from fieldmouse.outcome import OutcomeKind
from fieldmouse.records import Door, Failed, Link, Moved, Outcome, Page, Reason, Refused, Response, Ticket
from fieldmouse.robots.roster import Roster
from fieldmouse.url import Host, Url

_FOR_GOOD = frozenset((301, 308))


@dataclass(eq=False, slots=True)
class BookedOutlet:
    """See `robots.robot.Outlet`. `has_moved` tells whether the redirect target of a polled page is stored."""

    booking: Booking
    intake: Intake
    roster: Roster
    stopping: Stopping
    has_moved: Callable[[Link, Url], bool] | None = None  # None: a moved page stays

    async def deliver(self, ticket: Ticket, outcome: Outcome) -> None:
        if ticket.door is Door.POLLED:
            outcome = self._as_poll_outcome(outcome)
            if isinstance(outcome, Failed) and outcome.reason is Reason.EXCLUDED:
                await self._put(ticket, outcome)
                return
        if isinstance(outcome, Refused) or (isinstance(outcome, Failed) and outcome.response is None):
            self.booking.judged(ticket, outcome)
            return
        await self._put(ticket, outcome)

    def _as_poll_outcome(self, outcome: Outcome) -> Outcome:
        """The outcome as it affects the stored copy: only the indexer can remove that from search."""
        link = outcome.link
        match outcome:
            case Refused(reason=Reason.EXCLUDED) if link.was == OutcomeKind.PAGE:
                return Failed(link, outcome.reason, outcome.at, outcome.detail)
            case Moved() if outcome.response.status in _FOR_GOOD and link.was != OutcomeKind.MOVED:
                if self.has_moved is not None and self.has_moved(link, outcome.target):
                    return msgspec.structs.replace(outcome, for_good=True)
        return outcome

    async def _put(self, ticket: Ticket, outcome: Outcome) -> None:
        self.booking.desk.handed_over(ticket.number, ticket.link)
        if not await self.intake.put(ticket.number, outcome):
            self.booking.fetch_again(ticket.number)

    async def keep(self, link: Link, response: Response) -> None:
        await self.intake.put(0, Page(link, response))

    def retry(self, ticket: Ticket, link: Link) -> None:
        self.booking.retry(ticket, link)

    def sitemaps(self, host: Host, found: Sequence[str]) -> None:
        self.booking.sitemaps(host, found)

    def may_ask(self, ticket: Ticket) -> bool:
        return not self.stopping.asked and self.roster.may_go_on() and self.booking.desk.may_ask(ticket)
