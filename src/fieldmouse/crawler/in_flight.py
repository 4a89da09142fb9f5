"""In-flight table: every ticket that is out, and its outcome until it is durable.

Fetch workers, the buffer and the indexer report results here. An outcome is *known* when it was reported,
and *settled* when a checkpoint holds it. In between it can be undone: if a worker process dies, its
unsealed pages are lost and their tickets are fetched again. A ticket leaves the frontier only when its
outcome is settled. Invariant: the tally counts a ticket only once it is settled, so no page is counted
twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from fieldmouse.clock import Clock
from fieldmouse.crawler.scope import CrawlScope
from fieldmouse.crawler.stop_conditions import FailureLatch
from fieldmouse.fetch.worker import VisitReport
from fieldmouse.frontier.protocol import CrawlFrontier
from fieldmouse.storage.checkpoint import CrawlCounters, DurableLog, Sealed
from fieldmouse.types.outcome import ContentChange, Failed, IndexResult, OutcomeRow, Refused
from fieldmouse.types.reason import OutcomeKind, OutcomeReason
from fieldmouse.types.request import HostVisit, Origin, QueuedRequest, Request, RequestKind
from fieldmouse.url import Host, Url, resolve

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(OutcomeRow).decode


class UnarchivedOutcome(msgspec.Struct, frozen=True):
    """An outcome that needs no archive: known at once, settled by the next checkpoint."""

    number: int
    kind: OutcomeKind
    row: bytes
    reason: OutcomeReason
    why: OutcomeReason = OutcomeReason.NONE  # of a poll: the reason its URL was no page before


class PageQuota(Protocol):
    """This agent's share of a page limit for several agents: see `cluster/client/page_quota.py`."""

    def set_in_flight_counter(self, in_air: Callable[[], int]) -> None:
        """Set the function that counts pages in flight, or known and not settled."""

    def has_room(self) -> bool:
        """Whether one more page may be requested."""


