"""Pending calls of an agent to the coordinator: its lease, links, hosts, URLs, addresses, and its page quota.

The side of the frontier and the fetch workers is synchronous or waits for one answer: each call is
appended to a list. The session empties the lists and puts back what it could not deliver. Invariant: the
coordinator has received everything that is in no list. Requests for addresses are batched: while one call
is under way, the next batch gathers.

The page quota are the pages that the coordinator reserved for this agent, under a limit of the whole
crawl. It covers pages in flight, pages that are known and not settled, and settled pages not yet sent to
the coordinator. Some more are kept to spare so that fetch workers need not wait. Part of the spare is
given up when the coordinator has too few, and all of it when there is no host to fetch from. Invariant:
the usable quota never exceeds the coordinator's reservation. So it is reduced before the coordinator is
asked and raised only by its answer, and outcomes are sent in the same turn in which pages are asked for.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from fieldmouse.clock import Clock
from fieldmouse.cluster.client.coordinator_outbox import AckedUrl, LinksMessage, Outbox, OutcomeKindLookup
from fieldmouse.cluster.client.host_payload import HostPayloadCodec
from fieldmouse.cluster.coordinator import (
    PAGE_KIND,
    AddressReply,
    AddressRequest,
    AgentId,
    Coordinator,
    CrawlTotals,
    LeaseId,
    OfferResult,
    ReleasedHost,
    ReservationRequest,
    Row,
)
from fieldmouse.cluster.decoding import encode_row
from fieldmouse.errors import AgentFenced, CoordinatorUnreachable
from fieldmouse.policy.local_outage import blocked_agents
from fieldmouse.policy.scope import ExceededLimit, SharedScopeAdditions
from fieldmouse.types.host_state import HostState
from fieldmouse.types.request import Request, RequestKind
from fieldmouse.url import Host, Url, host_of, key_of

T = TypeVar("T")

#: Share of a lease that is not used: requests under way have that time to end.
LEASE_MARGIN = 0.2


def seconds_since_boot() -> float:
    """Seconds on a clock that counts sleep and cannot be set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class HeartbeatDeadline:
    """Start of this agent that holds its leases, and the time until which it may send requests."""

    def __init__(self, seconds: float, now: Callable[[], float] = seconds_since_boot):
        self.seconds, self.now = seconds, now
        self.holder = AgentId("", 0)
        self._until = 0.0

    def set_holder(self, name: AgentId) -> None:
        self.holder = name

    def renew(self, sent_at: float) -> None:
        """Extend the lease: the coordinator answered a heartbeat sent at that time."""
        self._until = max(self._until, sent_at + self.seconds * (1.0 - LEASE_MARGIN))

    def expire(self) -> None:
        """End the lease: the agent was fenced, or must find out which leases it has."""
        self._until = 0.0

    @property
    def is_valid(self) -> bool:
        return self.now() < self._until

    @property
    def seconds_left(self) -> float:
        """Seconds left, 0 if it is over."""
        return max(0.0, self._until - self.now())


class CallQueue(list[T]):
    """Pending calls in order. Calls that could not be delivered are put back before those added since."""

    def take_all(self) -> list[T]:
        """Take all and leave the queue empty."""
        calls = self[:]
        self.clear()
        return calls


_MOST_RETRIES = 1000  # URLs in one retry message
_RECENT_KEYS = 1 << 18  # keys offered recently: a power of two


