"""Coordinator in memory: for tests, for virtual time, and as a readable description.

It is the twin of the Redis coordinator and its executable specification: the same guarantees, kept by the
plainest code. Its server can be restarted with an older memory, as real servers are.
"""

from __future__ import annotations

import copy
import sys
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from fieldmouse.clock import Clock
from fieldmouse.cluster.coordinator import (
    EXAMPLES,
    PAGE,
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
    PageAsk,
    PageCount,
    Pulse,
    Row,
    SiteBounds,
    Stranded,
    TakenBack,
    Told,
    reserved,
)
from fieldmouse.cluster.errors import awake_there, fenced, hidden, occupied, older, superseded, vanished
from fieldmouse.cluster.rebuild import RestoredHost
from fieldmouse.testing.memory_crawl_state import (
    CALM,
    LONG_DELAY,
    USUAL_LEASE,
    AddressRecord,
    CrawlLedger,
    HostRecord,
    KeptBooking,
    whose_turn,
)
from fieldmouse.url import Host, Url

ASK_AGAIN = 0.05
"""Seconds after which a held address is asked for again, if its delay is not longer."""


def ask_in(ledger: CrawlLedger, name: Name, ask: AddressAsk, now: float) -> AddressAnswer:
    """Grant the address if it is free and rested, and `name` may visit the host."""
    may_visit = ask.held.epoch == 0 or ledger.holds(name, ask.held)
    if not may_visit or now > ledger.agents[name.agent].deadline:
        return AddressAnswer(False, ASK_AGAIN)
    record = ledger.addresses.setdefault(ask.address, AddressRecord())
    holder = record.holder
    if holder is not None and holder != name:
        if ledger.counts(holder):
            return AddressAnswer(False, max(record.delay, ASK_AGAIN), holder.agent)
        # until then its holder may have sent requests
        record.free(ledger.fallen.get(holder, now) + record.delay)
    ready_at = max(record.not_before, ledger.calm_until)
    if holder != name and now < ready_at:
        return AddressAnswer(False, ready_at - now)
    record.hold(name, ask.delay)
    ledger.heed(ask.delay)
    return AddressAnswer(True)


def free_in(ledger: CrawlLedger, name: Name, address: str, not_before: float) -> None:
    """End a visit. The address rests from then on, even if another agent holds it by now."""
    record = ledger.addresses.setdefault(address, AddressRecord())
    if record.holder == name:
        record.free(not_before)
    else:
        record.rest(not_before)


def take_back_in(ledger: CrawlLedger, name: Name, taken: TakenBack, now: float) -> int:
    """Let the rows wait again, no longer settled, unless this part was received before."""
    if taken.number <= ledger.forgave.get(name.agent, 0):
        return 0
    ledger.forgave[name.agent] = taken.number
    keys = ledger.unsettle(taken.host, taken.rows, taken.kinds, now)
    ledger.taken_back.setdefault(name.agent, Counter()).update(keys)
    return len(keys)


def reserve_in(ledger: CrawlLedger, name: Name, ask: PageAsk, now: float) -> int:
    living = {agent: record for agent, record in ledger.agents.items() if record.counts}
    own, counted = living.pop(name.agent), count_in(ledger, now)
    others = sum(record.pages for record in living.values())
    own.reserve(
        reserved(ask, booked=counted.booked, others=others, agents=1 + len(living), calm=counted.calm)
    )
    return own.pages


def count_in(ledger: CrawlLedger, now: float) -> PageCount:
    return PageCount(ledger.kinds.get(PAGE, 0), now < ledger.calm_until)


