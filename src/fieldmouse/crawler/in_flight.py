"""In-flight table: every ticket that is out, and its outcome until it is durable; and the dispatch of host visits.

Fetch workers, the buffer and the indexer report results here. An outcome is *known* when it was reported,
and *settled* when a checkpoint holds it. In between it can be undone: if a worker process dies, its
unsealed pages are lost and their tickets are fetched again. A ticket leaves the frontier only when its
outcome is settled. Invariant: the tally counts a ticket only once it is settled, so no page is counted
twice.

Host visits come from the frontier, are made by a fetch worker, and go back to the frontier.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from fieldmouse.aio import WakeUpCallbacks
from fieldmouse.clock import Clock
from fieldmouse.crawler.stop_conditions import FailureLatch, StopRequest
from fieldmouse.errors import StorageError
from fieldmouse.fetch.worker import FetchWorker, VisitReport
from fieldmouse.frontier.protocol import CrawlFrontier
from fieldmouse.storage.checkpoint import CrawlCounters, Durable, SealedPart
from fieldmouse.types.outcome import ContentChange, Failed, OutcomeRow, Refused, WorkerResult, outcome_row
from fieldmouse.types.reason import OutcomeKind, OutcomeReason
from fieldmouse.types.request import FrontierEntry, HostVisit, NumberedRequest, Request

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(OutcomeRow).decode


class AgentPageQuota(Protocol):
    """This agent's share of a page limit for several agents: see `cluster/client/pending_calls.py`."""

    def set_in_flight_counter(self, in_air: Callable[[], int]) -> None:
        """Set the function that counts pages in flight, or known and not settled."""

    def has_room(self) -> bool:
        """Whether one more page may be requested."""


