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
from typing import TypeVar

from fieldmouse.cluster.coordinator import (
    EXAMPLES,
    AddressAnswer,
    AddressAsk,
    AgentNote,
    Board,
    BoardBooks,
    Charter,
    DamagedField,
    GivenBack,
    Grant,
    Heard,
    Heartbeat,
    Held,
    Luggage,
    Name,
    Offer,
    Offered,
    PageAsk,
    PageCount,
    Pulse,
    Row,
    SiteBounds,
    Stranded,
    TakenBack,
    Told,
)
from fieldmouse.cluster.errors import missing, vanished
from fieldmouse.cluster.sharded.servers import check_apart, found_on, order_of, whole
from fieldmouse.cluster.sharded.sharding import (
    answered,
    ask_on,
    count_on,
    in_one,
    met,
    place_of_address,
    place_of_host,
    reserve_on,
    shared_out,
    summed,
    together,
)
from fieldmouse.errors import BoardUnreachable, Fenced
from fieldmouse.url import Host, Url

T = TypeVar("T")
K = TypeVar("K")


class SpreadBoard:
    """One crawl on several servers; `boards` maps the label of each server to its coordinator."""

    def __init__(self, boards: Mapping[str, Board], crawl: str = "fieldmouse") -> None:
        self._named, self._crawl = dict(boards), crawl
        self._shards: list[Board] = []  # in the order of the shards, once that is known
        self._unreachable: set[int] = set()  # shards that did not answer the last heartbeat
        self._turn = 0

    # -- the crawl

    async def identity(self) -> str:
        return " ".join(await together([board.identity() for board in self._named.values()]))

    async def _charters(self) -> dict[str, Charter | None]:
        charters = await together([board.charter() for board in self._named.values()])
        return dict(zip(self._named, charters, strict=True))

    async def charter(self) -> Charter | None:
        charters = await self._charters()
        order = order_of(charters, self._crawl)
        if order is not None:
            self._shards = [self._named[label] for label in order]
            return whole(charters[order[0]])
        await check_apart(self._named)
        there = [label for label, charter in charters.items() if charter is not None]
        books = await together([self._named[label].books() for label in there])
        if any(totals.begun or totals.seen for totals in books):
            raise missing(self._crawl, [label for label in charters if label not in there])
        return None  # its creator has not reached all servers yet

    async def found(self, charter: Charter) -> Charter:
        await check_apart(self._named)
        await found_on(self._named, await self._charters(), charter, self._crawl)
        settled = await self.charter()
        if settled is None:
            raise vanished(self._crawl)
        return settled

    async def _all_shards(self) -> Sequence[Board]:
        if not self._shards and await self.charter() is None:
            raise vanished(self._crawl)
        return self._shards

    async def end(self, why: str) -> None:
        await self._on_each(lambda board: board.end(why))

    async def _on_each(self, act: Callable[[Board], Awaitable[T]]) -> list[T]:
        return await together([act(board) for board in await self._all_shards()])

    async def _by_host(
        self, things: Iterable[K], host_of: Callable[[K], Host]
    ) -> list[tuple[Board, list[K]]]:
        """Servers that have any of the hosts, each with its share of `things`."""
        boards = await self._all_shards()
        parts: dict[int, list[K]] = {}
        for thing in things:
            parts.setdefault(place_of_host(host_of(thing), len(boards)), []).append(thing)
        return [(boards[place], part) for place, part in parts.items()]

    # -- agents

    async def join(self, name: Name, lease: float) -> None:
        await self._on_each(lambda board: board.join(name, lease))

    async def outlives(self, name: Name) -> bool:
        return all(await self._on_each(lambda board: board.outlives(name)))

    async def recalls(self, since: Heard) -> None:
        await self._on_each(lambda board: board.recalls(since))

    async def beat(self, name: Name, beat: Heartbeat) -> Pulse:
        boards = await self._all_shards()
        pulses: dict[int, Pulse] = {}

        async def call(places: Iterable[int]) -> None:
            asked = list(places)
            answers = await asyncio.gather(
                *(boards[place].beat(name, beat) for place in asked), return_exceptions=True
            )
            for place, answer in zip(asked, answers, strict=True):
                if isinstance(answer, BoardUnreachable):
                    self._unreachable.add(place)
                elif isinstance(answer, Pulse):
                    self._unreachable.discard(place)
                    pulses[place] = answer
            answered(answers)

        if self._unreachable:
            await call(sorted(self._unreachable))
        await call([place for place in range(len(boards)) if place not in pulses])
        replies = [pulse for _, pulse in sorted(pulses.items())]
        return in_one(replies, await self._consistent_totals([pulse.books for pulse in replies]))

    async def widen(self, urls: Sequence[Url]) -> None:
        await self._on_each(lambda board: board.widen(urls))

    async def leave(self, name: Name) -> None:
        await self._on_each(lambda board: board.leave(name))

    async def books(self) -> BoardBooks:
        return await self._consistent_totals(await self._on_each(lambda board: board.books()))

    async def _consistent_totals(self, books: Sequence[BoardBooks]) -> BoardBooks:
        """Sum of the totals. If it says that no URL waits, that was true at one moment between two reads."""
        while (total := summed(books)).begun and not total.waiting:
            again = await self._on_each(lambda board: board.books())
            if [(each.seen, each.settled) for each in again] == [(each.seen, each.settled) for each in books]:
                break
            books = again
        return total

    async def stranded(self) -> Stranded:
        parts = await self._on_each(lambda board: board.stranded())
        return Stranded(
            hosts=sum(part.hosts for part in parts),
            examples=tuple(host for part in parts for host in part.examples)[:EXAMPLES],
            repaired=sum(part.repaired for part in parts),
        )

    async def agents(self) -> list[AgentNote]:
        return met(await self._on_each(lambda board: board.agents()))

    async def departed(self) -> list[AgentNote]:
        here, gone = await self.agents(), met(await self._on_each(lambda board: board.departed()))
        return [note for note in gone if note.agent not in {present.agent for present in here}]

    async def ask_to_drain(self, agent: str) -> bool:
        return any(await self._on_each(lambda board: board.ask_to_drain(agent)))

    async def forget(self, agent: str, *, again: bool) -> int:
        return sum(await self._on_each(lambda board: board.forget(agent, again=again)))

    # -- links

    async def offer(self, offers: Sequence[Offer], bounds: SiteBounds, *, seeds: bool = False) -> Offered:
        parts = await self._by_host(offers, lambda offer: offer.host)
        if seeds:  # each server learns that the crawl has begun together with its seeds
            concerned = [board for board, _ in parts]
            parts += [(board, []) for board in await self._all_shards() if board not in concerned]
        results = await together([board.offer(part, bounds, seeds=seeds) for board, part in parts])
        return Offered(
            new=sum(part.new for part in results),
            dropped_hosts=sum(part.dropped_hosts for part in results),
            dropped_urls=sum(part.dropped_urls for part in results),
        )

    # -- hosts

    async def lease(self, name: Name, hosts: int, urls: int, soon: float = 0.0) -> list[Grant]:
        """Lease from one server if it has enough, starting with another one each time."""
        boards = await self._all_shards()
        self._turn += 1
        grants: list[Grant] = []
        for number in range(len(boards)):
            if len(grants) >= hosts:
                break
            board = boards[(self._turn + number) % len(boards)]
            try:
                grants += await board.lease(name, hosts - len(grants), urls, soon)
            except BoardUnreachable:
                if not grants:
                    raise
                break  # these grants are ours; the next heartbeat recovers the rest
        return grants

    async def wish(self, name: Name, hosts: Sequence[Host]) -> None:
        parts = await self._by_host(hosts, lambda host: host)
        await together([board.wish(name, part) for board, part in parts])

    async def more(self, name: Name, held: Sequence[Held], urls: int) -> list[Grant]:
        parts = await self._by_host(held, lambda each: each.host)
        answers = await together([board.more(name, part, urls) for board, part in parts])
        grants: dict[Held, Grant] = {}
        for (_, part), part_grants in zip(parts, answers, strict=True):
            grants.update(zip(part, part_grants, strict=True))
        return [grants[each] for each in held]

    async def note(self, name: Name, luggage: Mapping[Held, Luggage]) -> None:
        parts = await self._by_host(luggage.items(), lambda item: item[0].host)
        await together([board.note(name, dict(part)) for board, part in parts])

    async def give_back(self, name: Name, hosts: Sequence[GivenBack]) -> None:
        parts = await self._by_host(hosts, lambda given: given.held.host)
        await together([board.give_back(name, part) for board, part in parts])

    async def put_back(self, name: Name, rows: Mapping[Held, Sequence[Row]]) -> None:
        parts = await self._by_host(rows.items(), lambda item: item[0].host)
        await together([board.put_back(name, dict(part)) for board, part in parts])

    async def recover(self, name: Name, known: Mapping[Held, Collection[int]]) -> list[Held]:
        parts = await self._by_host(known.items(), lambda item: item[0].host)
        concerned = [board for board, _ in parts]
        parts += [(board, []) for board in await self._all_shards() if board not in concerned]
        lost = await together([board.recover(name, dict(part)) for board, part in parts])
        return [held for part in lost for held in part]

    # -- addresses

    async def ask_addresses(self, name: Name, asks: Sequence[AddressAsk]) -> list[AddressAnswer]:
        return await ask_on(await self._all_shards(), name, asks)

    async def free_addresses(self, name: Name, rests: Mapping[str, float]) -> None:
        boards = await self._all_shards()
        parts: dict[int, dict[str, float]] = {}
        for address, rest in rests.items():
            parts.setdefault(place_of_address(address, len(boards)), {})[address] = rest
        await together([boards[place].free_addresses(name, part) for place, part in parts.items()])

    # -- outcomes

    async def book(self, name: Name, told: Told) -> list[Sequence[int]]:
        """Acknowledge on each server.

        Raises `Fenced` only if the agent is fenced on all of them; elsewhere its outcomes count.
        """
        boards = await self._all_shards()
        parts = shared_out(told, len(boards))
        answers = await asyncio.gather(
            *(boards[place].book(name, part) for place, (_, part) in parts.items()), return_exceptions=True
        )
        answered([answer for answer in answers if not isinstance(answer, Fenced)] or answers)
        strays: list[Sequence[int]] = [booked.keys for booked in told.bookings]
        for (numbers, _), answer in zip(parts.values(), answers, strict=True):
            if not isinstance(answer, BaseException):
                for number, keys in zip(numbers, answer, strict=True):
                    strays[number] = keys
        return strays

    async def take_back(self, name: Name, taken: TakenBack) -> int:
        boards = await self._all_shards()
        return await boards[place_of_host(taken.host, len(boards))].take_back(name, taken)

    async def reserve_pages(self, name: Name, ask: PageAsk) -> int:
        return await reserve_on(await self._all_shards(), name, ask)

    async def count_pages(self) -> PageCount:
        return await count_on(await self._all_shards())

    async def quarantine(self, name: Name, damaged: Mapping[Held, Sequence[DamagedField]]) -> int:
        parts = await self._by_host(damaged.items(), lambda item: item[0].host)
        return sum(await together([board.quarantine(name, dict(part)) for board, part in parts]))

    async def last_told(self, name: Name) -> int:
        """A batch reaches all servers concerned before the next one is sent."""
        return max(await self._on_each(lambda board: board.last_told(name)))

    async def close(self) -> None:
        await together([board.close() for board in self._named.values()])
