"""Rebuild of a sharded crawl on those servers that lost it.

A server that still has its shard stays as it is: its data counts, and hosts of other servers do not
concern it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fieldmouse.cluster.coordinator import (
    Board,
    BoardBooks,
    Charter,
    Heard,
    Luggage,
    Name,
    Offer,
    Offered,
    SiteBounds,
)
from fieldmouse.cluster.errors import occupied
from fieldmouse.cluster.rebuild import BoardBuilder, RestoredHost
from fieldmouse.cluster.rows import pack_urls, unpack_urls
from fieldmouse.cluster.sharded.servers import check_apart, order_of, other_servers
from fieldmouse.cluster.sharded.sharding import place_of_host, summed, together
from fieldmouse.url import Host


class SpreadBuilder:
    """Implementation of `rebuilding.BoardBuilder`. `boards` are the same servers, as agents see them."""

    def __init__(
        self, builders: Mapping[str, BoardBuilder], boards: Mapping[str, Board], crawl: str = "fieldmouse"
    ) -> None:
        self._builders, self._boards, self._crawl = dict(builders), dict(boards), crawl
        self._hidden: dict[int, BoardBuilder] = {}  # builders of the lost shards, by index
        self._intact: list[Board] = []

    async def clear(self, key_seed: int, since: Sequence[Heard]) -> bool:
        return any(await together([builder.clear(key_seed, since) for builder in self._builders.values()]))

    async def hide(self, charter: Charter) -> Charter:
        await check_apart(self._boards)
        stored = await together([board.charter() for board in self._boards.values()])
        charters = dict(zip(self._boards, stored, strict=True))
        for label, each in list(charters.items()):
            is_other = each is not None and each.key_seed != charter.key_seed
            if is_other and not (await self._boards[label].books()).seen:
                charters[label] = None  # another crawl that was created but never used
        if order_of(charters, self._crawl) is not None:
            raise occupied(self._crawl)
        there = {label: each for label, each in charters.items() if each is not None}
        servers = next((each.servers for each in there.values()), tuple(sorted(charters)))
        if len(servers) != len(charters):
            raise other_servers(self._crawl, servers, len(charters))
        free = sorted({*range(len(servers))} - {each.place for each in there.values()})
        strangers = sorted(label for label in charters if label not in there)
        hidden = charter
        for place, label in zip(free, strangers, strict=True):
            builder = self._hidden[place] = self._builders[label]
            hidden = await builder.hide(replace(charter, servers=servers, place=place))
            if hidden.key_seed != charter.key_seed:
                return hidden
        self._intact = [self._boards[label] for label in there]
        return next(iter(there.values()), hidden)

    async def remove(self) -> None:
        await together([builder.remove() for builder in self._builders.values()])

    def _lost_hosts(self, hosts: Sequence[Host]) -> dict[int, list[int]]:
        """Positions of those hosts that lie on lost shards, by shard."""
        parts: dict[int, list[int]] = {}
        for number, host in enumerate(hosts):
            place = place_of_host(host, len(self._builders))
            if place in self._hidden:
                parts.setdefault(place, []).append(number)
        return parts

    async def restore(
        self, name: Name, hosts: Sequence[RestoredHost], urls: bytes = b"", *, bounded: bool = False
    ) -> int:
        all_urls = unpack_urls(urls) if urls else []
        starts = [0]
        for host in hosts:
            starts.append(starts[-1] + len(host.keys))
        new = 0
        for place, numbers in self._lost_hosts([host.host for host in hosts]).items():
            part_urls = [url for number in numbers for url in all_urls[starts[number] : starts[number + 1]]]
            part, packed = [hosts[number] for number in numbers], pack_urls(part_urls) if urls else b""
            new += await self._hidden[place].restore(name, part, packed, bounded=bounded)
        return new

    async def note_restored(self, name: Name, told: int) -> None:
        await together([builder.note_restored(name, told) for builder in self._hidden.values()])

    async def settle_hosts(self, luggage: Mapping[Host, Luggage]) -> None:
        hosts = list(luggage)
        for place, numbers in self._lost_hosts(hosts).items():
            await self._hidden[place].settle_hosts(
                {hosts[number]: luggage[hosts[number]] for number in numbers}
            )

    async def offer(self, offers: Sequence[Offer], bounds: SiteBounds, *, seeds: bool = False) -> Offered:
        results = [
            await self._hidden[place].offer([offers[number] for number in numbers], bounds, seeds=seeds)
            for place, numbers in self._lost_hosts([offer.host for offer in offers]).items()
        ]
        return Offered(
            new=sum(part.new for part in results),
            dropped_hosts=sum(part.dropped_hosts for part in results),
            dropped_urls=sum(part.dropped_urls for part in results),
        )

    async def books(self) -> BoardBooks:
        hidden = await together([builder.books() for builder in self._hidden.values()])
        return summed([*hidden, *await together([board.books() for board in self._intact])])

    async def publish(self, lease: float, delay: float, age: float = 0.0) -> None:
        """Publish one server after another.

        Until the last one, agents are told that a server lacks the crawl.
        """
        for builder in self._hidden.values():
            await builder.publish(lease, delay, age)

    async def close(self) -> None:
        await together([builder.close() for builder in self._builders.values()])
        await together([board.close() for board in self._boards.values()])
