"""Dispatch of host visits to fetch workers, and the sink for their results.

Visits come from the frontier and go back to it. Responses go to the buffer; outcomes without a response are
recorded at once. A crash of a fetch worker costs its page, not the crawl.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from fieldmouse.aio import WakeUp
from fieldmouse.clock import Clock
from fieldmouse.crawler.buffer import BufferFeed
from fieldmouse.crawler.in_flight import InFlight, Results
from fieldmouse.crawler.stop_conditions import FailureLatch, StopRequest
from fieldmouse.errors import StorageError
from fieldmouse.fetch.worker import ActiveWorkers, FetchWorker, VisitReport
from fieldmouse.frontier.protocol import CrawlFrontier
from fieldmouse.types.outcome import Failed, Moved, Outcome, Page, Refused, Response
from fieldmouse.types.reason import OutcomeKind, OutcomeReason
from fieldmouse.types.request import HostVisit, Origin, QueuedRequest, Request
from fieldmouse.url import Host, Url

log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class Dispatcher:
    """Host visits for the fetch pool. A crash of a fetch worker costs its page, not the crawl."""

    worker: FetchWorker
    in_flight: InFlight
    frontier: CrawlFrontier
    failure: FailureLatch
    stop: StopRequest
    wake_up: WakeUp
    clock: Clock

    def take_visit(self) -> HostVisit | None:
        sated = self.in_flight.is_page_limit_in_flight
        if self.stop.is_requested or (sated and not self.frontier.polls_waiting):
            return None
        with self.failure:
            return self.frontier.take(self.clock.now(), only_polls=sated)
        self.stop.request()
        return None

    def end_visit(self, errand: HostVisit, report: VisitReport) -> None:
        state, unused = self.in_flight.count_first_page(errand, report)
        with self.failure:
            self.frontier.give_back(errand, state, unused)
        self.wake_up.fire()

    async def run_visit(self, errand: HostVisit) -> VisitReport:
        self.in_flight.start_visit(errand.tickets)
        try:
            return await self.worker.visit(errand)
        except StorageError as error:
            self.failure.record(error)
            return errand.state, ()
        except Exception as error:
            # Our own bug must not stop a crawl of many hosts: log the page, fail it, continue.
            now = self.clock.now()
            blamed, others = self.in_flight.split_by_started(errand.tickets)
            for ticket in blamed:
                log.exception("crashed on %s", ticket.link.url)
                detail = f"{type(error).__name__}: {error}"
                self.in_flight.record_outcome(ticket.number, Failed(ticket.link, OutcomeReason.CRASHED, now, detail))
            return msgspec.structs.replace(errand.state, ready_at=now + 1.0), others
        finally:
            self.in_flight.end_visit(errand.tickets)


_FOR_GOOD = frozenset((301, 308))


@dataclass(eq=False, slots=True)
class ResultSink:
    """See `ResultReceiver`. `is_target_stored` tells whether a polled page redirects to a stored one."""

    results: Results
    buffer_feed: BufferFeed
    active_workers: ActiveWorkers
    stop: StopRequest
    is_target_stored: Callable[[Request, Url], bool] | None = None  # None: a moved page stays

    async def deliver(self, ticket: QueuedRequest, outcome: Outcome) -> None:
        if ticket.origin is Origin.POLLED:
            outcome = self._as_poll_outcome(outcome)
            if isinstance(outcome, Failed) and outcome.reason is OutcomeReason.ROBOTS_TXT_EXCLUDED:
                await self._put(ticket, outcome)
                return
        if isinstance(outcome, Refused) or (isinstance(outcome, Failed) and outcome.response is None):
            self.results.record_outcome(ticket, outcome)
            return
        await self._put(ticket, outcome)

    def _as_poll_outcome(self, outcome: Outcome) -> Outcome:
        """The outcome as it affects the stored copy: only the indexer can remove that from search."""
        link = outcome.link
        match outcome:
            case Refused(reason=OutcomeReason.ROBOTS_TXT_EXCLUDED) if link.was == OutcomeKind.PAGE:
                return Failed(link, outcome.reason, outcome.at, outcome.detail)
            case Moved() if outcome.response.status in _FOR_GOOD and link.was != OutcomeKind.MOVED:
                if self.is_target_stored is not None and self.is_target_stored(link, outcome.target):
                    return msgspec.structs.replace(outcome, for_good=True)
        return outcome

    async def _put(self, ticket: QueuedRequest, outcome: Outcome) -> None:
        self.results.in_flight.mark_delivered(ticket.number, ticket.link)
        if not await self.buffer_feed.put_response(ticket.number, outcome):
            self.results.requeue_dropped(ticket.number)

    async def archive(self, link: Request, response: Response) -> None:
        await self.buffer_feed.put_response(0, Page(link, response))

    def requeue(self, ticket: QueuedRequest, link: Request) -> None:
        self.results.requeue(ticket, link)

    def queue_sitemaps(self, host: Host, found: Sequence[str]) -> None:
        self.results.queue_sitemaps(host, found)

    def try_start_fetch(self, ticket: QueuedRequest) -> bool:
        return (
            not self.stop.is_requested
            and self.active_workers.may_continue()
            and self.results.in_flight.try_start_fetch(ticket)
        )
