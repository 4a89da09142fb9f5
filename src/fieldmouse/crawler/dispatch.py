"""Dispatch of host visits to fetch workers, and the sink for their results.

Visits come from the frontier and go back to it. Responses go to the buffer; outcomes without a response are
recorded at once. A crash of a fetch worker costs its page, not the crawl.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from fieldmouse.aio import Bell
from fieldmouse.clock import Clock
from fieldmouse.crawler.buffer import Intake
from fieldmouse.crawler.in_flight import Booking, Desk
from fieldmouse.crawler.stop_conditions import Fuse, Stopping
from fieldmouse.errors import StorageError
from fieldmouse.fetch.pool import Roster
from fieldmouse.fetch.worker import Report, Robot
from fieldmouse.frontier.protocol import CrawlFrontier
from fieldmouse.types.outcome import Failed, Moved, Outcome, Page, Refused, Response
from fieldmouse.types.reason import OutcomeKind, Reason
from fieldmouse.types.request import Door, Errand, Link, Ticket
from fieldmouse.url import Host, Url

log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class Errands:
    """Host visits for the fetch pool. A crash of a fetch worker costs its page, not the crawl."""

    robot: Robot
    desk: Desk
    frontier: CrawlFrontier
    fuse: Fuse
    stopping: Stopping
    bell: Bell
    clock: Clock

    def take(self) -> Errand | None:
        sated = self.desk.sated
        if self.stopping.asked or (sated and not self.frontier.polling):
            return None
        with self.fuse:
            return self.frontier.take(self.clock.now(), only_polls=sated)
        self.stopping.ask()
        return None

    def give_back(self, errand: Errand, report: Report) -> None:
        state, unused = self.desk.heard_from(errand, report)
        with self.fuse:
            self.frontier.give_back(errand, state, unused)
        self.bell.ring()

    async def run(self, errand: Errand) -> Report:
        self.desk.leased(errand.tickets)
        try:
            return await self.robot.run(errand)
        except StorageError as error:
            self.fuse.blow(error)
            return errand.state, ()
        except Exception as error:
            # Our own bug must not stop a crawl of many hosts: log the page, fail it, continue.
            now = self.clock.now()
            blamed, others = self.desk.in_hand(errand.tickets)
            for ticket in blamed:
                log.exception("crashed on %s", ticket.link.url)
                detail = f"{type(error).__name__}: {error}"
                self.desk.note_verdict(ticket.number, Failed(ticket.link, Reason.CRASHED, now, detail))
            return msgspec.structs.replace(errand.state, ready_at=now + 1.0), others
        finally:
            self.desk.returned(errand.tickets)


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