class PendingCalls:
    """Implementation of `frontier.protocol.CoordinatorCalls`."""

    def __init__(
        self,
        *,
        outbox: Outbox,
        lease: HeartbeatDeadline,
        transfer: HostPayloadCodec,
        outcomes: OutcomeKindLookup,
        clock: Clock,
        key_seed: int,
    ):
        self.released_hosts = CallQueue[ReleasedHost]()
        self.returned_urls = CallQueue[tuple[LeaseId, Row]]()  # URLs to return whose hosts left before
        self.url_requests = CallQueue[LeaseId]()
        self.host_requests = CallQueue[Host]()
        self.totals = CrawlTotals()
        self.scope = SharedScopeAdditions()
        self._has_totals = False  # totals were received from the coordinator
        self.outbox, self.lease, self.transfer, self.outcomes = outbox, lease, transfer, outcomes
        self.clock, self.key_seed = clock, key_seed
        self._placement = transfer.placement
        self._recent_keys = np.zeros(_RECENT_KEYS, np.uint64)
        self._dropped = Counter[str]()
        self._calls_ready = asyncio.Event()

    # -- the frontier's side

    @property
    def are_leases_valid(self) -> bool:
        return self.lease.is_valid

    def report_links(self, links: Sequence[Request], keys: Sequence[int]) -> None:
        """Offer links. Those offered recently are known to the coordinator and left out."""
        if not keys:
            return
        now = self.clock.now()
        offered = np.array(keys, np.uint64)
        slots = (offered & np.uint64(_RECENT_KEYS - 1)).astype(np.intp)
        fresh = np.flatnonzero(self._recent_keys[slots] != offered)
        if not fresh.size:
            return
        self._recent_keys[slots[fresh]] = offered[fresh]
        by_host: dict[Host, list[tuple[int, bytes]]] = {}
        is_seed = False
        for place in fresh.tolist():
            link = links[place]
            host = host_of(link.url)
            is_seed = is_seed or link.kind is RequestKind.SEED
            by_host.setdefault(host, []).append((keys[place], encode_row(link, host, now)))
        for host, rows in by_host.items():
            self.outbox.add_links(LinksMessage(host, tuple(rows), is_seed))
        self.signal_calls_ready()

    def should_make_next_visit(self, host: Host, state: HostState, visits: int) -> bool:
        return self._placement.should_make_next_visit(host, visits, blocked_agents(state.unreached, self.clock.now()))

    def request_more_urls(self, host: Host, epoch: int) -> None:
        self.url_requests.append(LeaseId(host, epoch))
        self.signal_calls_ready()

    def request_hosts_for_polls(self, hosts: Sequence[Host]) -> None:
        self.host_requests += hosts
        self.signal_calls_ready()

    def return_host(
        self, host: Host, epoch: int, state: HostState, unused: Sequence[Request], *, idle: bool = False
    ) -> None:
        rows = [self._encoded_row(link, host) for link in unused]
        shuns = blocked_agents(state.unreached, self.clock.now())
        place = self._placement.agent_for_released_host(host, shuns, idle=idle)
        payload = self.transfer.export_host(host, state)
        self.released_hosts.append(ReleasedHost(LeaseId(host, epoch), payload, rows, place, shuns))
        self._placement.remove_host(host)
        self.signal_calls_ready()

    def forget_lost_host(self, host: Host) -> None:
        self._placement.remove_host(host)

    def return_url_for_retry(self, host: Host, epoch: int, link: Request) -> None:
        self.returned_urls.append((LeaseId(host, epoch), self._encoded_row(link, host)))
        self.signal_calls_ready()

    def key_of(self, url: Url) -> int:
        return key_of(url, self.key_seed)

    def _encoded_row(self, link: Request, host: Host) -> Row:
        return self.key_of(link.url), encode_row(link, host, self.clock.now())

    def report_settled(self, urls: Sequence[tuple[Host, int, int, str, str]]) -> None:
        """Acknowledge URLs as soon as the checkpoint holds them: host, epoch, key, URL and kind of outcome."""
        leases: dict[tuple[Host, int], list[AckedUrl]] = {}
        for host, epoch, key, url, kind in urls:
            leases.setdefault((host, epoch), []).append(AckedUrl(key, url, kind))
        self.outbox.add_acks(leases)

    def retry_failed(self, links: Sequence[tuple[Request, str]]) -> None:
        """Retry outcomes, given with their kinds: these URLs wait again."""
        by_host: dict[Host, list[tuple[Request, str]]] = {}
        for link, kind in links:
            by_host.setdefault(host_of(link.url), []).append((link, kind))
        for host, pairs in by_host.items():
            for start in range(0, len(pairs), _MOST_RETRIES):
                part = pairs[start : start + _MOST_RETRIES]
                rows = [self._encoded_row(link, host) for link, _ in part]
                self.outbox.add_retries(host, rows, [kind for _, kind in part])

    def add_to_waiting_total(self, urls: int) -> None:
        """Add URLs that wait again to the last totals, in which they were settled."""
        self.totals = replace(self.totals, waiting=self.totals.waiting + urls)

    def ack_already_fetched_urls(self, host: Host, epoch: int, links: Sequence[Request], pages: float) -> int:
        """Acknowledge URLs that already have outcomes here, each with its own kind.

        At most `pages` pages are acknowledged; the others wait again. Returns the number of those.
        """
        keys = [self.key_of(link.url) for link in links]
        settled, over = list[AckedUrl](), 0
        for key, link, kind in zip(keys, links, self.outcomes.kinds_of(keys), strict=True):
            if kind == PAGE_KIND and pages < 1:
                self.return_url_for_retry(host, epoch, link)
                over += 1
            else:
                pages -= kind == PAGE_KIND
                settled.append(AckedUrl(key, link.url, kind))
        if settled:
            self.outbox.add_repeated_acks((host, epoch), settled)
        self.signal_calls_ready()
        return over

    @property
    def waiting_urls_in_crawl(self) -> int:
        books = self.totals
        idle = self._has_totals and books.started and not books.waiting and not len(self.outbox)
        return 0 if idle else max(1, books.waiting)

    @property
    def dropped_links_by_setting(self) -> dict[str, int]:
        return dict(+self._dropped)

    def count_dropped_links(self, result: OfferResult) -> None:
        """Count links that the bounds on sites dropped."""
        self._dropped.update(
            {ExceededLimit.HOSTS.value: result.dropped_hosts, ExceededLimit.URLS.value: result.dropped_urls}
        )

    # -- the session's side

    def undelivered_returned_keys(self) -> Iterator[tuple[tuple[Host, int], list[int]]]:
        """Keys of hosts given back and of returned URLs not yet received by the coordinator, by lease."""
        for given in self.released_hosts:
            yield (given.lease.host, given.lease.epoch), [key for key, _ in given.unvisited]
        for held, (key, _) in self.returned_urls:
            yield (held.host, held.epoch), [key]

    def receive_totals(self, books: CrawlTotals) -> None:
        """Take in the totals of the whole crawl."""
        self.totals, self._has_totals = books, True

    def signal_calls_ready(self) -> None:
        self._calls_ready.set()

    async def wait_until_call_pending(self, seconds: float) -> None:
        """Wait until a call is pending, at most these seconds."""
        await _wait_and_clear(self._calls_ready, seconds)

    def clear_offered_link_cache(self) -> None:
        """Forget which links were offered: the coordinator may have lost them."""
        self._recent_keys[:] = 0


