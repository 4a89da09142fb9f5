"""Where robots deliver: an answer goes to the buffer, a verdict straight into the books."""

from __future__ import annotations

from collections.abc import Sequence

from fieldmouse.agent.booking import Booking
from fieldmouse.agent.intake import Intake
from fieldmouse.agent.stopping import Stopping
from fieldmouse.records import Failed, Link, Outcome, Page, Refused, Response, Ticket
from fieldmouse.robots.roster import Roster
from fieldmouse.url import Host


class BookedOutlet:
    """See `robots.robot.Outlet`."""

    def __init__(self, *, booking: Booking, intake: Intake, roster: Roster, stopping: Stopping):
        self._booking, self._intake, self._roster, self._stopping = booking, intake, roster, stopping
        self._desk = booking.desk

    async def deliver(self, ticket: Ticket, outcome: Outcome) -> None:
        if isinstance(outcome, Refused) or (isinstance(outcome, Failed) and outcome.response is None):
            self._booking.judged(ticket, outcome)
            return
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