class InFlightTable(Durable):
    """The tally is its part of the checkpoint; the rows are in the outcome log, which is another part."""

    name = "tally"

    def __init__(self, tally: CrawlCounters, *, page_limit: int, quota: AgentPageQuota | None = None):
        """`page_limit` applies to a crawl on one machine, 0 for none; an agent of a cluster has a quota
        instead."""
        self.tally = tally
        self.page_limit, self._quota = page_limit, quota
        self.awaiting_index: dict[int, Request] = {}  # tickets whose response is in the buffer or with the indexer
        self._leased: set[int] = set()  # tickets with fetch workers, without a result
        self._pages_in_flight: set[int] = set()  # pages requested whose outcome is not known
        self._polls_in_flight: set[int] = set()  # polls without an outcome; no limit counts them
        self._answered_polls: set[int] = set()  # polls with a response or an outcome
        self._known: dict[int, dict[int, list[WorkerResult]]] = {}  # by shard and batch
        # Outcomes without a response to archive: known at once, settled by the next checkpoint.
        self._verdicts: list[tuple[WorkerResult, Request]] = []
        self.undurable_polls = 0  # known and not settled
        self.undurable: Counter[OutcomeKind] = Counter()  # known and not settled, by kind
        self.undurable_bytes = 0
        if quota is not None:
            quota.set_in_flight_counter(self._count_unsettled_pages)

    def _count_unsettled_pages(self) -> int:
        return len(self._pages_in_flight) + self.undurable[OutcomeKind.PAGE]

    @property
    def has_undurable(self) -> bool:
        """Whether any outcome is known that no checkpoint holds."""
        return self.undurable_polls > 0 or any(self.undurable.values())

    @property
    def stored_page_count(self) -> int:
        """Pages stored, including those of the next checkpoint."""
        return self.tally.pages + self.undurable[OutcomeKind.PAGE]

    @property
    def _discovered_page_count(self) -> int:
        return self.tally.first_fetched_pages + self.undurable[OutcomeKind.PAGE]

    @property
    def is_page_limit_in_flight(self) -> bool:
        """Whether the page limit would be reached if all pages in flight arrive."""
        if self._quota is not None:
            return not self._quota.has_room()
        return bool(self.page_limit) and self._discovered_page_count + len(self._pages_in_flight) >= self.page_limit

    @property
    def is_page_limit_fetched(self) -> bool:
        return bool(self.page_limit) and self._discovered_page_count >= self.page_limit

    def try_start_fetch(self, ticket: NumberedRequest) -> bool:
        """Whether the ticket may be requested; if so, it counts as in flight.

        Pages in flight count against the limit until their outcome is known, so that exactly as many pages
        are stored as requested. A poll is always allowed: polls have their own budget.
        """
        if ticket.frontier_entry is FrontierEntry.POLLED:
            self._polls_in_flight.add(ticket.number)
            return True
        if self.is_page_limit_in_flight:
            return False
        self._pages_in_flight.add(ticket.number)
        return True

    def start_visit(self, tickets: Iterable[NumberedRequest]) -> None:
        """Record tickets that a fetch worker received: each gets an outcome or is returned."""
        self._leased.update([ticket.number for ticket in tickets])

    def end_visit(self, tickets: Iterable[NumberedRequest]) -> None:
        self._leased.difference_update([ticket.number for ticket in tickets])

    def split_failed_and_unstarted(
        self, tickets: Iterable[NumberedRequest]
    ) -> tuple[list[NumberedRequest], list[NumberedRequest]]:
        """Split leased tickets into those the fetch worker failed on and those it had not started.

        If it had requested none, the cause is common to all tickets: then all of them count as failed on.
        """
        left = [ticket for ticket in tickets if ticket.number in self._leased]
        asked = [ticket for ticket in left if ticket.number in self._pages_in_flight | self._polls_in_flight]
        return asked or left, [ticket for ticket in left if ticket not in asked] if asked else []

    def mark_awaiting_index(self, number: int, link: Request) -> None:
        self.awaiting_index[number] = link
        self._leased.discard(number)
        if link.door is FrontierEntry.POLLED:
            self._polls_in_flight.discard(number)
            self._answered_polls.add(number)

    def forget_request(self, number: int) -> None:
        """Forget a request that led to no page or will be repeated."""
        self._pages_in_flight.discard(number)
        self._polls_in_flight.discard(number)
        self._answered_polls.discard(number)
        self._leased.discard(number)

    def take_back_dropped_response(self, number: int) -> Request:
        """Take back a response that found no room in the buffer; returns the link to fetch again."""
        self.forget_request(number)
        link = self.awaiting_index.pop(number)
        return msgspec.structs.replace(link, drops=link.drops + 1)

    def record_failed_or_refused(self, number: int, outcome: Refused | Failed) -> None:
        self.forget_request(number)
        link, kind = outcome.link, OutcomeKind.REFUSED if isinstance(outcome, Refused) else OutcomeKind.FAILED
        row = outcome_row(link, kind, outcome.at, reason=outcome.reason, detail=outcome.detail)
        self._verdicts.append((WorkerResult(number, 0, 0, kind, _encode(row), reason=row.reason), link))
        if link.door is FrontierEntry.POLLED:
            self._answered_polls.add(number)
        self._count_undurable_outcome(number, kind)

    def record_parsed(self, parsed: Iterable[WorkerResult]) -> list[Request]:
        """Record the indexer's results; returns the links it found."""
        links: list[Request] = []
        for page in parsed:
            links.extend(page.links)
            if not page.number:
                continue
            self._pages_in_flight.discard(page.number)
            self._known.setdefault(page.shard, {}).setdefault(page.batch, []).append(page)
            self._count_undurable_outcome(page.number, page.kind)
            self.undurable_bytes += page.size
        return links

    def _count_undurable_outcome(self, number: int, kind: OutcomeKind, by: int = 1) -> None:
        """Count a known outcome, or uncount it with `by=-1`."""
        if number in self._answered_polls:
            self.undurable_polls += by
        else:
            self.undurable[kind] += by

    def discard_lost_results(self, numbers: Sequence[int]) -> list[tuple[int, Request]]:
        """Forget the results of a dead worker process; returns the tickets to fetch again."""
        lost = set(numbers)
        for batches in self._known.values():
            for batch, parsed in batches.items():
                for page in parsed:
                    if page.number in lost:
                        self._count_undurable_outcome(page.number, page.kind, -1)
                        self.undurable_bytes -= page.size
                batches[batch] = [page for page in parsed if page.number not in lost]
        again = []
        for number in numbers:
            self._pages_in_flight.discard(number)
            self._answered_polls.discard(number)
            link = self.awaiting_index.pop(number, None)
            if link is not None:
                again.append((number, link))
        return again

    def settle_durable(self, batches: Sequence[int]) -> tuple[dict[int, OutcomeKind], list[bytes]]:
        """Remove and count everything that is durable now: shard i up to batch `batches[i]`, and all
        verdicts.

        Returns the kind of each outcome by ticket number, and the rows for the outcome log.
        """
        kinds: dict[int, OutcomeKind] = {}
        rows: list[bytes] = []
        for shard, last in enumerate(batches):
            pages = self._known.get(shard, {})
            for batch in [b for b in pages if b <= last]:
                for page in pages.pop(batch):
                    kinds[page.number] = page.kind
                    rows.append(page.row)
                    self._count_settled(page, self.awaiting_index.pop(page.number, None))
        for verdict, link in self._verdicts:
            kinds[verdict.number] = verdict.kind
            rows.append(verdict.row)
            self._count_settled(verdict, link)
        self._verdicts.clear()
        return kinds, rows

    # -- part of the checkpoint

    def seal(self) -> SealedPart[CrawlCounters]:
        return SealedPart(self.tally)

    def _count_settled(self, outcome: WorkerResult, link: Request | None) -> None:
        self._count_undurable_outcome(outcome.number, outcome.kind, -1)
        self.undurable_bytes -= outcome.size
        if outcome.number not in self._answered_polls:
            self.tally.count_outcome(outcome.kind, outcome.reason, outcome.size, outcome.left_out)
            return
        self._answered_polls.discard(outcome.number)
        row = _decode(outcome.row)
        # A request without a digest of the stored copy counts as changed.
        has_no_copy = link is None or not link.digest
        changed = has_no_copy or row.news not in (ContentChange.SAME, ContentChange.NOISE)
        why = link.why if link else OutcomeReason.NONE
        self.tally.count_poll(row, outcome.size, outcome.left_out, changed=changed, why=why)