class InFlight:
    """The tally is its part of the checkpoint; the rows are in the outcome log, which is another part."""

    name = "tally"

    def __init__(self, tally: CrawlCounters, *, page_limit: int, quota: PageQuota | None = None):
        """`page_limit` applies to a crawl on one machine, 0 for none; an agent of a cluster has a quota
        instead."""
        self.tally = tally
        self.page_limit, self._quota = page_limit, quota
        self.awaiting_index: dict[int, Request] = {}  # tickets whose response is in the buffer or with the indexer
        self._leased: set[int] = set()  # tickets with fetch workers, without a result
        self._pages_in_flight: set[int] = set()  # pages requested whose outcome is not known
        self._polls_in_flight: set[int] = set()  # polls without an outcome; no limit counts them
        self._answered_polls: set[int] = set()  # polls with a response or an outcome
        self._known: dict[int, dict[int, list[IndexResult]]] = {}  # by shard and batch
        self._verdicts: list[UnarchivedOutcome] = []
        self.undurable_polls = 0  # known and not settled
        self.undurable: Counter[OutcomeKind] = Counter()  # known and not settled, by kind
        self.undurable_bytes = 0
        if quota is not None:
            quota.set_in_flight_counter(self._count_in_flight)

    def _count_in_flight(self) -> int:
        return len(self._pages_in_flight) + self.undurable[OutcomeKind.PAGE]

    @property
    def has_undurable(self) -> bool:
        """Whether any outcome is known that no checkpoint holds."""
        return self.undurable_polls > 0 or any(self.undurable.values())

    @property
    def pages(self) -> int:
        """Pages stored, including those of the next checkpoint."""
        return self.tally.pages + self.undurable[OutcomeKind.PAGE]

    @property
    def _discovered(self) -> int:
        return self.tally.discovered_pages + self.undurable[OutcomeKind.PAGE]

    @property
    def is_page_limit_in_flight(self) -> bool:
        """Whether the page limit would be reached if all pages in flight arrive."""
        if self._quota is not None:
            return not self._quota.has_room()
        return bool(self.page_limit) and self._discovered + len(self._pages_in_flight) >= self.page_limit

    @property
    def is_page_limit_reached(self) -> bool:
        return bool(self.page_limit) and self._discovered >= self.page_limit

    def try_start_fetch(self, ticket: QueuedRequest) -> bool:
        """Whether the ticket may be requested; if so, it counts as in flight.

        Pages in flight count against the limit until their outcome is known, so that exactly as many pages
        are stored as requested. A poll is always allowed: polls have their own budget.
        """
        if ticket.origin is Origin.POLLED:
            self._polls_in_flight.add(ticket.number)
            return True
        if self.is_page_limit_in_flight:
            return False
        self._pages_in_flight.add(ticket.number)
        return True

    def start_visit(self, tickets: Iterable[QueuedRequest]) -> None:
        """Record tickets that a fetch worker received: each gets an outcome or is returned."""
        self._leased.update([ticket.number for ticket in tickets])

    def end_visit(self, tickets: Iterable[QueuedRequest]) -> None:
        self._leased.difference_update([ticket.number for ticket in tickets])

    def count_first_page(self, errand: HostVisit, report: VisitReport) -> VisitReport:
        """Count the host if this visit brought its first page."""
        if not errand.state.pages and report[0].pages > 0:
            self.tally.count_host_with_pages()
        return report

    def split_by_started(self, tickets: Iterable[QueuedRequest]) -> tuple[list[QueuedRequest], list[QueuedRequest]]:
        """Split leased tickets into those the fetch worker failed on and those it had not started.

        If it had requested none, the cause is common to all tickets: then all of them count as failed on.
        """
        left = [ticket for ticket in tickets if ticket.number in self._leased]
        asked = [ticket for ticket in left if ticket.number in self._pages_in_flight | self._polls_in_flight]
        return asked or left, [ticket for ticket in left if ticket not in asked] if asked else []

    def mark_delivered(self, number: int, link: Request) -> None:
        self.awaiting_index[number] = link
        self._leased.discard(number)
        if link.door is Origin.POLLED:
            self._polls_in_flight.discard(number)
            self._answered_polls.add(number)

    def forget_request(self, number: int) -> None:
        """Forget a request that led to no page or will be repeated."""
        self._pages_in_flight.discard(number)
        self._polls_in_flight.discard(number)
        self._answered_polls.discard(number)
        self._leased.discard(number)

    def undo_delivery(self, number: int) -> Request:
        """Take back a response that found no room in the buffer; returns the link to fetch again."""
        self.forget_request(number)
        link = self.awaiting_index.pop(number)
        return msgspec.structs.replace(link, drops=link.drops + 1)

    def record_outcome(self, number: int, outcome: Refused | Failed) -> None:
        self.forget_request(number)
        row = outcome_row_of(outcome)
        self._verdicts.append(UnarchivedOutcome(number, row.kind, _encode(row), row.reason, outcome.link.why))
        if outcome.link.door is Origin.POLLED:
            self._answered_polls.add(number)
        self._note(number, row.kind)

    def record_parsed(self, parsed: Iterable[IndexResult]) -> list[Request]:
        """Record the indexer's results; returns the links it found."""
        links: list[Request] = []
        for page in parsed:
            links.extend(page.links)
            if not page.number:
                continue
            self._pages_in_flight.discard(page.number)
            self._known.setdefault(page.shard, {}).setdefault(page.batch, []).append(page)
            self._note(page.number, page.kind)
            self.undurable_bytes += page.size
        return links

    def _note(self, number: int, kind: OutcomeKind, by: int = 1) -> None:
        """Count a known outcome, or uncount it with `by=-1`."""
        if number in self._answered_polls:
            self.undurable_polls += by
        else:
            self.undurable[kind] += by

    def undo_parsed(self, numbers: Sequence[int]) -> list[tuple[int, Request]]:
        """Forget the results of a dead worker process; returns the tickets to fetch again."""
        lost = set(numbers)
        for batches in self._known.values():
            for batch, parsed in batches.items():
                kept = [page for page in parsed if page.number not in lost]
                for page in parsed:
                    if page.number in lost:
                        self._note(page.number, page.kind, -1)
                        self.undurable_bytes -= page.size
                batches[batch] = kept
        again = []
        for number in numbers:
            self._pages_in_flight.discard(number)
            self._answered_polls.discard(number)
            link = self.awaiting_index.pop(number, None)
            if link is not None:
                again.append((number, link))
        return again

    def take_durable(self, batches: Sequence[int]) -> tuple[dict[int, OutcomeKind], list[bytes]]:
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
                    self._count(page, self.awaiting_index.pop(page.number, None))
        for verdict in self._verdicts:
            kinds[verdict.number] = verdict.kind
            rows.append(verdict.row)
            self._count(verdict, None)
        self._verdicts.clear()
        return kinds, rows

    # -- part of the checkpoint

    def begin(self) -> None:
        """Nothing to restore: the tally is in the journal."""

    def seal(self) -> Sealed[CrawlCounters]:
        return Sealed(self.tally)

    def committed(self) -> None:
        """Nothing to release."""

    def close(self) -> None:
        """Nothing to close."""

    def _count(self, outcome: IndexResult | UnarchivedOutcome, link: Request | None) -> None:
        size, left_out = (outcome.size, outcome.left_out) if isinstance(outcome, IndexResult) else (0, 0)
        self._note(outcome.number, outcome.kind, -1)
        self.undurable_bytes -= size
        if outcome.number not in self._answered_polls:
            self.tally.count(outcome.kind, outcome.reason, size, left_out)
            return
        self._answered_polls.discard(outcome.number)
        row = _decode(outcome.row)
        # A request without a digest of the stored copy counts as changed.
        has_no_copy = link is None or not link.digest
        changed = has_no_copy or row.news not in (ContentChange.SAME, ContentChange.NOISE)
        why = outcome.why if isinstance(outcome, UnarchivedOutcome) else link.why if link else OutcomeReason.NONE
        self.tally.count_poll(row, size, left_out, changed=changed, why=why)


