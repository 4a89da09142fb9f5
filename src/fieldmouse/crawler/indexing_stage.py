"""Indexing stage: moves pages from the fetch workers through the buffer to the worker processes.

Results of the workers go to the frontier and the outcome log. Every change of the buffer level passes here,
so that the trace records it and the concurrency rule sees the same number as the model: pages in the buffer
plus pages in service.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, field

import msgspec

from fieldmouse.aio import WakeUpCallbacks
from fieldmouse.clock import Clock
from fieldmouse.control.buffer_trace import BufferTrace
from fieldmouse.crawler.growing_scope import CrawlScope
from fieldmouse.crawler.in_flight import InFlightTable
from fieldmouse.crawler.page_buffer import PageBuffer
from fieldmouse.crawler.stop_conditions import FailureLatch, StopRequest
from fieldmouse.fetch.worker import ActiveWorkers
from fieldmouse.frontier.protocol import CrawlFrontier
from fieldmouse.policy.concurrency_thresholds import PageLifetime
from fieldmouse.storage.checkpoint import DurableLog
from fieldmouse.types.outcome import Failed, Moved, Outcome, Page, Refused, Response, Unchanged, WorkerResult
from fieldmouse.types.reason import OutcomeKind, OutcomeReason
from fieldmouse.types.request import FrontierEntry, NumberedRequest, Request, RequestKind
from fieldmouse.url import Host, Url, host_of, resolve
from fieldmouse.workers.pool import WorkerPool

log = logging.getLogger(__name__)

#: Number of drops after which a page has cost its server enough: then it waits for room and never expires.
MAX_DROPS = 16


_PERMANENT_REDIRECTS = frozenset((301, 308))


@dataclass(eq=False, slots=True, kw_only=True)
class IndexingStage:
    """Path of fetched pages: through the buffer to the indexer, and its results into the frontier.

    Fetch workers report to it, see `ResultReceiver`; it wakes the fetch pool after every change.
    """

    open_indexer: InitVar[Callable[..., WorkerPool]]  # `WorkerPool` that lacks only its callbacks
    indexer: WorkerPool = field(init=False)
    buffer: PageBuffer[tuple[int, Outcome]]
    trace: BufferTrace
    obsolescence: PageLifetime
    in_flight: InFlightTable
    frontier: CrawlFrontier
    outcomes: DurableLog
    scope: CrawlScope
    failure: FailureLatch
    stop: StopRequest
    active_workers: ActiveWorkers
    wake_up: WakeUpCallbacks
    clock: Clock
    follow_sitemaps: bool  # whether sitemaps named by a robots.txt are queued
    is_target_stored: Callable[[Request, Url], bool] | None  # whether a page redirects to a stored one; None: no polls
    warned: bool = field(default=False, init=False)

    def __post_init__(self, open_indexer: Callable[..., WorkerPool]) -> None:
        self.indexer = open_indexer(on_parsed=self._handle_parsed, on_undone=self._requeue_lost_pages)

    # -- results of fetch workers

    def try_start_fetch(self, ticket: NumberedRequest) -> bool:
        return (
            not self.stop.is_requested and self.active_workers.may_continue() and self.in_flight.try_start_fetch(ticket)
        )

    async def deliver(self, ticket: NumberedRequest, outcome: Outcome) -> None:
        number = ticket.number
        # Only the indexer can remove the stored copy of a polled page from search.
        removes_copy = False
        if ticket.frontier_entry is FrontierEntry.POLLED:
            outcome = self._adjust_poll_outcome(outcome)
            removes_copy = isinstance(outcome, Failed) and outcome.reason is OutcomeReason.ROBOTS_TXT_EXCLUDED
        if isinstance(outcome, Refused) or (isinstance(outcome, Failed) and not outcome.response and not removes_copy):
            self.in_flight.record_failed_or_refused(number, outcome)
            return
        self.in_flight.mark_awaiting_index(number, ticket.link)
        if not await self._put_in_buffer(number, outcome):
            self._requeue_dropped(number)

    def _adjust_poll_outcome(self, outcome: Outcome) -> Outcome:
        """The outcome as it affects the stored copy."""
        link = outcome.link
        match outcome:
            case Refused(reason=OutcomeReason.ROBOTS_TXT_EXCLUDED) if link.was == OutcomeKind.PAGE:
                return Failed(link, outcome.reason, outcome.at, outcome.detail)
            case Moved() if outcome.response.status in _PERMANENT_REDIRECTS and link.was != OutcomeKind.MOVED:
                if self.is_target_stored is not None and self.is_target_stored(link, outcome.target):
                    return msgspec.structs.replace(outcome, for_good=True)
        return outcome

    async def archive_robots_txt(self, link: Request, response: Response) -> None:
        await self._put_in_buffer(0, Page(link, response))

    async def _put_in_buffer(self, number: int, outcome: Page | Unchanged | Moved | Failed) -> bool:
        """Put a response into the buffer; False if there was no room.

        Responses without a ticket cannot be fetched again, and those dropped often enough should not be:
        they wait for room and do not expire.
        """
        self._drop_expired()
        lane = self.indexer.shard_of(host_of(outcome.link.url))
        patient = not number or self._was_dropped_too_often(outcome.link)
        fetched_at = self.clock.now()
        stored = await self.buffer.put(
            lane,
            (number, outcome),
            (len(outcome.response.body) if outcome.response is not None else 0) + 1024,
            expires_at=math.inf if patient else self.obsolescence.expires_at(fetched_at),
            patient=patient,
        )
        now = self.clock.now()
        self.trace.page_arrived(number, now, dropped=not stored, waited=now - fetched_at)
        # No page expires before this: a page that finds its shard idle is served, however short its lifetime.
        self._send_to_shards()
        return stored

    def _was_dropped_too_often(self, link: Request) -> bool:
        if link.drops < MAX_DROPS:
            return False
        if not self.warned:
            self.warned = True
            log.warning(
                "%s was fetched and dropped %d times; such pages now wait for the indexer"
                " (`buffer.pages`, `buffer.obsolete_after` or the rule leave too little room)",
                link.url,
                link.drops,
            )
        return True

    def requeue_failed_request(self, ticket: NumberedRequest, link: Request) -> None:
        """Queue `link` instead of a ticket whose request failed."""
        self.in_flight.forget_request(ticket.number)
        with self.failure:
            self.frontier.retry_ticket(ticket.number, link)

    def _requeue_dropped(self, number: int) -> None:
        """Queue a page again that found no room or waited too long: the fetch was wasted, but the URL is not
        lost."""
        link = self.in_flight.take_back_dropped_response(number)
        with self.failure:
            self.frontier.retry_ticket(number, link)

    def queue_sitemaps(self, host: Host, found: Sequence[str]) -> None:
        """Queue the sitemaps that a robots.txt names."""
        if not self.follow_sitemaps:
            return
        base, now = Url(host + "/robots.txt"), self.clock.now()
        urls = (resolve(text.strip(), base) for text in found)
        links = [Request(url, via=base, kind=RequestKind.SITEMAP, seen_at=now) for url in urls if url is not None]
        with self.failure:
            self.frontier.discover(self.scope.filter_links(links, depth=1))

    # -- from the buffer to the indexer

    def move_pages_on(self) -> None:
        """Drop pages that waited too long, and send others to the shards with room."""
        self.indexer.report_outstanding_count()
        if (news := self.scope.take_changes_for_workers()) is not None:
            self.indexer.add_to_scope(news.added, news.may_grow)
        if self.buffer.waiting:
            self._drop_expired()
        self._send_to_shards()

    def _send_to_shards(self) -> None:
        indexer, buffer = self.indexer, self.buffer
        if not buffer.waiting:
            buffer.wake_next_waiter()
            return
        now = self.clock.now()
        for shard in range(indexer.shards):
            while indexer.has_room(shard):
                waiting = buffer.take_oldest(shard)
                if waiting is None:
                    break
                self.trace.page_taken(waiting[0], now)
                indexer.send(*waiting)

    def _drop_expired(self) -> None:
        now = self.clock.now()
        for number, _ in self.buffer.take_expired(now):
            self.trace.page_expired(number, now)
            self._requeue_dropped(number)

    # -- results of the indexer

    def _handle_parsed(self, parsed: Sequence[WorkerResult]) -> None:
        """Record parsed pages and queue their links."""
        self.indexer.report_outstanding_count()
        with self.failure:
            self.trace.record_pages_served([page.number for page in parsed])
            released: list[Request] = []
            for page in parsed:
                link = self.in_flight.awaiting_index.get(page.number)
                if link is not None:
                    released += self.scope.widen_by_result(link, page)
                if page.held:
                    released += self.scope.filter_links(page.held)
            if links := self.in_flight.record_parsed(parsed) + released:
                self.frontier.discover(links)
            self.move_pages_on()
        self.wake_up.fire()

    def _requeue_lost_pages(self, numbers: Sequence[int]) -> None:
        """Queue the tickets of a dead worker process again."""
        self.indexer.report_outstanding_count()
        with self.failure:
            self.trace.record_pages_of_dead_worker(numbers)
            again = self.in_flight.discard_lost_results(numbers)
            for number, link in again:
                self.frontier.retry_ticket(number, link)
            if again and self.indexer.error is None:
                log.warning("an indexer worker died; %d pages are fetched again", len(again))
            self.move_pages_on()
        self.wake_up.fire()

    def apply_shared_scope(self) -> None:
        """Queue links that are in scope since other agents widened it."""
        if links := self.scope.apply_shared_additions():
            self.frontier.discover(links)

    def settle_durable(self, batches: Sequence[int], seconds: float) -> None:
        """Finish everything that is durable: shard i up to batch `batches[i]`, and all verdicts."""
        settled, rows = self.in_flight.settle_durable(batches)
        for row in rows:
            self.outcomes.append(row)
        self.scope.update_unsettled_seeds(rows)
        self.frontier.mark_durably_done(settled)
        self.in_flight.tally.set_seconds(seconds)
