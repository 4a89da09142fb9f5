"""Coordinator on several servers.

Hosts are sharded by site, addresses by name; every agent is on all servers.

Each server keeps its own guarantees and knows nothing about the others. Guarantees between servers are
kept here:
- An agent is alive for all servers or for none. A server that cannot be reached is tried first with the
  next heartbeat, and the others receive nothing before it has answered.
- Links are on all servers concerned before a call returns, so a later acknowledgement comes after all of
them.
- Servers are read one after the other. "No URL waits" is believed only if it was true at one moment: if a
  second read finds all counts unchanged, since they never decrease.

An address may lie on another server than a host at it: that server trusts the caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from fieldmouse.cluster.coordinator import (
    MOST_EXAMPLES,
    AckBatch,
    AddressReply,
    AddressRequest,
    AgentId,
    Coordinator,
    CrawlSpec,
    CrawlTotals,
    DamagedField,
    HeartbeatId,
    HeartbeatReply,
    HeartbeatRequest,
    HostGrant,
    HostPayload,
    LeaseId,
    LinkOffer,
    ListedAgent,
    OfferResult,
    PageCount,
    ReleasedHost,
    ReservationRequest,
    RetryBatch,
    Row,
    SiteBounds,
    StrandedHosts,
)
from fieldmouse.cluster.error_messages import crawl_lost_error, shard_missing_error
from fieldmouse.cluster.sharded import sharding
from fieldmouse.cluster.sharded.sharding import gather_all
from fieldmouse.errors import AgentFenced, CoordinatorUnreachable
from fieldmouse.url import Host, Url

T = TypeVar("T")
K = TypeVar("K")
_ASK_AGAIN = 1.0  # seconds to wait for an address whose server cannot be reached
_TRIES = 5  # tries to find the pages of the other servers unchanged; after them nothing new is reserved this time


def _sum_counts(counts: Sequence[PageCount]) -> PageCount:
    return PageCount(sum(count.acked for count in counts), any(count.calm for count in counts))


def _with_counts(ask: ReservationRequest, counts: Sequence[PageCount]) -> ReservationRequest:
    """The request with the pages of the other servers."""
    others = _sum_counts(counts)
    return replace(ask, acked_elsewhere=ask.acked_elsewhere + others.acked, frozen=ask.frozen or others.calm)


class ShardedCoordinator:
    """One crawl on several servers; `boards` maps the label of each server to its coordinator."""

    def __init__(self, boards: Mapping[str, Coordinator], crawl: str = "fieldmouse") -> None:
        self._named, self._crawl = dict(boards), crawl
        self._shards: list[Coordinator] = []  # in the order of the shards, once that is known
        self._unreachable: set[int] = set()  # shards that did not answer the last heartbeat
        self._turn = 0

    # -- the crawl

    async def server_identity(self) -> str:
        return " ".join(await gather_all([board.server_identity() for board in self._named.values()]))

    async def _crawl_specs_by_server(self) -> dict[str, CrawlSpec | None]:
        specs = await gather_all([board.crawl_spec() for board in self._named.values()])
        return dict(zip(self._named, specs, strict=True))

    async def crawl_spec(self) -> CrawlSpec | None:
        specs = await self._crawl_specs_by_server()
        order = sharding.shard_order(specs, self._crawl)
        if order is not None:
            self._shards = [self._named[label] for label in order]
            spec = specs[order[0]]
            return None if spec is None else replace(spec, servers=(), place=0)  # as agents see it
        await sharding.check_distinct_servers(self._named)
        there = [label for label, spec in specs.items() if spec is not None]
        books = await gather_all([self._named[label].totals() for label in there])
        if any(totals.started or totals.seen for totals in books):
            raise shard_missing_error(self._crawl, [label for label in specs if label not in there])
        return None  # its creator has not reached all servers yet

    async def create_crawl(self, spec: CrawlSpec) -> CrawlSpec:
        """Create a crawl on the servers that lack it. A specification found on one of them takes precedence.

        All creators visit the servers in the same order, so all of them find the specification of the
        first one.
        """
        await sharding.check_distinct_servers(self._named)
        stored = await self._crawl_specs_by_server()
        sharding.shard_order(stored, self._crawl)
        there = [other for other in stored.values() if other is not None]
        spec = there[0] if there else replace(spec, servers=tuple(sorted(self._named)))
        free = sorted({*range(len(self._named))} - {other.place for other in there})
        strangers = sorted(label for label, other in stored.items() if other is None)
        for label in strangers:
            if label not in spec.servers:  # another agent created it on other servers just now
                raise shard_missing_error(self._crawl, [label])
        for place, label in zip(free, strangers, strict=True):
            spec = await self._named[label].create_crawl(replace(spec, place=place))
        settled = await self.crawl_spec()
        if settled is None:
            raise crawl_lost_error(self._crawl)
        return settled

    async def _load_shards(self) -> Sequence[Coordinator]:
        if not self._shards and await self.crawl_spec() is None:
            raise crawl_lost_error(self._crawl)
        return self._shards

    async def stop_crawl(self, why: str) -> None:
        await self._on_each(lambda board: board.stop_crawl(why))

    async def _on_each(self, act: Callable[[Coordinator], Awaitable[T]]) -> list[T]:
        return await gather_all([act(board) for board in await self._load_shards()])

    async def _group_by_shard(
        self, things: Iterable[K], host_of: Callable[[K], Host], *, every: bool = False
    ) -> list[tuple[Coordinator, list[K]]]:
        """Servers that have any of the hosts, each with its share of `things`; `every`: the others, too."""
        boards = await self._load_shards()
        parts = sharding.group_by_shard(things, lambda thing: sharding.shard_of_host(host_of(thing), len(boards)))
        for place in range(len(boards)) if every else ():
            parts.setdefault(place, [])
        return [(boards[place], part) for place, part in parts.items()]

    # -- agents

    async def join(self, name: AgentId, lease: float) -> None:
        await self._on_each(lambda board: board.join(name, lease))

    async def was_never_fenced(self, name: AgentId) -> bool:
        return all(await self._on_each(lambda board: board.was_never_fenced(name)))

    async def check_no_data_lost(self, since: HeartbeatId) -> None:
        await self._on_each(lambda board: board.check_no_data_lost(since))

    async def heartbeat(self, name: AgentId, beat: HeartbeatRequest) -> HeartbeatReply:
        boards = await self._load_shards()
        replies: dict[int, HeartbeatReply] = {}

        async def call(places: Iterable[int]) -> None:
            asked = list(places)
            calls = [boards[place].heartbeat(name, beat) for place in asked]
            answers = await asyncio.gather(*calls, return_exceptions=True)
            for place, answer in zip(asked, answers, strict=True):
                if isinstance(answer, CoordinatorUnreachable):
                    self._unreachable.add(place)
                elif isinstance(answer, HeartbeatReply):
                    self._unreachable.discard(place)
                    replies[place] = answer
            sharding.raise_worst_error(answers)

        if self._unreachable:
            await call(sorted(self._unreachable))
        await call([place for place in range(len(boards)) if place not in replies])
        in_order = [reply for _, reply in sorted(replies.items())]
        totals = await self._consistent_totals([reply.totals for reply in in_order])
        return sharding.merge_heartbeat_replies(in_order, totals)

    async def widen_scope(self, urls: Sequence[Url]) -> None:
        await self._on_each(lambda board: board.widen_scope(urls))

    async def leave(self, name: AgentId) -> None:
        await self._on_each(lambda board: board.leave(name))

    async def totals(self) -> CrawlTotals:
        return await self._consistent_totals(await self._on_each(lambda board: board.totals()))

    async def _consistent_totals(self, books: Sequence[CrawlTotals]) -> CrawlTotals:
        """Sum of the totals. If it says that no URL waits, that was true at one moment between two reads."""
        while (total := sharding.sum_totals(books)).started and not total.waiting:
            again = await self._on_each(lambda board: board.totals())
            if [(each.seen, each.settled) for each in again] == [(each.seen, each.settled) for each in books]:
                break
            books = again
        return total

    async def stranded_hosts(self) -> StrandedHosts:
        parts = await self._on_each(lambda board: board.stranded_hosts())
        return StrandedHosts(
            count=sum(part.count for part in parts),
            examples=tuple(host for part in parts for host in part.examples)[:MOST_EXAMPLES],
            repaired=sum(part.repaired for part in parts),
        )

    async def list_agents(self) -> list[ListedAgent]:
        return sharding.merge_agents(await self._on_each(lambda board: board.list_agents()))

    async def list_departed_agents(self) -> list[ListedAgent]:
        here = {note.agent for note in await self.list_agents()}
        gone = sharding.merge_agents(await self._on_each(lambda board: board.list_departed_agents()))
        return [note for note in gone if note.agent not in here]

    async def request_drain(self, agent: str) -> bool:
        return any(await self._on_each(lambda board: board.request_drain(agent)))

    async def forget_agent(self, agent: str, *, again: bool) -> int:
        return sum(await self._on_each(lambda board: board.forget_agent(agent, again=again)))

    # -- links

    async def offer_links(self, offers: Sequence[LinkOffer], bounds: SiteBounds, *, seeds: bool = False) -> OfferResult:
        # Each server learns that the crawl has begun together with its seeds.
        parts = await self._group_by_shard(offers, lambda offer: offer.host, every=seeds)
        return OfferResult.sum_results(
            await gather_all([board.offer_links(part, bounds, seeds=seeds) for board, part in parts])
        )

    # -- hosts

    async def lease_hosts(self, name: AgentId, hosts: int, urls: int, soon: float = 0.0) -> list[HostGrant]:
        """Lease from one server if it has enough, starting with another one each time."""
        boards = await self._load_shards()
        self._turn += 1
        grants: list[HostGrant] = []
        for number in range(len(boards)):
            if len(grants) >= hosts:
                break
            board = boards[(self._turn + number) % len(boards)]
            try:
                grants += await board.lease_hosts(name, hosts - len(grants), urls, soon)
            except CoordinatorUnreachable:
                if not grants:
                    raise
                break  # these grants are ours; the next heartbeat recovers the rest
        return grants

    async def request_hosts_for_polls(self, name: AgentId, hosts: Sequence[Host]) -> None:
        parts = await self._group_by_shard(hosts, lambda host: host)
        await gather_all([board.request_hosts_for_polls(name, part) for board, part in parts])

    async def lease_more_urls(self, name: AgentId, held: Sequence[LeaseId], urls: int) -> list[HostGrant]:
        parts = await self._group_by_shard(held, lambda each: each.host)
        answers = await gather_all([board.lease_more_urls(name, part, urls) for board, part in parts])
        grants: dict[LeaseId, HostGrant] = {}
        for (_, part), part_grants in zip(parts, answers, strict=True):
            grants.update(zip(part, part_grants, strict=True))
        return [grants[each] for each in held]

    async def save_host_payloads(self, name: AgentId, host_payload: Mapping[LeaseId, HostPayload]) -> None:
        parts = await self._group_by_shard(host_payload.items(), lambda item: item[0].host)
        await gather_all([board.save_host_payloads(name, dict(part)) for board, part in parts])

    async def release_hosts(self, name: AgentId, hosts: Sequence[ReleasedHost]) -> None:
        parts = await self._group_by_shard(hosts, lambda given: given.lease.host)
        await gather_all([board.release_hosts(name, part) for board, part in parts])

    async def return_urls(self, name: AgentId, rows: Mapping[LeaseId, Sequence[Row]]) -> None:
        parts = await self._group_by_shard(rows.items(), lambda item: item[0].host)
        await gather_all([board.return_urls(name, dict(part)) for board, part in parts])

    async def reconcile_leases(self, name: AgentId, known: Mapping[LeaseId, Collection[int]]) -> list[LeaseId]:
        parts = await self._group_by_shard(known.items(), lambda item: item[0].host, every=True)
        lost = await gather_all([board.reconcile_leases(name, dict(part)) for board, part in parts])
        return [held for part in lost for held in part]

    # -- addresses

    async def lease_addresses(self, name: AgentId, asks: Sequence[AddressRequest]) -> list[AddressReply]:
        """Lease addresses; those of a server that cannot be reached are refused."""
        boards = await self._load_shards()
        parts: dict[int, dict[int, AddressRequest]] = {}
        for number, ask in enumerate(asks):
            place = sharding.shard_of_address(ask.address, len(boards))
            if sharding.shard_of_host(ask.lease.host, len(boards)) != place:
                ask = replace(ask, lease=LeaseId(ask.lease.host, 0))
            parts.setdefault(place, {})[number] = ask
        replies = await asyncio.gather(
            *(boards[place].lease_addresses(name, list(part.values())) for place, part in parts.items()),
            return_exceptions=True,
        )
        sharding.raise_worst_error(
            [answer for answer in replies if not isinstance(answer, CoordinatorUnreachable)] or replies
        )
        answers = [AddressReply(granted=False, retry_seconds=_ASK_AGAIN)] * len(asks)
        for part, part_answers in zip(parts.values(), replies, strict=True):
            if not isinstance(part_answers, BaseException):
                for number, answer in zip(part, part_answers, strict=True):
                    answers[number] = answer
        return answers

    async def release_addresses(self, name: AgentId, rests: Mapping[str, float]) -> None:
        boards = await self._load_shards()
        parts = sharding.group_by_shard(rests.items(), lambda item: sharding.shard_of_address(item[0], len(boards)))
        await gather_all([boards[place].release_addresses(name, dict(part)) for place, part in parts.items()])

    # -- outcomes

    async def ack(self, name: AgentId, told: AckBatch) -> list[Sequence[int]]:
        """Acknowledge on each server.

        Raises `AgentFenced` only if the agent is fenced on all of them; elsewhere its outcomes count.
        """
        boards = await self._load_shards()
        parts = sharding.split_batch(told, len(boards))
        answers = await asyncio.gather(
            *(boards[place].ack(name, part) for place, (_, part) in parts.items()), return_exceptions=True
        )
        sharding.raise_worst_error([answer for answer in answers if not isinstance(answer, AgentFenced)] or answers)
        strays: list[Sequence[int]] = [booked.keys for booked in told.acks]
        for (numbers, _), answer in zip(parts.values(), answers, strict=True):
            if not isinstance(answer, BaseException):
                for number, keys in zip(numbers, answer, strict=True):
                    strays[number] = keys
        return strays

    async def requeue_failed(self, name: AgentId, taken: RetryBatch) -> int:
        boards = await self._load_shards()
        return await boards[sharding.shard_of_host(taken.host, len(boards))].requeue_failed(name, taken)

    async def reserve_pages(self, name: AgentId, ask: ReservationRequest) -> int:
        first, *others = await self._load_shards()
        counts = await gather_all([board.acked_page_count() for board in others])
        for _ in range(_TRIES):
            pages = await first.reserve_pages(name, _with_counts(ask, counts))
            before, counts = counts, await gather_all([board.acked_page_count() for board in others])
            if counts == before:
                return pages
        return await first.reserve_pages(name, replace(_with_counts(ask, counts), frozen=True))

    async def acked_page_count(self) -> PageCount:
        return _sum_counts(await self._on_each(lambda board: board.acked_page_count()))

    async def quarantine_damaged_values(self, name: AgentId, damaged: Mapping[LeaseId, Sequence[DamagedField]]) -> int:
        parts = await self._group_by_shard(damaged.items(), lambda item: item[0].host)
        return sum(await gather_all([board.quarantine_damaged_values(name, dict(part)) for board, part in parts]))

    async def last_acked_batch(self, name: AgentId) -> int:
        """A batch reaches all servers concerned before the next one is sent."""
        return max(await self._on_each(lambda board: board.last_acked_batch(name)))

    async def close(self) -> None:
        await gather_all([board.close() for board in self._named.values()])
