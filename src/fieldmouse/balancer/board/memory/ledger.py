"""What a board in memory knows of a crawl, and its rules, which the Redis board has in Lua, too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import inf

from fieldmouse.balancer.board.again import BookedAgain
from fieldmouse.balancer.board.contract import (
    Charter,
    DamagedField,
    Grant,
    Heard,
    Held,
    Luggage,
    Name,
    Offer,
    Offered,
    Row,
    SiteBounds,
    Told,
)
from fieldmouse.balancer.board.memory.standing import (
    AddressRecord,
    AgentRecord,
    HostRecord,
    KeptBooking,
    SignsHeard,
    UrlLease,
)
from fieldmouse.balancer.board.memory.wishes import Wishes
from fieldmouse.balancer.board.pagelimit import PAGE
from fieldmouse.url import Host, Url

EPOCH_JUMP = 1_000_000
"""So many epochs a new server skips: more than the old one can have given in what it forgot."""
CALM = 2.0
"""Seconds for which a new server is calm beyond the longest lease and the longest delay."""
LONG_DELAY = 60.0
"""Seconds: a delay that is longer keeps nobody else waiting when the server was killed."""
USUAL_LEASE = 15.0
"""Seconds that a lease is taken to have lasted, should even that be forgotten."""


class CrawlLedger:
    """All that a board knows of a crawl."""

    def __init__(self, charter: Charter, run: str, now: float) -> None:
        self.charter = charter
        self.run, self.founded_at, self.run_since = run, now, -inf
        self.begun, self.over = False, ""
        self.epoch = 0
        self.gaps: list[tuple[int, int]] = []  # epochs that may have been given and forgotten, first and last
        self.calm_until = 0.0
        self.longest_lease = self.longest_delay = 0.0
        self.seen: set[int] = set()
        self.settled = 0
        self.quarantined = 0  # values that were set aside
        self.kinds: dict[str, int] = {}
        self.hosts: dict[Host, HostRecord] = {}
        self.sites: dict[str, tuple[int, int]] = {}  # hosts and URLs, where these are bounded
        self.leases: dict[int, UrlLease] = {}  # by epoch
        self.agents: dict[str, AgentRecord] = {}
        self.present: set[str] = set()  # agents that have not left
        self.fallen: dict[Name, float] = {}  # who no longer counts, and when its lease ended
        self.addresses: dict[str, AddressRecord] = {}
        self.kept: dict[str, list[KeptBooking]] = {}
        self.wishes = Wishes(self.hosts)
        self.forgave: dict[str, int] = {}  # the number of the last part that an agent took back
        self.taken_back: dict[str, Counter[int]] = {}  # how often each agent took a key back
        self.unsettled: set[int] = set()  # keys that were settled once, and are not now
        self.told: dict[Name, int] = {}  # the number of the last booking of each start of an agent
        self.signs = SignsHeard()
        self.scope: dict[Url, None] = {}  # pages that seeds redirect to
        self.repaired = 0  # hosts that no agent could be granted
        self.restored: dict[str, int] = {}  # starts of agents whose outcomes were all read from their disks

    def served_by(self, run: str, now: float) -> None:
        """A server that was started again may have forgotten what it did last."""
        if run != self.run:
            self.run, self.run_since = run, now
            self.calm_until = now + max(self.longest_lease, USUAL_LEASE) + self.longest_delay + CALM
            self.gaps.append((self.epoch + 1, self.epoch + EPOCH_JUMP))
            self.epoch += EPOCH_JUMP

    def recalls(self, since: Heard) -> bool:
        return since in self.signs or self.restored.get(since.agent, 0) >= since.incarnation

    def heard_of_late(self, now: float) -> list[str]:
        """Agents that count, and were heard of since this server runs."""
        return sorted(
            agent
            for agent, known in self.agents.items()
            if known.counts and known.deadline >= now and known.seen_at > self.run_since
        )

    def end(self, why: str) -> None:
        self.over = why

    def widen(self, urls: Iterable[Url]) -> None:
        self.scope.update(dict.fromkeys(urls))

    # -- agents

    def counts(self, name: Name) -> bool:
        """Whether what it says counts: it joined and was never fenced, though its lease may be over."""
        known = self.agents.get(name.agent)
        return known is not None and known.counts and known.incarnation == name.incarnation

    def join(self, name: Name, now: float, lease: float) -> None:
        known = self.agents.get(name.agent)
        if known is None or known.incarnation < name.incarnation:
            if known is not None and known.counts:
                self.fence(Name(name.agent, known.incarnation), known.deadline, now, moves=False)
            pending = known is not None and known.draining and not known.heard
            self.agents[name.agent] = AgentRecord(
                name.incarnation, now, now + lease, draining=pending and name.agent in self.present
            )
        self.present.add(name.agent)
        self.extend(name, now, lease)

    def extend(self, name: Name, now: float, lease: float) -> None:
        self.agents[name.agent].extend(now, lease)
        self.longest_lease = max(self.longest_lease, lease)

    def fence(self, name: Name, deadline: float, now: float, *, moves: bool = True) -> None:
        """It counts no longer. What it had waits again; its hosts for as long as it may still be asking them.

        `moves`: hosts that wait for it may be visited by anybody now. A newer start keeps them.
        """
        self.agents[name.agent].fall()
        self.fallen[name] = deadline
        if moves:
            self.wishes.drop(name.agent)
        for host, record in self.hosts.items():
            if record.holder == name:
                self.free(host, now, not_before=deadline + record.luggage.delay)
            elif moves and record.place == name.agent:
                record.move("")
        for epoch, lease in list(self.leases.items()):
            if lease.by == name:
                self.put_back(epoch, list(lease.owed.items()), now)

    def fence_overdue(self, now: float, but: str = "") -> None:
        """Fence whoever was not heard of for longer than its lease."""
        for agent, known in self.agents.items():
            if known.counts and known.deadline < now and agent != but:
                self.fence(Name(agent, known.incarnation), known.deadline, now)

    # -- links

    def offer(self, offer: Offer, bounds: SiteBounds, now: float) -> Offered:
        fresh: dict[int, bytes] = {}
        for key, row in offer.links:
            if key not in self.seen:
                fresh.setdefault(key, row)
        hosts, urls = self.sites.get(offer.site, (0, 0))
        record = self.hosts.get(offer.host)
        if record is None and 0 < bounds.hosts <= hosts:
            return Offered(0, dropped_hosts=len(fresh))
        rows = list(fresh.items())[: max(0, bounds.urls - urls) if bounds.urls else None]
        if rows:
            if record is None:
                record = self.hosts[offer.host] = HostRecord(self.place(offer.place))
                hosts += 1
            if bounds.hosts or bounds.urls:
                self.sites[offer.site] = (hosts, urls + len(rows))
            self.seen.update(key for key, _ in rows)
            self._wait(record, rows, now)
        return Offered(len(rows), dropped_urls=len(fresh) - len(rows))

    def begin(self) -> None:
        self.begun = True

    def place(self, agent: str) -> str:
        """Who should visit a host: nobody is sent to an agent that is not there, or about to leave."""
        known = self.agents.get(agent)
        return agent if known is not None and known.counts and not known.draining else ""

    def _wait(self, record: HostRecord, rows: Sequence[Row], now: float, *, first: bool = False) -> None:
        """URLs wait. If the host was idle, the agent that should visit it may have left meanwhile."""
        if rows and not record.waiting:
            record.move(self.place(record.place))
        record.wait(rows, now, first=first)

    # -- liveness

    def stranded(self) -> list[Host]:
        """Hosts that no agent can be granted: they wait for, or are held by, an agent that is not there."""
        return [
            host
            for host, record in self.hosts.items()
            if (record.stands and record.place not in ("", *self.present))
            or (record.holder is not None and not self.counts(record.holder))
            or any(lease.host == host and not self.counts(lease.by) for lease in self.leases.values())
        ]

    def repair(self, now: float) -> int:
        """Let stranded hosts wait for anybody; returns how many they were."""
        hosts = self.stranded()
        for host in hosts:
            record = self.hosts[host]
            if record.holder is not None and not self.counts(record.holder):
                self.free(host, now, not_before=self.fallen.get(record.holder, now) + record.luggage.delay)
            record.move("")
        for epoch, lease in list(self.leases.items()):
            if not self.counts(lease.by):
                self.put_back(epoch, list(lease.owed.items()), now)
        self.repaired += len(hosts)
        return len(hosts)

    # -- hosts and what is owed for them

    def holds(self, name: Name, held: Held) -> bool:
        record = self.hosts.get(held.host)
        return record is not None and record.holder == name and record.epoch == held.epoch

    def owes(self, name: Name, held: Held) -> bool:
        """Whether it owes anything under that epoch."""
        lease = self.leases.get(held.epoch)
        return lease is not None and lease.by == name and lease.host == held.host

    def candidates(self, agent: str, now: float, soon: float) -> list[Host]:
        """Hosts it may have: those it wished for, its own, anybody's, and those that waited in vain."""
        wished = self.wishes.look(agent, now, soon, self.wished)
        turns: list[tuple[int, float, Host]] = []
        for host, record in self.hosts.items():
            if record.stands:
                turn = 0 if record.place == agent else 2 if record.place else 1
                if turn == 2 and record.place not in self.present:
                    continue  # stranded: see `repair`
                latest = now - self.longest_lease if turn == 2 else now + soon
                if record.ready_at <= latest and not (turn == 2 and record.shuns(agent, now)):
                    turns.append((turn, record.ready_at, host))
        return list(dict.fromkeys([*wished, *(host for _, _, host in sorted(turns))]))

    def lease(self, name: Name, host: Host, urls: int, now: float) -> Grant:
        self.epoch += 1
        self.hosts[host].hold(name, self.epoch)
        self.wishes.granted(name.agent, host)
        return self.grant(name, host, urls, now)

    def grant(self, name: Name, host: Host, urls: int, now: float) -> Grant:
        """URLs of a host that it holds, under the epoch that it has."""
        record = self.hosts[host]
        rows = record.take(urls)
        if rows:
            self.leases.setdefault(record.epoch, UrlLease(host, name)).owed.update(rows)
        return Grant(host, record.epoch, rows, record.packed(now), len(record.waiting))

    def free(self, host: Host, now: float, place: str = "", not_before: float = 0.0) -> None:
        """Nobody holds it any more; it goes to who wished for it, or else to `place`."""
        record = self.hosts[host]
        wished = self.wished(host)
        record.free(now, wished or self.place(place), not_before)
        record.keep(self.longest_lease if wished else 0.0)

    def wished(self, host: Host) -> str:
        """Who should have it next, because that agent found it held; "" for nobody."""
        agent = self.hosts[host].wished
        return self.place(agent) if self.wishes.has(agent, host) else ""

    def settle(self, epoch: int, keys: Iterable[int]) -> set[int]:
        """These are owed no longer; returns those that were."""
        known = self.leases[epoch].settle(keys)
        if not self.leases[epoch].owed:
            del self.leases[epoch]
        return set(known)

    def put_back(self, epoch: int, rows: Sequence[Row], now: float) -> None:
        """These wait again, as far as they are owed."""
        record = self.hosts[self.leases[epoch].host]
        known = self.settle(epoch, dict(rows))
        self._wait(record, [row for row in dict(rows).items() if row[0] in known], now, first=True)

    def unpack(self, host: Host, luggage: Luggage, now: float) -> None:
        """How a host stands, as its holder says."""
        self.hosts[host].unpack(luggage, now)
        self.heed(luggage.delay)

    def heed(self, delay: float) -> None:
        self.longest_delay = max(self.longest_delay, min(delay, LONG_DELAY))

    def is_forgotten(self, epoch: int) -> bool:
        """Whether it was given by a server that was killed before that was on its disk."""
        return any(first <= epoch <= last for first, last in self.gaps)

    def book(self, name: Name, told: Told) -> list[Sequence[int]]:
        """Returns the keys that did not count, for each booking. What is owed no longer was booked before."""
        counted: list[bool] = []
        every = [kind for booked in told.bookings for kind in booked.kinds]
        strays: list[Sequence[int]] = []
        for booked in told.bookings:
            owed = self.owes(name, booked.held)
            fresh = self.settle(booked.held.epoch, booked.keys) if owed else set()
            counted += (key in fresh for key in booked.keys)
            strays.append(booked.keys if not owed and self.is_forgotten(booked.held.epoch) else ())
            self.settled += len(fresh)
            self.unsettled -= fresh
        self.told[name] = max(told.number, self.told.get(name, 0))
        if any(counted):
            kinds = [kind for kind, its in zip(every, counted, strict=True) if its]
            self._count(kinds)
            self.agents[name.agent].book(kinds.count(PAGE))
            if told.urls:
                kept = KeptBooking(told.urls, tuple(counted), tuple(every))
                self.kept.setdefault(name.agent, []).append(kept)
        return strays

    def quarantine(self, name: Name, damaged: Mapping[Held, Sequence[DamagedField]]) -> int:
        """Values that cannot be read; URLs whose rows are among them are settled. Returns how many."""
        urls = 0
        for held, values in damaged.items():
            for its in values:
                if its.field == "rows" and self.owes(name, held):
                    gone = len(self.settle(held.epoch, its.keys))
                    self.settled += gone
                    self._count(["quarantined"] * gone)
                    self.quarantined += gone > 0
                    urls += gone
                elif its.field != "rows" and self.holds(name, held):
                    self.quarantined += self.hosts[held.host].without(its.field)
        return urls

    def _count(self, kinds: Iterable[str], sign: int = 1) -> None:
        for kind in filter(None, kinds):
            self.kinds[kind] = self.kinds.get(kind, 0) + sign

    def unbook(self, agent: str, now: float) -> int:
        """All that an agent ever booked waits again, but for what it has taken back."""
        urls, taken_back = 0, self.taken_back.pop(agent, Counter[int]())
        for kept in self.kept.pop(agent, ()):
            again = BookedAgain(kept.urls, kept.counted, kept.kinds, taken_back, self.charter.key_seed)
            for host, (rows, kinds) in again.hosts.items():
                urls += len(self.unsettle(host, rows, kinds, now))
        return urls

    def unsettle(self, host: Host, rows: Sequence[Row], kinds: Sequence[str], now: float) -> list[int]:
        """URLs with outcomes of these kinds wait again, unless they do already; returns their keys."""
        fresh = [(row, kind) for row, kind in zip(rows, kinds, strict=True) if row[0] not in self.unsettled]
        self._wait(self.hosts.setdefault(host, HostRecord()), [row for row, _ in fresh], now)
        self._count((kind for _, kind in fresh), -1)
        self.settled -= len(fresh)
        keys = [key for (key, _), _ in fresh]
        self.unsettled.update(keys)
        return keys
