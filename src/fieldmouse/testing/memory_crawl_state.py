"""Data of one crawl at a coordinator in memory, with the rules that the Redis coordinator has in Lua.

Records of hosts, agents and addresses, and the hosts that agents request because they want to fetch known
pages again. Times are on the coordinator's own clock.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from fieldmouse.cluster.coordinator import (
    PAGE,
    TOLD,
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
from fieldmouse.cluster.rows import BookedAgain
from fieldmouse.url import Host, Url


@dataclass(slots=True)
class HostRecord:
    """A host: its waiting URLs, its holder, and the state that travels with it."""

    place: str = ""  # agent that should visit it
    wished: str = ""  # agent that wished for it while it was held, and gets it next if it still does
    kept_until: float = 0.0  # for that agent alone, after its release
    waiting: deque[Row] = field(default_factory=deque)
    holder: Name | None = None
    epoch: int = 0  # epoch of its holder
    ready_at: float = 0.0  # time since when it could be visited: it has URLs, and its rest is over
    not_before: float = 0.0
    luggage: Luggage = field(default_factory=Luggage)
    robots_txt_until: float = 0.0
    # agents that must not take it over from `place`, and until when
    shunned: dict[str, float] = field(default_factory=dict)

    @property
    def stands(self) -> bool:
        """Whether it waits for an agent."""
        return bool(self.waiting) and self.holder is None

    def packed(self, now: float) -> Luggage:
        """State for the agent that takes it now."""
        left = self.robots_txt_until - now
        return Luggage(
            state=self.luggage.state,
            rest=max(0.0, self.not_before - now),
            delay=self.luggage.delay,
            learned=self.luggage.learned,
            robots_txt=self.luggage.robots_txt if left > 0 else b"",
            robots_txt_rest=max(0.0, left),
        )

    def unpack(self, luggage: Luggage, now: float) -> None:
        self.luggage = luggage
        self.not_before = max(self.not_before, now + luggage.rest)
        self.robots_txt_until = now + luggage.robots_txt_rest

    def wait(self, rows: Sequence[Row], now: float, *, first: bool = False) -> None:
        """Let URLs wait, behind all others or before them."""
        if not self.waiting:
            self.ready_at = max(now, self.not_before)
        if first:
            self.waiting.extendleft(reversed(rows))
        else:
            self.waiting.extend(rows)

    def take(self, urls: int) -> list[Row]:
        return [self.waiting.popleft() for _ in range(min(urls, len(self.waiting)))]

    def hold(self, name: Name, epoch: int) -> None:
        self.holder, self.epoch, self.place = name, epoch, ""

    def reserve(self, agent: str) -> None:
        """Note the agent that gets it next."""
        self.wished = agent

    def keep(self, seconds: float) -> None:
        """Reserve it for the next agent, for these seconds after it may be visited."""
        self.kept_until = self.ready_at + seconds

    def free(self, now: float, place: str = "", not_before: float = 0.0) -> None:
        """Release it; it may be visited again at `not_before`."""
        self.holder, self.epoch, self.place = None, 0, place
        self.not_before = max(self.not_before, not_before)
        self.ready_at = max(now, self.not_before)

    def shun(self, agents: Mapping[str, float], now: float) -> None:
        if agents:
            self.shunned = {agent: now + seconds for agent, seconds in agents.items()}

    def shuns(self, agent: str, now: float) -> bool:
        return now < self.shunned.get(agent, 0.0)

    def without(self, field: str) -> bool:
        """Drop a damaged value; returns whether there was one."""
        luggage = self.luggage
        match field:
            case "st":
                self.luggage = replace(luggage, state=b"")
            case "le":
                self.luggage = replace(luggage, learned=b"")
            case "rt":
                self.luggage = replace(luggage, robots_txt=b"")
        return self.luggage != luggage

    def move(self, place: str) -> None:
        """Place it at that agent, or at none ("")."""
        self.place = place


@dataclass(slots=True)
class UrlLease:
    """URLs that an agent owes under an epoch; it may have given the host back since."""

    host: Host
    by: Name
    owed: dict[int, bytes] = field(default_factory=dict)

    def settle(self, keys: Iterable[int]) -> list[int]:
        """Remove URLs; returns those that were owed."""
        return [key for key in keys if self.owed.pop(key, None) is not None]


@dataclass(slots=True)
class AgentRecord:
    """The newest start of an agent."""

    incarnation: int
    seen_at: float
    deadline: float
    advert: bytes = b""
    draining: bool = False
    heard: bool = False  # it was told to drain
    counts: bool = True  # False once it is fenced, or has left
    pages: int = 0  # reserved for it

    def extend(self, now: float, lease: float) -> None:
        self.seen_at, self.deadline = now, max(self.deadline, now + lease)

    def tell(self, advert: bytes) -> None:
        self.advert = advert

    def drain(self) -> None:
        self.draining = True

    def hear(self) -> bool:
        """Whether it should drain; notes that it was told."""
        self.heard = self.draining
        return self.draining

    def fall(self) -> None:
        self.counts, self.pages = False, 0

    def reserve(self, pages: int) -> None:
        """Set the number of pages that it may have in flight or unacknowledged."""
        self.pages = max(0, pages)

    def book(self, pages: int) -> None:
        """Take acknowledged pages off its reservation."""
        self.reserve(self.pages - pages)


@dataclass(slots=True)
class AddressRecord:
    """Holder of an address, and when it may be visited again."""

    holder: Name | None = None
    delay: float = 0.0
    not_before: float = 0.0

    def hold(self, name: Name, delay: float) -> None:
        self.holder, self.delay = name, delay

    def rest(self, not_before: float) -> None:
        self.not_before = max(self.not_before, not_before)

    def free(self, not_before: float) -> None:
        self.holder = None
        self.rest(not_before)


@dataclass(frozen=True, slots=True)
class KeptBooking:
    """Acknowledged batch of one agent: the URLs, which of them counted, and the kind of each."""

    urls: bytes
    counted: tuple[bool, ...]
    kinds: tuple[str, ...]


class SignsHeard:
    """The last heartbeat of each agent; `heard in signs` is true if that one or a later one was received."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, int]] = {}  # start and number

    def __contains__(self, heard: Heard) -> bool:
        return self._last.get(heard.agent, (0, 0)) >= (heard.incarnation, heard.number)

    def hear(self, name: Name, number: int) -> None:
        self._last[name.agent] = max(self._last.get(name.agent, (0, 0)), (name.incarnation, number))


