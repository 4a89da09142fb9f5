"""Rebuild of a sharded crawl on those servers that lost it.

A server that still has its shard stays as it is: its data counts, and hosts of other servers do not
concern it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from fieldmouse.cluster.coordinator import (
    AgentId,
    Coordinator,
    CrawlRebuilder,
    CrawlSpec,
    CrawlTotals,
    HeartbeatId,
    HostPayload,
    LinkOffer,
    OfferResult,
    RestoredOutcomes,
    SiteBounds,
)
from fieldmouse.cluster.error_messages import crawl_not_empty_error
from fieldmouse.cluster.sharded import sharding
from fieldmouse.cluster.sharded.sharding import gather_all
from fieldmouse.url import Host

K = TypeVar("K")


class ShardedRebuilder:
    """Implementation of `CrawlRebuilder`. `boards` are the same servers, as agents see them."""

    def __init__(
        self, builders: Mapping[str, CrawlRebuilder], boards: Mapping[str, Coordinator], crawl: str = "fieldmouse"
    ) -> None:
        self._builders, self._boards, self._crawl = dict(builders), dict(boards), crawl
        self._hidden: dict[int, CrawlRebuilder] = {}  # builders of the lost shards, by index
        self._intact: list[Coordinator] = []

    async def clear_outdated_crawl(self, key_seed: int, since: Sequence[HeartbeatId]) -> bool:
        builders = self._builders.values()
        return any(await gather_all([builder.clear_outdated_crawl(key_seed, since) for builder in builders]))

    async def begin_hidden(self, spec: CrawlSpec) -> CrawlSpec:
        await sharding.check_distinct_servers(self._boards)
        stored = await gather_all([board.crawl_spec() for board in self._boards.values()])
        specs = dict(zip(self._boards, stored, strict=True))
        for label, each in list(specs.items()):
            is_other = each is not None and each.key_seed != spec.key_seed
            if is_other and not (await self._boards[label].totals()).seen:
                specs[label] = None  # another crawl that was created but never used
        if sharding.shard_order(specs, self._crawl) is not None:
            raise crawl_not_empty_error(self._crawl)
        there = {label: each for label, each in specs.items() if each is not None}
        servers = next((each.servers for each in there.values()), tuple(sorted(specs)))
        if len(servers) != len(specs):
            raise sharding.wrong_servers_error(self._crawl, servers, len(specs))
        free = sorted({*range(len(servers))} - {each.place for each in there.values()})
        strangers = sorted(label for label in specs if label not in there)
        hidden = spec
        for place, label in zip(free, strangers, strict=True):
            builder = self._hidden[place] = self._builders[label]
            hidden = await builder.begin_hidden(replace(spec, servers=servers, place=place))
            if hidden.key_seed != spec.key_seed:
                return hidden
        self._intact = [self._boards[label] for label in there]
        return next(iter(there.values()), hidden)

    async def remove_crawl(self) -> None:
        await gather_all([builder.remove_crawl() for builder in self._builders.values()])

    def _by_lost_shard(self, things: Iterable[K], host_of: Callable[[K], Host]) -> list[tuple[CrawlRebuilder, list[K]]]:
        """Builders of the lost shards, each with its share of `things`; those of intact shards are left out."""
        servers = len(self._builders)
        parts = sharding.group_by_shard(things, lambda thing: sharding.shard_of_host(host_of(thing), servers))
        return [(self._hidden[place], part) for place, part in parts.items() if place in self._hidden]

    async def restore_outcomes(
        self, name: AgentId, hosts: Sequence[RestoredOutcomes], urls: bytes = b"", *, bounded: bool = False
    ) -> int:
        url_parts, new = sharding.PackedUrlGroups(urls, [len(host.keys) for host in hosts]), 0
        for builder, part in self._by_lost_shard(enumerate(hosts), lambda numbered: numbered[1].host):
            packed = url_parts.pack_groups(number for number, _ in part)
            new += await builder.restore_outcomes(name, [host for _, host in part], packed, bounded=bounded)
        return new

    async def mark_agent_restored(self, name: AgentId, told: int) -> None:
        await gather_all([builder.mark_agent_restored(name, told) for builder in self._hidden.values()])

    async def restore_host_payloads(self, host_payload: Mapping[Host, HostPayload]) -> None:
        for builder, part in self._by_lost_shard(host_payload.items(), lambda item: item[0]):
            await builder.restore_host_payloads(dict(part))

    async def offer_links(self, offers: Sequence[LinkOffer], bounds: SiteBounds, *, seeds: bool = False) -> OfferResult:
        parts = self._by_lost_shard(offers, lambda offer: offer.host)
        return OfferResult.sum_results(
            [await builder.offer_links(part, bounds, seeds=seeds) for builder, part in parts]
        )

    async def totals(self) -> CrawlTotals:
        hidden = await gather_all([builder.totals() for builder in self._hidden.values()])
        return sharding.sum_totals([*hidden, *await gather_all([board.totals() for board in self._intact])])

    async def publish_crawl(self, lease: float, delay: float, age: float = 0.0) -> None:
        """Publish one server after another.

        Until the last one, agents are told that a server lacks the crawl.
        """
        for builder in self._hidden.values():
            await builder.publish_crawl(lease, delay, age)

    async def close(self) -> None:
        await gather_all([builder.close() for builder in self._builders.values()])
        await gather_all([board.close() for board in self._boards.values()])