async def _wait_and_clear(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
    event.clear()


_PAUSE = 0.3  # seconds


class AddressLeases:
    """Leases of addresses, for one host visit each. Requests are batched while one call is under way."""

    def __init__(self, board: Coordinator, lease: HeartbeatDeadline, clock: Clock, on_refused: Callable[[str], None]):
        """`on_refused` receives an address that is no longer ours."""
        self._board, self._lease, self._clock, self._on_refused = board, lease, clock, on_refused
        self._requests = CallQueue[tuple[AddressRequest, asyncio.Future[AddressReply]]]()
        self._freed: dict[str, float] = {}  # addresses that are free, and when each may be visited again
        self._held: dict[str, AddressRequest] = {}  # granted, and not known to be free again
        self._ready = asyncio.Event()

    # -- the fetch workers' side

    async def lease_address(self, address: str, host: Host, epoch: int, delay: float) -> AddressReply:
        """Lease an address for one host visit; waits for the coordinator's answer."""
        answer: asyncio.Future[AddressReply] = asyncio.get_running_loop().create_future()
        self._requests.append((AddressRequest(address, LeaseId(host, epoch), delay), answer))
        self._ready.set()
        return await answer

    def release_address(self, address: str, free_at: float) -> None:
        """End the visit; the address may be visited again at `free_at`."""
        self._freed[address] = max(free_at, self._freed.get(address, 0.0))
        self._ready.set()

    # -- the session's side

    async def send_calls_forever(self) -> None:
        while True:
            await _wait_and_clear(self._ready, 60.0)
            while self._requests or self._freed:
                if not await self._deliver_address_calls():
                    await _wait_and_clear(self._ready, _PAUSE)

    async def _deliver_address_calls(self) -> bool:
        """Deliver what is pending; False if that failed: freed addresses are kept, and requests refused."""
        freed, self._freed = self._freed, {}
        for address in freed:
            self._held.pop(address, None)
        requests = self._requests.take_all()
        try:
            if self._lease.is_valid:
                if freed:
                    now = self._clock.now()
                    rests = {address: max(0.0, at - now) for address, at in freed.items()}
                    await self._board.release_addresses(self._lease.holder, rests)
                    freed = {}
                if requests:
                    answers = await self._board.lease_addresses(self._lease.holder, [ask for ask, _ in requests])
                    for (ask, future), answer in zip(requests, answers, strict=True):
                        if answer.granted:
                            self._held[ask.address] = ask
                        if not future.done():
                            future.set_result(answer)
                return True
        except (CoordinatorUnreachable, AgentFenced):
            pass
        for address, at in freed.items():
            self._freed[address] = max(at, self._freed.get(address, 0.0))
        for _, future in requests:
            if not future.done():
                future.set_result(AddressReply(granted=False, retry_seconds=1.0))
        return False

    async def reacquire_held_addresses(self) -> None:
        """Ask for all held addresses again: a restarted server may have forgotten them."""
        asks = list(self._held.values())
        if not asks:
            return
        for ask, answer in zip(asks, await self._board.lease_addresses(self._lease.holder, asks), strict=True):
            if not answer.granted and self._held.get(ask.address) is ask:
                del self._held[ask.address]
                self._on_refused(ask.address)


#: Most pages to spare: more than are fetched while the coordinator is asked.
MOST_SPARE_PAGES = 32
#: Pages to spare for each host that we hold.
SPARE_PAGES_PER_HOST = 8
#: Seconds until the coordinator is asked again after it had too few pages or hosts, at first and at most.
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0


class ClusterPageQuota:
    """Quota of one agent; no limit if `limit` is 0."""

    def __init__(self, limit: int, calls: PendingCalls, *, hosts: Callable[[], int], every: float):
        """`hosts` counts the hosts we may fetch from. The coordinator is asked at least every `every`
        seconds."""
        self._limit, self._calls, self._clock, self._hosts, self._every = limit, calls, calls.clock, hosts, every
        self._in_flight: Callable[[], int] = lambda: 0
        self._granted = 0
        self._lapses = 0
        self._asked_at, self._pause = -math.inf, 0.0
        self._scarce = False  # we got less than we wanted
        self._extra = 0  # pages that we have and could not acknowledge

    # -- the dispatcher's side

    def set_in_flight_counter(self, in_air: Callable[[], int]) -> None:
        """Set the function that counts pages in flight, or known and not settled."""
        self._in_flight = in_air

    def has_room(self) -> bool:
        """Whether one more page may be requested."""
        if not self._limit:
            return True
        left = self._granted - self._used_pages
        if left <= self._wanted_spare_pages // 2 and not self.seconds_until_due():
            self._calls.signal_calls_ready()
        return left > 0

    # -- the session's side

    @property
    def _used_pages(self) -> int:
        return self._in_flight() + self._calls.outbox.unsent_pages

    @property
    def _wanted_spare_pages(self) -> int:
        return min(MOST_SPARE_PAGES, SPARE_PAGES_PER_HOST * self._hosts() + self._extra)

    @property
    def remaining_pages(self) -> float:
        """Pages that may still be requested or acknowledged; inf without a limit."""
        return max(0, self._granted - self._used_pages) if self._limit else math.inf

    def request_extra_pages(self, pages: int) -> None:
        """Ask for more: these pages could be acknowledged at once, but exceed the quota and wait again."""
        self._extra += pages

    def subtract_acked_pages(self, pages: int) -> None:
        """Take acknowledged pages off the quota."""
        self._granted = max(0, self._granted - pages)

    def drop_quota(self) -> None:
        """Drop the quota: the agent was fenced."""
        self._granted, self._lapses = 0, self._lapses + 1
        self.make_renewal_due()

    def make_renewal_due(self, pages: int = 0) -> None:
        """Ask a restarted server at once; `pages` that were sent before are sent, and taken off, again."""
        self._granted += pages
        self._asked_at, self._pause = -math.inf, 0.0

    def seconds_until_due(self) -> float:
        """Seconds until the coordinator should be asked; inf if never."""
        if not self._limit:
            return math.inf
        left, spare = self._granted - self._used_pages, self._wanted_spare_pages
        hungry = left <= spare // 2 and spare > 0
        wait = self._pause if hungry else LONGEST_PAUSE if left > spare else self._every
        return max(0.0, self._asked_at + wait - self._clock.now())

    async def renew_if_due(self, board: Coordinator, name: AgentId) -> bool:
        """Ask the coordinator if that is due; returns whether we may fetch more than before."""
        if self.seconds_until_due():
            return False
        used, spare, lapses = self._used_pages, self._wanted_spare_pages, self._lapses
        before = max(0, self._granted - used)
        left = min(before, spare)
        kept = math.ceil(left / 2) if self._scarce else left
        self._granted = min(self._granted, used + kept)
        want = used + spare
        granted = await board.reserve_pages(name, ReservationRequest(self._limit, keep=self._granted, want=want))
        if lapses != self._lapses:
            return False  # it was reserved for our last start
        self._scarce = granted < want
        self._pause = min(LONGEST_PAUSE, max(FIRST_PAUSE, 2 * self._pause)) if self._scarce else 0.0
        self._granted, self._asked_at, self._extra = granted, self._clock.now(), 0
        return granted - used > before