def whose_turn(names: Sequence[str], after: str, most: int = TOLD) -> Sequence[str]:
    """Next names of a sorted list to report, at most `most`, starting over at the end.

    >>> ["".join(whose_turn("abcdf", after, most=3)) for after in ("", "c", "e", "z")]
    ['abc', 'dfa', 'fab', 'abc']
    """
    if len(names) <= most:
        return names
    first = bisect_right(names, after)
    return [*names[first : first + most], *names[: max(0, first + most - len(names))]]


LOOK_AGAIN = 1.0
"""Seconds after which a host that was held, or kept for another agent, is tried again."""
AT_ONCE = 64
"""Wishes tried in one call."""


class Wishes:
    """Wished hosts by agent, and when each is tried next. `hosts` are those of the crawl."""

    def __init__(self, hosts: dict[Host, HostRecord]) -> None:
        self._hosts = hosts
        self._by_agent: dict[str, dict[Host, float]] = {}

    def add(self, agent: str, host: Host, now: float) -> None:
        self._hosts.setdefault(host, HostRecord())
        self._by_agent.setdefault(agent, {}).setdefault(host, now)

    def drop(self, agent: str) -> None:
        """Remove the wishes of an agent that left."""
        self._by_agent.pop(agent, None)

    def has(self, agent: str, host: Host) -> bool:
        return host in self._by_agent.get(agent, {})

    def granted(self, agent: str, host: Host) -> None:
        self._by_agent.get(agent, {}).pop(host, None)

    def look(self, agent: str, now: float, soon: float, next_of: Callable[[Host], str]) -> list[Host]:
        """Hosts that the agent may have now. The first agent that finds a host held gets it next."""
        wishes, hosts = self._by_agent.get(agent, {}), list[Host]()
        due = sorted((at, host) for host, at in wishes.items() if at <= now)
        for _, host in due[:AT_ONCE]:
            record = self._hosts[host]
            other = next_of(host)
            if record.holder is not None or (other not in ("", agent) and now < record.kept_until):
                if not other:
                    record.reserve(agent)
                wishes[host] = now + LOOK_AGAIN
            elif record.not_before > now + soon:
                wishes[host] = record.not_before - soon
            else:
                hosts.append(host)
        return hosts


EPOCH_JUMP = 1_000_000
"""Epochs that a restarted server skips: more than the old one can have granted and lost."""
CALM = 2.0
"""Seconds for which a restarted server is calm beyond the longest lease and the longest delay."""
LONG_DELAY = 60.0
"""Seconds: longer delays do not prolong the calm after a restart."""
USUAL_LEASE = 15.0
"""Seconds assumed for a lease if its length was lost, too."""


