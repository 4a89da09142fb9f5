"""Pending calls of an agent to the coordinator, and their delivery: hosts, URLs and addresses.

The side of the frontier and the fetch workers is synchronous or waits for one answer: each call is
appended to a list. The session empties the lists and puts back what it could not deliver. Invariant: the
coordinator has received everything that is in no list. Requests for addresses are batched: while one call
is under way, the next batch gathers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

import numpy as np

from fieldmouse.clock import Clock
from fieldmouse.cluster.client.identity import LeaseClock
from fieldmouse.cluster.client.outbox import AckedUrl, LinksMessage, Outbox
from fieldmouse.cluster.client.placement import HostPlacement
from fieldmouse.cluster.client.shared_scope import SharedScope
from fieldmouse.cluster.coordinator import (
    PAGE_KIND,
    AddressReply,
    AddressRequest,
    AgentId,
    Coordinator,
    CrawlTotals,
    HostPayload,
    LeaseId,
    ReleasedHost,
    Row,
)
from fieldmouse.cluster.decoding import encode_row
from fieldmouse.errors import AgentFenced, CoordinatorUnreachable
from fieldmouse.policy.outage import blocked_agents
from fieldmouse.policy.scope import DropRule
from fieldmouse.types.host import HostState
from fieldmouse.types.request import Request, RequestKind
from fieldmouse.url import Host, host_of

T = TypeVar("T")


class CallQueue(Generic[T]):
    def __init__(self) -> None:
        self._things: list[T] = []

    def __len__(self) -> int:
        return len(self._things)

    def __iter__(self) -> Iterator[T]:
        return iter(self._things)

    def put(self, thing: T) -> None:
        self._things.append(thing)

    def take(self) -> list[T]:
        """Take all and leave the list empty."""
        things, self._things = self._things, []
        return things

    def put_back(self, things: list[T]) -> None:
        """Put back calls that could not be delivered, before those added since."""
        self._things[:0] = things


class SettledOutcome(Protocol):
    """A URL with an outcome, as the frontier reports it."""

    @property
    def host(self) -> Host: ...

    @property
    def epoch(self) -> int: ...

    @property
    def key(self) -> int: ...

    @property
    def url(self) -> str: ...

    @property
    def kind(self) -> str: ...


_MOST_RETRIES = 1000  # URLs in one retry message
_RECENT_KEYS = 1 << 18  # keys offered recently: a power of two


class PendingCalls:
    """Implementation of `frontier.protocol.LeaseSource`."""

    def __init__(
        self,
        *,
        tellings: Outbox,
        lease: LeaseClock,
        chooser: HostPlacement,
        clock: Clock,
        pack: Callable[[Host, HostState], HostPayload],
        delay: Callable[[HostState], float],
        key_of: Callable[[str], int],
        kinds_of: Callable[[Sequence[int]], Sequence[str]],
    ):
        """`pack` returns the state that travels with a host; `delay` is the time between two visits.

        `kinds_of` returns the kinds of the outcomes that these keys have here.
        """
        self.address_requests = CallQueue[tuple[AddressRequest, asyncio.Future[AddressReply]]]()
        self.released_hosts = CallQueue[ReleasedHost]()
        self.returned_urls = CallQueue[tuple[LeaseId, Row]]()  # URLs to return whose hosts left before
        self.url_requests = CallQueue[LeaseId]()
        self.host_requests = CallQueue[Host]()
        self.freed_addresses: dict[str, float] = {}  # addresses that are free, and when each may be visited again
        self.totals = CrawlTotals()
        self.scope = SharedScope()
        self._has_totals = False  # totals were received from the coordinator
        self._tellings, self._lease, self._chooser, self._clock = tellings, lease, chooser, clock
        self._pack, self._delay, self.key_of, self._kinds_of = pack, delay, key_of, kinds_of
        self._recent_keys = np.zeros(_RECENT_KEYS, np.uint64)
        self._dropped: dict[str, int] = {}
        self._calls_ready = asyncio.Event()
        self._addresses_ready = asyncio.Event()

    # -- the frontier's side

    @property
    def is_valid(self) -> bool:
        return self._lease.is_valid

    def report_links(self, links: Sequence[Request], keys: Sequence[int]) -> None:
        """Offer links. Those offered recently are known to the coordinator and left out."""
        if not keys:
            return
        now = self._clock.now()
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
            self._tellings.add_links(LinksMessage(host, tuple(rows), is_seed))
        self.notify()

    def should_keep(self, host: Host, state: HostState, visits: int) -> bool:
        return self._chooser.should_keep(host, visits, blocked_agents(state.unreached, self._clock.now()))

    def request_more(self, host: Host, epoch: int) -> None:
        self.url_requests.put(LeaseId(host, epoch))
        self.notify()

    def request_hosts(self, hosts: Sequence[Host]) -> None:
        for host in hosts:
            self.host_requests.put(host)
        self.notify()

    def return_host(
        self, host: Host, epoch: int, state: HostState, unused: Sequence[Request], *, idle: bool = False
    ) -> None:
        now = self._clock.now()
        rows = [(self.key_of(link.url), encode_row(link, host, now)) for link in unused]
        shuns = blocked_agents(state.unreached, now)
        place = self._chooser.next_agent(host, shuns, idle=idle)
        self.released_hosts.put(ReleasedHost(LeaseId(host, epoch), self._pack(host, state), rows, place, shuns))
        self._chooser.remove_host(host)
        self.notify()

    def lease_lost(self, host: Host) -> None:
        self._chooser.remove_host(host)

    def return_url(self, host: Host, epoch: int, link: Request) -> None:
        row = encode_row(link, host, self._clock.now())
        self.returned_urls.put((LeaseId(host, epoch), (self.key_of(link.url), row)))
        self.notify()

    def report_settled(self, urls: Sequence[SettledOutcome]) -> None:
        """Acknowledge these URLs as soon as the checkpoint holds them."""
        leases: dict[tuple[Host, int], list[AckedUrl]] = {}
        for url in urls:
            leases.setdefault((url.host, url.epoch), []).append(AckedUrl(url.key, url.url, url.kind))
        self._tellings.add_outcomes(leases)

    def retry_failed(self, links: Sequence[tuple[Request, str]]) -> None:
        """Retry outcomes, given with their kinds: these URLs wait again."""
        now = self._clock.now()
        by_host: dict[Host, list[tuple[Request, str]]] = {}
        for link, kind in links:
            by_host.setdefault(host_of(link.url), []).append((link, kind))
        for host, pairs in by_host.items():
            for start in range(0, len(pairs), _MOST_RETRIES):
                part = pairs[start : start + _MOST_RETRIES]
                rows = [(self.key_of(link.url), encode_row(link, host, now)) for link, _ in part]
                self._tellings.add_retries(host, rows, [kind for _, kind in part])

    def note_requeued(self, urls: int) -> None:
        """Add URLs that wait again to the last totals, in which they were settled."""
        self.totals = replace(self.totals, waiting=self.totals.waiting + urls)

    def ack_known(self, host: Host, epoch: int, links: Sequence[Request], pages: float) -> int:
        """Acknowledge URLs that already have outcomes here, each with its own kind.

        At most `pages` pages are acknowledged; the others wait again. Returns the number of those.
        """
        keys = [self.key_of(link.url) for link in links]
        settled, over = list[AckedUrl](), 0
        for key, link, kind in zip(keys, links, self._kinds_of(keys), strict=True):
            if kind == PAGE_KIND and pages < 1:
                self.return_url(host, epoch, link)
                over += 1
            else:
                pages -= kind == PAGE_KIND
                settled.append(AckedUrl(key, link.url, kind))
        if settled:
            self._tellings.add_known_outcomes((host, epoch), settled)
        self.notify()
        return over

    @property
    def waiting_urls(self) -> int:
        books = self.totals
        idle = self._has_totals and books.started and not books.waiting and not len(self._tellings)
        return 0 if idle else max(1, books.waiting)

    @property
    def dropped_links(self) -> dict[str, int]:
        return dict(self._dropped)

    def note_dropped(self, hosts: int, urls: int) -> None:
        """Count links that the bounds on sites dropped."""
        for rule, count in ((DropRule.HOSTS, hosts), (DropRule.URLS, urls)):
            if count:
                self._dropped[rule.value] = self._dropped.get(rule.value, 0) + count

    # -- the fetch workers' side

    async def lease_address(self, address: str, host: Host, epoch: int, state: HostState) -> AddressReply:
        """Lease an address for one host visit; waits for the coordinator's answer."""
        answer: asyncio.Future[AddressReply] = asyncio.get_running_loop().create_future()
        self.address_requests.put((AddressRequest(address, LeaseId(host, epoch), self._delay(state)), answer))
        self._addresses_ready.set()
        return await answer

    def release_address(self, address: str, free_at: float) -> None:
        """End the visit; the address may be visited again at `free_at`."""
        self.freed_addresses[address] = max(free_at, self.freed_addresses.get(address, 0.0))
        self._addresses_ready.set()

    def take_freed_addresses(self) -> dict[str, float]:
        """Take all addresses that are free, with the seconds that each still rests."""
        rests, self.freed_addresses = self.freed_addresses, {}
        now = self._clock.now()
        return {address: max(0.0, at - now) for address, at in rests.items()}

    def put_back_freed_addresses(self, rests: dict[str, float]) -> None:
        """Return addresses that could not be freed; the rest of their time is sent later."""
        now = self._clock.now()
        for address, seconds in rests.items():
            self.freed_addresses[address] = max(now + seconds, self.freed_addresses.get(address, 0.0))

    # -- the session's side

    def host_payloads(self, standing: Mapping[tuple[Host, int], HostState]) -> dict[LeaseId, HostPayload]:
        """State of hosts that we still hold, for the coordinator."""
        return {LeaseId(host, epoch): self._pack(host, state) for (host, epoch), state in standing.items()}

    def undelivered_keys(self) -> Iterator[tuple[tuple[Host, int], list[int]]]:
        """Keys of hosts given back and of returned URLs not yet received by the coordinator, by lease."""
        for given in self.released_hosts:
            yield (given.lease.host, given.lease.epoch), [key for key, _ in given.unvisited]
        for held, (key, _) in self.returned_urls:
            yield (held.host, held.epoch), [key]

    def update_totals(self, books: CrawlTotals) -> None:
        """Take in the totals of the whole crawl."""
        self.totals, self._has_totals = books, True

    def notify(self) -> None:
        self._calls_ready.set()

    async def wait_for_calls(self, seconds: float) -> None:
        """Wait until a call is pending, at most these seconds."""
        await _wait(self._calls_ready, seconds)

    async def wait_for_address_calls(self, seconds: float) -> None:
        """Wait until an address is asked for or freed, at most these seconds."""
        await _wait(self._addresses_ready, seconds)

    def forget_recent_links(self) -> None:
        """Forget which links were offered: the coordinator may have lost them."""
        self._recent_keys[:] = 0