class MemoryServer:
    """In-memory server: several coordinators, and so several agents, may share one."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.starts = 1
        self.crawls: dict[str, CrawlLedger] = {}
        self.hidden: dict[str, CrawlLedger] = {}  # crawls that are being rebuilt

    @property
    def run(self) -> str:
        return f"run {self.starts}"

    def memory(self) -> dict[str, CrawlLedger]:
        """Copy of all data, as on a completely written disk."""
        return copy.deepcopy(self.crawls)

    def restart(self, memory: Mapping[str, CrawlLedger] | None = None) -> None:
        """Kill and restart the server; `memory` is the data that survives, None for all of it."""
        self.starts += 1
        if memory is not None:
            self.crawls = copy.deepcopy(dict(memory))


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


class HiddenLedger(CrawlLedger):
    """Data of a crawl that is not visible yet."""

    def note_restored(self, name: Name, told: int) -> None:
        self.restored[name.agent] = max(name.incarnation, self.restored.get(name.agent, 0))
        self.forgave[name.agent] = max(told, self.forgave.get(name.agent, 0))

    def restore(self, name: Name, hosts: Sequence[RestoredHost], urls: bytes, *, bounded: bool) -> int:
        counted: list[bool] = []
        fresh: list[str] = []
        for host in hosts:
            new = [kind for key, kind in zip(host.keys, host.kinds, strict=True) if key not in self.seen]
            counted += (key not in self.seen for key in host.keys)
            self.seen.update(host.keys)
            fresh += new
            if new and bounded:
                site_hosts, site_urls = self.sites.get(host.site, (0, 0))
                self.sites[host.site] = (site_hosts + (host.host not in self.hosts), site_urls + len(new))
            if new:
                self.hosts.setdefault(host.host, HostRecord())
        self.settled += len(fresh)
        self._count(fresh)
        if fresh and urls:
            kinds = tuple(kind for host in hosts for kind in host.kinds)
            self.kept.setdefault(name.agent, []).append(KeptBooking(urls, tuple(counted), kinds))
        return len(fresh)

    def publish(self, now: float, lease: float, delay: float, age: float) -> None:
        self.founded_at = now - age
        self.longest_lease = lease
        self.longest_delay = max(self.longest_delay, min(delay, LONG_DELAY))
        self.calm_until = now + max(lease, USUAL_LEASE) + self.longest_delay + CALM
        self.epoch = max(self.epoch, int(now * 1000))
        self.begin()


class MemoryBuilder(MemoryBoard):
    """Implementation of `rebuilding.BoardBuilder`."""

    def ledger(self) -> HiddenLedger:
        ledger = self._server.hidden.get(self._crawl)
        if not isinstance(ledger, HiddenLedger):
            raise vanished(self._crawl)
        ledger.served_by(self._server.run, self._now())
        return ledger

    async def clear(self, key_seed: int, since: Sequence[Heard]) -> bool:
        crawl = self._server.crawls.get(self._crawl)
        if crawl is None or crawl.charter.key_seed != key_seed or all(map(crawl.recalls, since)):
            return False
        crawl.served_by(self._server.run, self._now())
        if awake := crawl.heard_of_late(self._now()):
            raise awake_there(self._crawl, awake)
        del self._server.crawls[self._crawl]
        return True

    async def hide(self, charter: Charter) -> Charter:
        crawl = self._server.crawls.get(self._crawl)
        if crawl is not None and crawl.seen:
            raise occupied(self._crawl)
        self._server.crawls.pop(self._crawl, None)
        fresh = HiddenLedger(charter, self._server.run, self._now())
        return self._server.hidden.setdefault(self._crawl, fresh).charter

    async def remove(self) -> None:
        self._server.crawls.pop(self._crawl, None)
        self._server.hidden.pop(self._crawl, None)

    async def restore(
        self, name: Name, hosts: Sequence[RestoredHost], urls: bytes = b"", *, bounded: bool = False
    ) -> int:
        return self.ledger().restore(name, hosts, urls, bounded=bounded)

    async def note_restored(self, name: Name, told: int) -> None:
        self.ledger().note_restored(name, told)

    async def settle_hosts(self, luggage: Mapping[Host, Luggage]) -> None:
        for host, payload in luggage.items():
            self.ledger().unpack(host, payload, self._now())

    async def publish(self, lease: float, delay: float, age: float = 0.0) -> None:
        if self._crawl in self._server.crawls:
            raise occupied(self._crawl)
        self.ledger().publish(self._now(), lease, delay, age)
        self._server.crawls[self._crawl] = self._server.hidden.pop(self._crawl)
