"""Sender that delivers the outbox to the coordinator in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fieldmouse.balancer.board.contract import Board, BookedKeys, Held, Name, Offer, SiteBounds, Told
from fieldmouse.balancer.board.forgiving import TakenBack
from fieldmouse.balancer.board.rows import pack_urls
from fieldmouse.balancer.tellings import DoneUrl, DoneUrls, ForgivenUrls, FoundLinks, Tellings
from fieldmouse.errors import Fenced
from fieldmouse.policy.sitelimits import limited_site
from fieldmouse.url import Host

_MOST_LINKS = 1024  # links sent in one call


class Teller:
    def __init__(
        self,
        board: Board,
        tellings: Tellings,
        *,
        keep_urls: bool,
        bounds: SiteBounds,
        place_new: Callable[[Host], str],
        on_dropped: Callable[[int, int], None],
        on_unbooked: Callable[[Sequence[DoneUrl]], None],
        on_booked: Callable[[int], None],
        on_again: Callable[[int], None],
    ):
        """`place_new` returns the agent that should visit a new host.

        `on_dropped` receives dropped links, `on_unbooked` rejected outcomes, `on_booked` the number of
        pages sent, and `on_again` the number of URLs that wait again.
        """
        self._board, self._tellings, self._keep_urls, self._bounds = board, tellings, keep_urls, bounds
        self._place_new, self._on_dropped, self._on_unbooked = place_new, on_dropped, on_unbooked
        self._on_booked, self._on_again = on_booked, on_again
        self._rejected: set[int] = set()  # keys of our rejected outcomes

    async def tell_all(self, name: Name) -> None:
        while batch := self._tellings.next(_MOST_LINKS):
            if links := [each for each in batch if isinstance(each, FoundLinks)]:
                await self._send_links(links)
            await self._send_retries(name, [each for each in batch if isinstance(each, ForgivenUrls)])
            await self._send_outcomes(name, [each for each in batch if isinstance(each, DoneUrls)])
            self._on_booked(self._tellings.told(len(batch)))

    async def _send_links(self, messages: Sequence[FoundLinks]) -> None:
        offers = [
            Offer(message.host, limited_site(message.host), message.links, self._place_new(message.host))
            for message in messages
        ]
        seeds = any(message.is_seed for message in messages)
        answer = await self._board.offer(offers, self._bounds, seeds=seeds)
        self._on_dropped(answer.dropped_hosts, answer.dropped_urls)

    async def _send_retries(self, name: Name, messages: Sequence[ForgivenUrls]) -> None:
        for message in messages:
            # Rejected outcomes wait already, or belong to other agents.
            outcomes = zip(message.links, message.kinds, strict=True)
            counted = [(row, kind) for row, kind in outcomes if row[0] not in self._rejected]
            rows, kinds = [row for row, _ in counted], [kind for _, kind in counted]
            if rows:
                taken = TakenBack(message.host, rows, kinds, message.number)
                self._on_again(await self._board.take_back(name, taken))

    async def _send_outcomes(self, me: Name, messages: Sequence[DoneUrls]) -> None:
        for message in messages:
            bookings = [
                BookedKeys(Held(host, epoch), [url.key for url in urls], [url.kind for url in urls])
                for host, epoch, urls in message.leases
            ]
            urls = [url for _, _, leased in message.leases for url in leased]
            packed = pack_urls([url.url for url in urls]) if self._keep_urls else b""
            name = Name(me.agent, message.incarnation or me.incarnation)
            try:
                missed = await self._board.book(name, Told(bookings, packed, message.number))
            except Fenced:
                if name == me:
                    raise
                if message.number <= await self._board.last_told(name):
                    continue  # it counted when it was sent the first time
                missed = [booking.keys for booking in bookings]
            late = {key for keys in missed for key in keys}
            if late:
                self._rejected |= late
                self._on_unbooked([url for url in urls if url.key in late])