def group_by_lease(strays: Sequence[tuple[LeaseId, Row]]) -> dict[LeaseId, list[Row]]:
    rows: dict[LeaseId, list[Row]] = {}
    for held, row in strays:
        rows.setdefault(held, []).append(row)
    return rows


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
    event.clear()


_PAUSE = 0.3  # seconds


class AddressLeases:
    """Batches the pending requests for addresses: while one call is under way, the next batch gathers."""

    def __init__(
        self, board: Coordinator, mailbox: PendingCalls, name: Callable[[], AgentId], on_refused: Callable[[str], None]
    ):
        """`on_refused` receives an address that is no longer ours."""
        self._board, self._mailbox, self._name = board, mailbox, name
        self._on_refused = on_refused
        self._held: dict[str, AddressRequest] = {}  # granted, and not known to be free again

    async def run(self) -> None:
        while True:
            await self._mailbox.wait_for_address_calls(60.0)
            while self._mailbox.address_requests or self._mailbox.freed_addresses:
                await self._deliver_batch()

    async def _deliver_batch(self) -> None:
        rests = self._mailbox.take_freed_addresses()
        for address in rests:
            self._held.pop(address, None)
        asks = self._mailbox.address_requests.take()
        if not self._mailbox.is_valid:
            self._mailbox.put_back_freed_addresses(rests)
            self._refuse(asks)
            await self._mailbox.wait_for_address_calls(_PAUSE)
            return
        try:
            if rests:
                await self._board.release_addresses(self._name(), rests)
                rests = {}
            if asks:
                answers = await self._board.lease_addresses(self._name(), [ask for ask, _ in asks])
                for (ask, future), answer in zip(asks, answers, strict=True):
                    if answer.granted:
                        self._held[ask.address] = ask
                    if not future.done():
                        future.set_result(answer)
        except (CoordinatorUnreachable, AgentFenced):
            self._mailbox.put_back_freed_addresses(rests)
            self._refuse(asks)
            await self._mailbox.wait_for_address_calls(_PAUSE)

    async def renew_held(self) -> None:
        """Ask for all held addresses again: a restarted server may have forgotten them."""
        asks = list(self._held.values())
        if not asks:
            return
        for ask, answer in zip(asks, await self._board.lease_addresses(self._name(), asks), strict=True):
            if not answer.granted and self._held.get(ask.address) is ask:
                del self._held[ask.address]
                self._on_refused(ask.address)

    @staticmethod
    def _refuse(asks: Sequence[tuple[AddressRequest, asyncio.Future[AddressReply]]]) -> None:
        for _, future in asks:
            if not future.done():
                future.set_result(AddressReply(granted=False, retry_seconds=1.0))
