"""Coordinator in memory: for tests, for virtual time, and as a readable description.

It is the twin of the Redis coordinator and its executable specification: the same guarantees, kept by the
plainest code (the rules are in `ledger`). Its server can be restarted with an older memory, as real
servers are.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence

from fieldmouse.balancer.board.contract import (
    EXAMPLES,
    AddressAnswer,
    AddressAsk,
    AgentNote,
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
    Pulse,
    Row,
    SiteBounds,
    Stranded,
    Told,
)
from fieldmouse.balancer.board.forgiving import TakenBack
from fieldmouse.balancer.board.memory.addresses import ask_in, free_in
from fieldmouse.balancer.board.memory.forgiving import take_back_in
from fieldmouse.balancer.board.memory.ledger import CrawlLedger
from fieldmouse.balancer.board.memory.reserving import count_in, reserve_in
from fieldmouse.balancer.board.memory.server import MemoryServer as MemoryServer
from fieldmouse.balancer.board.memory.standing import whose_turn
from fieldmouse.balancer.board.pagelimit import PageAsk, PageCount
from fieldmouse.balancer.board.refusals import fenced, hidden, older, superseded, vanished
from fieldmouse.url import Host, Url


class MemoryBoard:
    """Coordinator whose server is an object."""

    def __init__(self, server: MemoryServer, crawl: str = "fieldmouse") -> None:
        self._server, self._crawl = server, crawl

    def _now(self) -> float:
        return self._server.clock.now()

    def ledger(self) -> CrawlLedger:
        """Current data of the crawl; `BoardLost` if there is none."""
        ledger = self._server.crawls.get(self._crawl)
        if ledger is None:
            raise vanished(self._crawl)
        ledger.served_by(self._server.run, self._now())
        return ledger

    def _ledger_for(self, name: Name) -> CrawlLedger:
        ledger = self.ledger()
        if not ledger.counts(name):
            record = ledger.agents.get(name.agent)
            raise superseded(name) if record and record.incarnation > name.incarnation else fenced(name)
        return ledger

    # -- the crawl

    async def identity(self) -> str:
        return f"{self._server.run} of {id(self._server)}"

    async def charter(self) -> Charter | None:
        return self.ledger().charter if self._crawl in self._server.crawls else None

    async def found(self, charter: Charter) -> Charter:
        if self._crawl in self._server.hidden:
            raise hidden(self._crawl)
        self._server.crawls.setdefault(self._crawl, CrawlLedger(charter, self._server.run, self._now()))
        return self.ledger().charter

    async def end(self, why: str) -> None:
        self.ledger().end(why)

    # -- agents

    async def join(self, name: Name, lease: float) -> None:
        ledger, now = self.ledger(), self._now()
        record = ledger.agents.get(name.agent)
        if record is not None and record.incarnation >= name.incarnation and not ledger.counts(name):
            raise superseded(name) if record.incarnation > name.incarnation else fenced(name)
        ledger.join(name, now, lease)
        ledger.fence_overdue(now)

    async def outlives(self, name: Name) -> bool:
        return self.ledger().counts(name)

    async def recalls(self, since: Heard) -> None:
        if not self.ledger().recalls(since):
            raise older(since.agent)

    async def beat(self, name: Name, beat: Heartbeat) -> Pulse:
        await self.recalls(beat.since)
        ledger, now = self._ledger_for(name), self._now()
        ledger.signs.hear(name, beat.number)
        ledger.extend(name, now, beat.lease)
        ledger.agents[name.agent].tell(beat.advert)
        ledger.fence_overdue(now)
        notes = await self.agents()
        turn = whose_turn([note.agent for note in notes], beat.after)
        listed = {name.agent, *turn}
        return Pulse(
            books=await self.books(),
            agents=[note for note in notes if note.agent in listed],
            alive=sum(note.alive for note in notes),
            members=len(notes),
            upto=turn[-1] if len(turn) < len(notes) else "",
            run=ledger.run,
            calm=max(0.0, ledger.calm_until - now),
            draining=ledger.agents[name.agent].hear(),
            over=ledger.over,
            joined=list(ledger.scope) if len(ledger.scope) != beat.joined else (),
        )

    async def books(self) -> BoardBooks:
        ledger = self.ledger()
        return BoardBooks(
            seen=len(ledger.seen),
            settled=ledger.settled,
            waiting=len(ledger.seen) - ledger.settled,
            hosts=len(ledger.hosts),
            begun=ledger.begun,
            age=self._now() - ledger.founded_at,
            kinds={kind: count for kind, count in ledger.kinds.items() if count},
            quarantined=ledger.quarantined,
        )

    async def widen(self, urls: Sequence[Url]) -> None:
        self.ledger().widen(urls)

    async def leave(self, name: Name) -> None:
        ledger, now = self.ledger(), self._now()
        if ledger.counts(name):
            ledger.fence(name, now, now)
            ledger.present.discard(name.agent)

    async def stranded(self) -> Stranded:
        ledger = self.ledger()
        hosts = ledger.stranded()
        return Stranded(len(hosts), tuple(hosts[:EXAMPLES]), ledger.repaired)

    async def agents(self) -> list[AgentNote]:
        ledger, now = self.ledger(), self._now()
        held = [record.holder.agent for record in ledger.hosts.values() if record.holder]
        return [
            AgentNote(
                agent=agent,
                incarnation=start.incarnation,
                alive=start.counts and start.deadline >= now,
                draining=start.draining,
                advert=start.advert,
                seen_ago=now - start.seen_at,
                hosts=held.count(agent),
            )
            for agent, start in sorted(ledger.agents.items())
            if agent in ledger.present
        ]

    async def departed(self) -> list[AgentNote]:
        ledger, now = self.ledger(), self._now()
        gone = [(agent, ledger.agents.get(agent)) for agent in sorted(ledger.kept) if ledger.kept[agent]]
        return [
            AgentNote(agent, record.incarnation, False, False, record.advert, now - record.seen_at)
            if record is not None
            else AgentNote(agent, 0, False, False, b"", 0.0)
            for agent, record in gone
            if agent not in ledger.present
        ]

    async def ask_to_drain(self, agent: str) -> bool:
        ledger = self.ledger()
        if agent in ledger.present:
            ledger.agents[agent].drain()
        return agent in ledger.present

    async def forget(self, agent: str, *, again: bool) -> int:
        ledger, now = self.ledger(), self._now()
        record = ledger.agents.get(agent)
        if record is not None and record.counts:
            ledger.fence(Name(agent, record.incarnation), record.deadline, now)
        ledger.present.discard(agent)
        return ledger.unbook(agent, now) if again else 0

    # -- links

    async def offer(self, offers: Sequence[Offer], bounds: SiteBounds, *, seeds: bool = False) -> Offered:
        ledger = self.ledger()
        if seeds:
            ledger.begin()
        parts = [ledger.offer(offer, bounds, self._now()) for offer in offers]
        return Offered(
            new=sum(part.new for part in parts),
            dropped_hosts=sum(part.dropped_hosts for part in parts),
            dropped_urls=sum(part.dropped_urls for part in parts),
        )

    # -- hosts

    async def lease(self, name: Name, hosts: int, urls: int, soon: float = 0.0) -> list[Grant]:
        ledger, now = self._ledger_for(name), self._now()
        ledger.fence_overdue(now, but=name.agent)
        record = ledger.agents[name.agent]
        if now < ledger.calm_until or now > record.deadline or record.draining:
            return []
        turns = ledger.candidates(name.agent, now, soon)
        if not turns and hosts and ledger.repair(now):
            turns = ledger.candidates(name.agent, now, soon)
        return [ledger.lease(name, host, urls, now) for host in turns[:hosts]]

    async def wish(self, name: Name, hosts: Sequence[Host]) -> None:
        ledger = self._ledger_for(name)
        for host in hosts:
            ledger.wishes.add(name.agent, host, self._now())

    async def more(self, name: Name, held: Sequence[Held], urls: int) -> list[Grant]:
        ledger, now = self._ledger_for(name), self._now()
        return [
            ledger.grant(name, each.host, urls, now)
            if ledger.holds(name, each)
            else Grant(each.host, each.epoch, ())
            for each in held
        ]

    async def note(self, name: Name, luggage: Mapping[Held, Luggage]) -> None:
        ledger = self._ledger_for(name)
        for held, payload in luggage.items():
            if ledger.holds(name, held):
                ledger.unpack(held.host, payload, self._now())

    async def give_back(self, name: Name, hosts: Sequence[GivenBack]) -> None:
        ledger, now = self._ledger_for(name), self._now()
        for given in hosts:
            if ledger.holds(name, given.held):
                if ledger.owes(name, given.held):
                    ledger.put_back(given.held.epoch, given.unused, now)
                ledger.unpack(given.held.host, given.luggage, now)
                ledger.hosts[given.held.host].shun(given.shunned, now)
                ledger.free(given.held.host, now, given.place)

    async def put_back(self, name: Name, rows: Mapping[Held, Sequence[Row]]) -> None:
        ledger = self._ledger_for(name)
        for held, host_rows in rows.items():
            if ledger.owes(name, held):
                ledger.put_back(held.epoch, host_rows, self._now())

    async def recover(self, name: Name, known: Mapping[Held, Collection[int]]) -> list[Held]:
        ledger, now = self._ledger_for(name), self._now()
        for host, record in ledger.hosts.items():
            if record.holder == name and Held(host, record.epoch) not in known:
                ledger.free(host, now)
        for epoch, lease in list(ledger.leases.items()):
            if lease.by == name:
                keys = set(known.get(Held(lease.host, epoch), ()))
                ledger.put_back(epoch, [row for row in lease.owed.items() if row[0] not in keys], now)
        return [held for held in known if not (ledger.holds(name, held) or ledger.owes(name, held))]

    # -- addresses

    async def ask_addresses(self, name: Name, asks: Sequence[AddressAsk]) -> list[AddressAnswer]:
        ledger, now = self._ledger_for(name), self._now()
        ledger.fence_overdue(now, but=name.agent)
        return [ask_in(ledger, name, ask, now) for ask in asks]

    async def free_addresses(self, name: Name, rests: Mapping[str, float]) -> None:
        ledger, now = self._ledger_for(name), self._now()
        for address, rest in rests.items():
            free_in(ledger, name, address, now + rest)

    # -- outcomes

    async def book(self, name: Name, told: Told) -> list[Sequence[int]]:
        return self._ledger_for(name).book(name, told)

    async def take_back(self, name: Name, taken: TakenBack) -> int:
        return take_back_in(self._ledger_for(name), name, taken, self._now())

    async def reserve_pages(self, name: Name, ask: PageAsk) -> int:
        return reserve_in(self._ledger_for(name), name, ask, self._now())

    async def count_pages(self) -> PageCount:
        return count_in(self.ledger(), self._now())

    async def quarantine(self, name: Name, damaged: Mapping[Held, Sequence[DamagedField]]) -> int:
        return self._ledger_for(name).quarantine(name, damaged)

    async def last_told(self, name: Name) -> int:
        ledger = self.ledger()
        if name.incarnation <= ledger.restored.get(name.agent, 0):
            return sys.maxsize
        return ledger.told.get(name, 0)

    async def close(self) -> None:
        """Do nothing."""