class CrawlLedger:
    """Data of one crawl."""

    def __init__(self, charter: Charter, run: str, now: float) -> None:
        self.charter = charter
        self.run, self.founded_at, self.run_since = run, now, -inf
        self.begun, self.over = False, ""
        self.epoch = 0
        self.gaps: list[tuple[int, int]] = []  # epochs that may have been granted and lost, first and last
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
        self.fallen: dict[Name, float] = {}  # starts that were fenced, and when their leases ended
        self.addresses: dict[str, AddressRecord] = {}
        self.kept: dict[str, list[KeptBooking]] = {}
        self.wishes = Wishes(self.hosts)
        self.forgave: dict[str, int] = {}  # number of the last retry part of each agent
        self.taken_back: dict[str, Counter[int]] = {}  # how often each agent retried a key
        self.unsettled: set[int] = set()  # keys that were settled once and wait again
        self.told: dict[Name, int] = {}  # number of the last acknowledged batch of each start
        self.signs = SignsHeard()
        self.scope: dict[Url, None] = {}  # pages that seeds redirect to
        self.repaired = 0  # hosts that could not be granted to any agent
        # starts of agents whose outcomes were all restored from their disks
        self.restored: dict[str, int] = {}

    def served_by(self, run: str, now: float) -> None:
        """Note the run of the server: a restarted server may have lost its last changes."""
        if run != self.run:
            self.run, self.run_since = run, now
            self.calm_until = now + max(self.longest_lease, USUAL_LEASE) + self.longest_delay + CALM
            self.gaps.append((self.epoch + 1, self.epoch + EPOCH_JUMP))
            self.epoch += EPOCH_JUMP

    def recalls(self, since: Heard) -> bool:
        return since in self.signs or self.restored.get(since.agent, 0) >= since.incarnation

    def heard_of_late(self, now: float) -> list[str]:
        """Active agents that sent a heartbeat since this server started."""
        return sorted(
            agent
            for agent, record in self.agents.items()
            if record.counts and record.deadline >= now and record.seen_at > self.run_since
        )

    def end(self, why: str) -> None:
        self.over = why

    def widen(self, urls: Iterable[Url]) -> None:
        self.scope.update(dict.fromkeys(urls))

    # -- agents

    def counts(self, name: Name) -> bool:
        """Whether calls of this start count: it joined and was never fenced, though its lease may be over."""
        record = self.agents.get(name.agent)
        return record is not None and record.counts and record.incarnation == name.incarnation

    def join(self, name: Name, now: float, lease: float) -> None:
        record = self.agents.get(name.agent)
        if record is None or record.incarnation < name.incarnation:
            if record is not None and record.counts:
                self.fence(Name(name.agent, record.incarnation), record.deadline, now, moves=False)
            pending = record is not None and record.draining and not record.heard
            self.agents[name.agent] = AgentRecord(
                name.incarnation, now, now + lease, draining=pending and name.agent in self.present
            )
        self.present.add(name.agent)
        self.extend(name, now, lease)

    def extend(self, name: Name, now: float, lease: float) -> None:
        self.agents[name.agent].extend(now, lease)
        self.longest_lease = max(self.longest_lease, lease)

    def fence(self, name: Name, deadline: float, now: float, *, moves: bool = True) -> None:
        """Fence an agent: its URLs wait again, and its hosts as soon as it cannot visit them any longer.

        `moves`: hosts placed at the agent may be visited by any agent now. A newer start keeps them.
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
        """Fence all agents whose last heartbeat is older than their lease."""
        for agent, record in self.agents.items():
            if record.counts and record.deadline < now and agent != but:
                self.fence(Name(agent, record.incarnation), record.deadline, now)

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
        """The agent, if hosts may be placed at it; "" if it left or is draining."""
        record = self.agents.get(agent)
        return agent if record is not None and record.counts and not record.draining else ""

    def _wait(self, record: HostRecord, rows: Sequence[Row], now: float, *, first: bool = False) -> None:
        """Let URLs wait. If the host was idle, the agent it is placed at may have left since."""
        if rows and not record.waiting:
            record.move(self.place(record.place))
        record.wait(rows, now, first=first)

    # -- liveness

    def stranded(self) -> list[Host]:
        """Hosts that cannot be granted to any agent: placed at or held by an agent that left."""
        return [
            host
            for host, record in self.hosts.items()
            if (record.stands and record.place not in ("", *self.present))
            or (record.holder is not None and not self.counts(record.holder))
            or any(lease.host == host and not self.counts(lease.by) for lease in self.leases.values())
        ]

    def repair(self, now: float) -> int:
        """Let stranded hosts wait for any agent; returns their number."""
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

    # -- hosts and the URLs owed under their leases

    def holds(self, name: Name, held: Held) -> bool:
        record = self.hosts.get(held.host)
        return record is not None and record.holder == name and record.epoch == held.epoch

    def owes(self, name: Name, held: Held) -> bool:
        """Whether the agent owes any URL under that epoch."""
        lease = self.leases.get(held.epoch)
        return lease is not None and lease.by == name and lease.host == held.host

    def candidates(self, agent: str, now: float, soon: float) -> list[Host]:
        """Hosts for an agent: wished for, placed at it, placed at none, and those that waited too long."""
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
        """Grant URLs of a held host under its present epoch."""
        record = self.hosts[host]
        rows = record.take(urls)
        if rows:
            self.leases.setdefault(record.epoch, UrlLease(host, name)).owed.update(rows)
        return Grant(host, record.epoch, rows, record.packed(now), len(record.waiting))

    def free(self, host: Host, now: float, place: str = "", not_before: float = 0.0) -> None:
        """Release a host; it goes to the agent that wished for it, or else to `place`."""
        record = self.hosts[host]
        wished = self.wished(host)
        record.free(now, wished or self.place(place), not_before)
        record.keep(self.longest_lease if wished else 0.0)

    def wished(self, host: Host) -> str:
        """Agent that gets the host next because it wished for it while it was held; "" for none."""
        agent = self.hosts[host].wished
        return self.place(agent) if self.wishes.has(agent, host) else ""

    def settle(self, epoch: int, keys: Iterable[int]) -> set[int]:
        """Remove URLs from a lease; returns those that were owed."""
        owed = self.leases[epoch].settle(keys)
        if not self.leases[epoch].owed:
            del self.leases[epoch]
        return set(owed)

    def put_back(self, epoch: int, rows: Sequence[Row], now: float) -> None:
        """Let URLs wait again, as far as they are owed."""
        record = self.hosts[self.leases[epoch].host]
        owed = self.settle(epoch, dict(rows))
        self._wait(record, [row for row in dict(rows).items() if row[0] in owed], now, first=True)

    def unpack(self, host: Host, luggage: Luggage, now: float) -> None:
        """Store the state of a host, as its holder reports it."""
        self.hosts[host].unpack(luggage, now)
        self.heed(luggage.delay)

    def heed(self, delay: float) -> None:
        self.longest_delay = max(self.longest_delay, min(delay, LONG_DELAY))

    def is_forgotten(self, epoch: int) -> bool:
        """Whether a server granted this epoch and was killed before it wrote that to disk."""
        return any(first <= epoch <= last for first, last in self.gaps)

    def book(self, name: Name, told: Told) -> list[Sequence[int]]:
        """Acknowledge outcomes; returns the rejected keys of each lease.

        A key that is no longer owed was acknowledged before.
        """
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
            kinds = [kind for kind, counts in zip(every, counted, strict=True) if counts]
            self._count(kinds)
            self.agents[name.agent].book(kinds.count(PAGE))
            if told.urls:
                kept = KeptBooking(told.urls, tuple(counted), tuple(every))
                self.kept.setdefault(name.agent, []).append(kept)
        return strays

    def quarantine(self, name: Name, damaged: Mapping[Held, Sequence[DamagedField]]) -> int:
        """Set unreadable values aside and settle URLs whose rows are among them; returns their number."""
        urls = 0
        for held, values in damaged.items():
            for value in values:
                if value.field == "rows" and self.owes(name, held):
                    gone = len(self.settle(held.epoch, value.keys))
                    self.settled += gone
                    self._count(["quarantined"] * gone)
                    self.quarantined += gone > 0
                    urls += gone
                elif value.field != "rows" and self.holds(name, held):
                    self.quarantined += self.hosts[held.host].without(value.field)
        return urls

    def _count(self, kinds: Iterable[str], sign: int = 1) -> None:
        for kind in filter(None, kinds):
            self.kinds[kind] = self.kinds.get(kind, 0) + sign

    def unbook(self, agent: str, now: float) -> int:
        """Let all URLs that an agent ever acknowledged wait again, except those it retried."""
        urls, taken_back = 0, self.taken_back.pop(agent, Counter[int]())
        for kept in self.kept.pop(agent, ()):
            again = BookedAgain(kept.urls, kept.counted, kept.kinds, taken_back, self.charter.key_seed)
            for host, (rows, kinds) in again.hosts.items():
                urls += len(self.unsettle(host, rows, kinds, now))
        return urls

    def unsettle(self, host: Host, rows: Sequence[Row], kinds: Sequence[str], now: float) -> list[int]:
        """Let URLs with outcomes of these kinds wait again, unless they already do; returns their keys."""
        fresh = [(row, kind) for row, kind in zip(rows, kinds, strict=True) if row[0] not in self.unsettled]
        self._wait(self.hosts.setdefault(host, HostRecord()), [row for row, _ in fresh], now)
        self._count((kind for _, kind in fresh), -1)
        self.settled -= len(fresh)
        keys = [key for (key, _), _ in fresh]
        self.unsettled.update(keys)
        return keys
