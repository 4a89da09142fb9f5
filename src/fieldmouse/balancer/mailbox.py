"""What the frontier of an agent says and wants, until a messenger has brought it to the board.

The frontier's side is synchronous: each call puts something into a tray. The messenger empties the trays, and
puts back what could not be brought. Invariant: what is in no tray, the board has been told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from fieldmouse.balancer.board.contract import (
    AddressAnswer,
    AddressAsk,
    BoardBooks,
    GivenBack,
    Held,
    Luggage,
    Row,
)
from fieldmouse.balancer.board.pagelimit import PAGE
from fieldmouse.balancer.board.rows import to_row
from fieldmouse.balancer.choice import Chooser
from fieldmouse.balancer.lease import LeaseClock
from fieldmouse.balancer.sharedscope import SharedScope
from fieldmouse.balancer.tellings import DoneUrl, FoundLinks, Tellings
from fieldmouse.balancer.tray import Tray
from fieldmouse.clock import Clock
from fieldmouse.policy.opinion import shunned
from fieldmouse.policy.sitelimits import DropRule
from fieldmouse.records import HostState, Kind, Link
from fieldmouse.url import Host, host_of


class SettledPage(Protocol):
    """As the frontier tells of it."""

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


_TOGETHER = 1000  # URLs that are taken back at once
_REMEMBERED = 1 << 18  # keys that were told lately: a power of two


class Mailbox:
    """See `frontier.landlord.Landlord`."""

    def __init__(
        self, *, tellings: Tellings, lease: LeaseClock, chooser: Chooser, clock: Clock,
        pack: Callable[[Host, HostState], Luggage], delay: Callable[[HostState], float],
        key_of: Callable[[str], int], kinds_of: Callable[[Sequence[int]], Sequence[str]],
    ):  # fmt: skip
        """`pack` gives a host what others are to know of it; `delay` is that between two visits.

        `kinds_of` tells of which kind the outcomes of some keys are that are settled here."""
        self.asks = Tray[tuple[AddressAsk, asyncio.Future[AddressAnswer]]]()
        self.back = Tray[GivenBack]()
        self.strays = Tray[tuple[Held, Row]]()  # URLs of hosts that left before
        self.more = Tray[Held]()
        self.wishes = Tray[Host]()
        self.rests: dict[str, float] = {}  # addresses that are free, and when each may be asked
        self.books = BoardBooks()
        self.scope = SharedScope()
        self._heard = False  # the board has said how things stand
        self._tellings, self._lease, self._chooser, self._clock = tellings, lease, chooser, clock
        self._pack, self._delay, self.key_of, self._kinds_of = pack, delay, key_of, kinds_of
        self._lately = np.zeros(_REMEMBERED, np.uint64)
        self._dropped: dict[str, int] = {}
        self._posted = asyncio.Event()
        self._at_the_door = asyncio.Event()

    # -- what the frontier says

    @property
    def open(self) -> bool:
        return self._lease.valid

    def found(self, links: Sequence[Link], keys: Sequence[int]) -> None:
        """Links that were found; those told lately are known to the board."""
        if not keys:
            return
        now = self._clock.now()
        offered = np.array(keys, np.uint64)
        slots = (offered & np.uint64(_REMEMBERED - 1)).astype(np.intp)
        fresh = np.flatnonzero(self._lately[slots] != offered)
        if not fresh.size:
            return
        self._lately[slots[fresh]] = offered[fresh]
        by_host: dict[Host, list[tuple[int, bytes]]] = {}
        is_seed = False
        for place in fresh.tolist():
            link = links[place]
            host = host_of(link.url)
            is_seed = is_seed or link.kind is Kind.SEED
            by_host.setdefault(host, []).append((keys[place], to_row(link, host, now)))
        for host, rows in by_host.items():
            self._tellings.found(FoundLinks(host, tuple(rows), is_seed))
        self.post()

    def stays(self, host: Host, state: HostState, visits: int) -> bool:
        return self._chooser.stays(host, visits, shunned(state.unreached, self._clock.now()))

    def want_more(self, host: Host, epoch: int) -> None:
        self.more.put(Held(host, epoch))
        self.post()

    def wish(self, hosts: Sequence[Host]) -> None:
        for host in hosts:
            self.wishes.put(host)
        self.post()

    def vacated(
        self, host: Host, epoch: int, state: HostState, unused: Sequence[Link], *, idle: bool = False
    ) -> None:
        now = self._clock.now()
        rows = [(self.key_of(link.url), to_row(link, host, now)) for link in unused]
        shuns = shunned(state.unreached, now)
        place = self._chooser.place_of(host, shuns, idle=idle)
        self.back.put(GivenBack(Held(host, epoch), self._pack(host, state), rows, place, shuns))
        self._chooser.forget(host)
        self.post()

    def evicted(self, host: Host) -> None:
        self._chooser.forget(host)

    def put_back(self, host: Host, epoch: int, link: Link) -> None:
        row = to_row(link, host, self._clock.now())
        self.strays.put((Held(host, epoch), (self.key_of(link.url), row)))
        self.post()

    def settled(self, urls: Sequence[SettledPage]) -> None:
        """They are booked as soon as the checkpoint holds them."""
        leases: dict[tuple[Host, int], list[DoneUrl]] = {}
        for url in urls:
            leases.setdefault((url.host, url.epoch), []).append(DoneUrl(url.key, url.url, url.kind))
        self._tellings.done(leases)

    def take_back(self, links: Sequence[tuple[Link, str]]) -> None:
        """Outcomes of ours that do not count any more, with the kinds they were of: these URLs wait again."""
        now = self._clock.now()
        by_host: dict[Host, list[tuple[Link, str]]] = {}
        for link, kind in links:
            by_host.setdefault(host_of(link.url), []).append((link, kind))
        for host, its in by_host.items():
            for start in range(0, len(its), _TOGETHER):
                part = its[start : start + _TOGETHER]
                rows = [(self.key_of(link.url), to_row(link, host, now)) for link, _ in part]
                self._tellings.forgiven(host, rows, [kind for _, kind in part])

    def wait_again(self, urls: int) -> None:
        """So many URLs wait on the board that were settled when we heard of it last."""
        self.books = replace(self.books, waiting=self.books.waiting + urls)

    def book_known(self, host: Host, epoch: int, links: Sequence[Link], pages: float) -> int:
        """These have outcomes here already: the board can have them at once, each as what it is.

        At most so many `pages` of them; the others wait again. Returns how many these are.
        """
        keys = [self.key_of(link.url) for link in links]
        known, over = list[DoneUrl](), 0
        for key, link, kind in zip(keys, links, self._kinds_of(keys), strict=True):
            if kind == PAGE and pages < 1:
                self.put_back(host, epoch, link)
                over += 1
            else:
                pages -= kind == PAGE
                known.append(DoneUrl(key, link.url, kind))
        if known:
            self._tellings.known((host, epoch), known)
        self.post()
        return over

    @property
    def waiting(self) -> int:
        books = self.books
        idle = self._heard and books.begun and not books.waiting and not len(self._tellings)
        return 0 if idle else max(1, books.waiting)

    @property
    def dropped(self) -> dict[str, int]:
        return dict(self._dropped)

    def note_dropped(self, hosts: int, urls: int) -> None:
        """So many links were left out by the bounds on sites."""
        for rule, count in ((DropRule.HOSTS, hosts), (DropRule.URLS, urls)):
            if count:
                self._dropped[rule.value] = self._dropped.get(rule.value, 0) + count

    # -- what robots want

    async def ask_address(self, address: str, host: Host, epoch: int, state: HostState) -> AddressAnswer:
        """May we ask there, for one errand? Waits for the board's answer."""
        answer: asyncio.Future[AddressAnswer] = asyncio.get_running_loop().create_future()
        self.asks.put((AddressAsk(address, Held(host, epoch), self._delay(state)), answer))
        self._at_the_door.set()
        return await answer

    def free_address(self, address: str, free_at: float) -> None:
        """The errand is over; the address may be asked again then."""
        self.rests[address] = max(free_at, self.rests.get(address, 0.0))
        self._at_the_door.set()

    def take_rests(self) -> dict[str, float]:
        """Addresses that are free, and for how many seconds each rests."""
        rests, self.rests = self.rests, {}
        now = self._clock.now()
        return {address: max(0.0, at - now) for address, at in rests.items()}

    def put_rests_back(self, rests: dict[str, float]) -> None:
        """They could not be told; what is left of each is told later."""
        now = self._clock.now()
        for address, seconds in rests.items():
            self.rests[address] = max(now + seconds, self.rests.get(address, 0.0))

    # -- the messenger's side

    def notes(self, standing: Mapping[tuple[Host, int], HostState]) -> dict[Held, Luggage]:
        """What the board is to know of hosts that we go on holding."""
        return {Held(host, epoch): self._pack(host, state) for (host, epoch), state in standing.items()}

    def unsaid_keys(self) -> Iterator[tuple[tuple[Host, int], list[int]]]:
        """Of hosts given back and URLs that will not be visited, of which the board was not told."""
        for given in self.back:
            yield (given.held.host, given.held.epoch), [key for key, _ in given.unused]
        for held, (key, _) in self.strays:
            yield (held.host, held.epoch), [key]

    def hear(self, books: BoardBooks) -> None:
        """How the whole crawl stands."""
        self.books, self._heard = books, True

    def post(self) -> None:
        self._posted.set()

    async def posted(self, seconds: float) -> None:
        """Wait until there is something to bring, or for so long."""
        await _wait(self._posted, seconds)

    async def at_the_door(self, seconds: float) -> None:
        """The same for what robots want, who wait."""
        await _wait(self._at_the_door, seconds)

    def forget_lately(self) -> None:
        """The board may have forgotten what it was told."""
        self._lately[:] = 0


def by_lease(strays: Sequence[tuple[Held, Row]]) -> dict[Held, list[Row]]:
    rows: dict[Held, list[Row]] = {}
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