log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class VisitRunner:
    """Host visits for the fetch pool. A crash of a fetch worker costs its page, not the crawl."""

    worker: FetchWorker
    in_flight: InFlightTable
    frontier: CrawlFrontier
    failure: FailureLatch
    stop: StopRequest
    wake_up: WakeUpCallbacks
    clock: Clock

    def take_visit(self) -> HostVisit | None:
        sated = self.in_flight.is_page_limit_in_flight
        if self.stop.is_requested or (sated and not self.frontier.waiting_polls):
            return None
        with self.failure:
            return self.frontier.take_visit(self.clock.now(), only_polls=sated)
        self.stop.request_stop()
        return None

    def end_visit(self, visit: HostVisit, report: VisitReport) -> None:
        state, unused = report
        if not visit.state.pages and state.pages > 0:
            self.in_flight.tally.count_host_with_pages()
        with self.failure:
            self.frontier.end_visit(visit, state, unused)
        self.wake_up.fire()

    async def run_visit(self, visit: HostVisit) -> VisitReport:
        self.in_flight.start_visit(visit.tickets)
        try:
            return await self.worker.visit_host(visit)
        except StorageError as error:
            self.failure.record(error)
            return visit.state, ()
        except Exception as error:
            # Our own bug must not stop a crawl of many hosts: log the page, fail it, continue.
            now = self.clock.now()
            blamed, others = self.in_flight.split_failed_and_unstarted(visit.tickets)
            for ticket in blamed:
                log.exception("crashed on %s", ticket.link.url)
                detail = f"{type(error).__name__}: {error}"
                self.in_flight.record_failed_or_refused(
                    ticket.number, Failed(ticket.link, OutcomeReason.CRASHED, now, detail)
                )
            return msgspec.structs.replace(visit.state, ready_at=now + 1.0), others
        finally:
            self.in_flight.end_visit(visit.tickets)