def outcome_row_of(outcome: Refused | Failed) -> OutcomeRow:
    """The row of an outcome that does not pass through the indexer."""
    link = outcome.link
    return OutcomeRow(
        link.url,
        OutcomeKind.REFUSED if isinstance(outcome, Refused) else OutcomeKind.FAILED,
        outcome.at,
        depth=link.depth,
        via=link.via,
        seen_at=link.seen_at,
        tries=link.tries,
        found_as=link.kind.value,
        reason=outcome.reason,
        detail=outcome.detail,
        polled=link.was,
    )


@dataclass(eq=False, slots=True)
class Results:
    """`follow_sitemaps`: whether sitemaps named by a robots.txt are queued."""

    in_flight: InFlight
    frontier: CrawlFrontier
    outcomes: DurableLog
    failure: FailureLatch
    clock: Clock
    scope: CrawlScope
    follow_sitemaps: bool

    def record_outcome(self, ticket: QueuedRequest, outcome: Refused | Failed) -> None:
        """Record an outcome without a response to store."""
        self.in_flight.record_outcome(ticket.number, outcome)

    def requeue_dropped(self, number: int) -> None:
        """Queue a page again that found no room or waited too long: the fetch was wasted, but the URL is not
        lost."""
        link = self.in_flight.undo_delivery(number)
        with self.failure:
            self.frontier.retry(number, link)

    def requeue(self, ticket: QueuedRequest, link: Request) -> None:
        """Queue `link` instead of a ticket whose request failed."""
        self.in_flight.forget_request(ticket.number)
        with self.failure:
            self.frontier.retry(ticket.number, link)

    def queue_sitemaps(self, host: Host, found: Sequence[str]) -> None:
        """Queue the sitemaps that a robots.txt names."""
        if not self.follow_sitemaps:
            return
        base, now = Url(host + "/robots.txt"), self.clock.now()
        urls = (resolve(text.strip(), base) for text in found)
        links = [Request(url, via=base, kind=RequestKind.SITEMAP, seen_at=now) for url in urls if url is not None]
        with self.failure:
            self.frontier.discover(self.scope.filter_links(links, depth=1))

    def record_parsed(self, parsed: Sequence[IndexResult]) -> None:
        """Record parsed pages and queue their links."""
        released: list[Request] = []
        for answer in parsed:
            link = self.in_flight.awaiting_index.get(answer.number)
            if link is not None:
                released += self.scope.handle_result(link, answer)
            if answer.held:
                released += self.scope.filter_links(answer.held)
        if links := self.in_flight.record_parsed(parsed) + released:
            self.frontier.discover(links)

    def apply_shared_scope(self) -> None:
        """Queue links that are in scope since other agents widened it."""
        if links := self.scope.apply_shared():
            self.frontier.discover(links)

    def requeue_lost(self, numbers: Sequence[int]) -> int:
        """Queue the tickets of a dead worker process again; returns their number."""
        again = self.in_flight.undo_parsed(numbers)
        for number, link in again:
            self.frontier.retry(number, link)
        return len(again)

    def ack_durable(self, batches: Sequence[int], seconds: float) -> None:
        """Finish everything that is durable: shard i up to batch `batches[i]`, and all verdicts."""
        settled, rows = self.in_flight.take_durable(batches)
        for row in rows:
            self.outcomes.append(row)
        self.scope.handle_durable(rows)
        self.frontier.mark_done(settled)
        self.in_flight.tally.set_seconds(seconds)
