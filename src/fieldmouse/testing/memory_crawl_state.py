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

from fieldmouse.cluster import coordinator
from fieldmouse.cluster.coordinator import AgentId, CrawlSpec, HostPayload, LeaseId, Row
from fieldmouse.cluster.decoding import UrlsToRefetch
from fieldmouse.url import Host, Url


@dataclass(slots=True)
class HostRecord:
    """A host: its waiting URLs, its holder, and the state that travels with it."""

    place: str = ""  # agent that should visit it
    next_agent: str = ""  # agent that wished for it while it was held, and gets it next if it still does
    kept_until: float = 0.0  # for that agent alone, after its release
    waiting: deque[Row] = field(default_factory=deque)
    holder: AgentId | None = None
    epoch: int = 0  # epoch of its holder
    ready_at: float = 0.0  # time since when it could be visited: it has URLs, and its rest is over
    not_before: float = 0.0
    payload: HostPayload = field(default_factory=HostPayload)
    robots_txt_until: float = 0.0
    # agents that must not take it over from `place`, and until when
    excluded_agents: dict[str, float] = field(default_factory=dict)

    @property
    def is_available(self) -> bool:
        """Whether it waits for an agent."""
        return bool(self.waiting) and self.holder is None

    def current_payload(self, now: float) -> HostPayload:
        """State for the agent that takes it now."""
        left = max(0.0, self.robots_txt_until - now)
        robots_txt = self.payload.robots_txt if left else b""
        rest = max(0.0, self.not_before - now)
        return replace(self.payload, rest=rest, robots_txt=robots_txt, robots_txt_seconds=left)

    def store_payload(self, host_payload: HostPayload, now: float) -> None:
        self.payload = host_payload
        self.not_before = max(self.not_before, now + host_payload.rest)
        self.robots_txt_until = now + host_payload.robots_txt_seconds

    def enqueue(self, rows: Sequence[Row], now: float, *, first: bool = False) -> None:
        """Let URLs wait, behind all others or before them."""
        if not self.waiting:
            self.ready_at = max(now, self.not_before)
        if first:
            self.waiting.extendleft(reversed(rows))
        else:
            self.waiting.extend(rows)

    def release(self, now: float, place: str = "", not_before: float = 0.0) -> None:
        """Release it; it may be visited again at `not_before`."""
        self.holder, self.epoch, self.place = None, 0, place
        self.not_before = max(self.not_before, not_before)
        self.ready_at = max(now, self.not_before)

    def drop_field(self, field: str) -> bool:
        """Drop a damaged value; returns whether there was one."""
        host_payload = self.payload
        dropped = {
            "st": replace(host_payload, state=b""),
            "le": replace(host_payload, policy_data=b""),
            "rt": replace(host_payload, robots_txt=b""),
        }
        self.payload = dropped.get(field, host_payload)
        return self.payload != host_payload


@dataclass(slots=True)
class UrlLease:
    """URLs that an agent owes under an epoch; it may have given the host back since."""

    host: Host
    agent_id: AgentId
    owed: dict[int, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class AgentRecord:
    """The newest start of an agent."""

    incarnation: int
    seen_at: float
    deadline: float
    status: bytes = b""
    draining: bool = False
    knows_to_drain: bool = False  # it was told to drain
    active: bool = True  # False once it is fenced, or has left
    reserved_pages: int = 0  # it may have that many in flight or unacknowledged

    def request_drain(self) -> None:
        self.draining = True

    def deactivate(self) -> None:
        self.active, self.reserved_pages = False, 0

    def take_drain_request(self) -> bool:
        """Whether it should drain; notes that it was told."""
        self.knows_to_drain = self.draining
        return self.draining


@dataclass(slots=True)
class AddressRecord:
    """Holder of an address, and when it may be visited again."""

    holder: AgentId | None = None
    delay: float = 0.0
    not_before: float = 0.0


@dataclass(frozen=True, slots=True)
class KeptAckBatch:
    """Acknowledged batch of one agent: the URLs, which of them counted, and the kind of each."""

    urls: bytes
    counted: tuple[bool, ...]
    kinds: tuple[str, ...]


def next_names(names: Sequence[str], after: str, most: int = coordinator.MOST_LISTED_AGENTS) -> Sequence[str]:
    """Next names of a sorted list to report, at most `most`, starting over at the end.

    >>> ["".join(next_names("abcdf", after, most=3)) for after in ("", "c", "e", "z")]
    ['abc', 'dfa', 'fab', 'abc']
    """
    if len(names) <= most:
        return names
    first = bisect_right(names, after)
    return [*names[first : first + most], *names[: max(0, first + most - len(names))]]


#: Seconds after which a held address is asked for again, if its delay is not longer.
ADDRESS_RETRY_SECONDS = 0.05
#: Seconds after which a host that was held, or kept for another agent, is tried again.
RETRY_SECONDS = 1.0
#: Wishes tried in one call.
MOST_REQUESTS = 64
#: Epochs that a restarted server skips: more than the old one can have granted and lost.
EPOCH_JUMP = 1_000_000
#: Seconds for which a restarted server is calm beyond the longest lease and the longest delay.
EXTRA_CALM = 2.0
#: Seconds: longer delays do not prolong the calm after a restart.
MOST_CALM_DELAY = 60.0
#: Seconds assumed for a lease if its length was lost, too.
DEFAULT_LEASE = 15.0


class MemoryCrawl:
    """Data of one crawl."""

    def __init__(self, charter: CrawlSpec, run: str, now: float) -> None:
        self.spec = charter
        self.run, self.created_at, self.run_since = run, now, -inf
        self.started, self.stop_reason = False, ""
        self.epoch = 0
        self.lost_epochs: list[tuple[int, int]] = []  # epochs that may have been granted and lost, first and last
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
        self.members: set[str] = set()  # agents that have not left
        self.fenced_until: dict[AgentId, float] = {}  # starts that were fenced, and when their leases ended
        self.addresses: dict[str, AddressRecord] = {}
        self.kept_batches: dict[str, list[KeptAckBatch]] = {}
        # hosts that each agent wished for, and when each is tried next
        self.host_requests: dict[str, dict[Host, float]] = {}
        self.last_retry: dict[str, int] = {}  # number of the last retry part of each agent
        self.retry_counts: dict[str, Counter[int]] = {}  # how often each agent retried a key
        self.requeued: set[int] = set()  # keys that were settled once and wait again
        self.last_batch: dict[AgentId, int] = {}  # number of the last acknowledged batch of each start
        self.last_heartbeat: dict[str, tuple[int, int]] = {}  # start and number of each agent's last heartbeat
        self.scope: dict[Url, None] = {}  # pages that seeds redirect to
        self.repaired = 0  # hosts that could not be granted to any agent
        # starts of agents whose outcomes were all restored from their disks
        self.restored: dict[str, int] = {}

    def detect_server_restart(self, run: str, now: float) -> None:
        """Note the run of the server: a restarted server may have lost its last changes."""
        if run != self.run:
            self.run, self.run_since = run, now
            self.calm_until = now + max(self.longest_lease, DEFAULT_LEASE) + self.longest_delay + EXTRA_CALM
            self.lost_epochs.append((self.epoch + 1, self.epoch + EPOCH_JUMP))
            self.epoch += EPOCH_JUMP

    def knows_heartbeat(self, since: coordinator.HeartbeatId) -> bool:
        is_recorded = self.last_heartbeat.get(since.agent, (0, 0)) >= (since.incarnation, since.number)
        return is_recorded or self.restored.get(since.agent, 0) >= since.incarnation

    def recently_active_agents(self, now: float) -> list[str]:
        """Active agents that sent a heartbeat since this server started."""
        return sorted(
            agent
            for agent, record in self.agents.items()
            if record.active and record.deadline >= now and record.seen_at > self.run_since
        )

    def set_stop_reason(self, why: str) -> None:
        self.stop_reason = why

    # -- agents

    def was_never_fenced(self, name: AgentId) -> bool:
        """Whether calls of this start count: it joined and was never fenced, though its lease may be over."""
        record = self.agents.get(name.agent)
        return record is not None and record.active and record.incarnation == name.incarnation

    def join(self, name: AgentId, now: float, lease: float) -> None:
        record = self.agents.get(name.agent)
        if record is None or record.incarnation < name.incarnation:
            if record is not None and record.active:
                self.fence(AgentId(name.agent, record.incarnation), record.deadline, now, moves=False)
            pending = record is not None and record.draining and not record.knows_to_drain
            self.agents[name.agent] = AgentRecord(
                name.incarnation, now, now + lease, draining=pending and name.agent in self.members
            )
        self.members.add(name.agent)
        self.extend_lease(name, now, lease)

    def extend_lease(self, name: AgentId, now: float, lease: float) -> None:
        record = self.agents[name.agent]
        record.seen_at, record.deadline = now, max(record.deadline, now + lease)
        self.longest_lease = max(self.longest_lease, lease)

    def record_heartbeat(self, name: AgentId, beat: coordinator.HeartbeatRequest, now: float) -> None:
        before = self.last_heartbeat.get(name.agent, (0, 0))
        self.last_heartbeat[name.agent] = max(before, (name.incarnation, beat.number))
        self.extend_lease(name, now, beat.lease_seconds)
        self.agents[name.agent].status = beat.status

    def fence(self, name: AgentId, deadline: float, now: float, *, moves: bool = True) -> None:
        """Fence an agent: its URLs wait again, and its hosts as soon as it cannot visit them any longer.

        `moves`: hosts placed at the agent may be visited by any agent now. A newer start keeps them.
        """
        self.agents[name.agent].deactivate()
        self.fenced_until[name] = deadline
        if moves:
            self.host_requests.pop(name.agent, None)
        for host, record in self.hosts.items():
            if record.holder == name:
                self.release_host(host, now, not_before=deadline + record.payload.delay)
            elif moves and record.place == name.agent:
                record.place = ""
        self._return_all_urls(lambda agent: agent == name, now)

    def fence_overdue(self, now: float, but: str = "") -> None:
        """Fence all agents whose last heartbeat is older than their lease."""
        for agent, record in self.agents.items():
            if record.active and record.deadline < now and agent != but:
                self.fence(AgentId(agent, record.incarnation), record.deadline, now)

    # -- links

    def offer_links(
        self, offer: coordinator.LinkOffer, bounds: coordinator.SiteBounds, now: float
    ) -> coordinator.OfferResult:
        fresh: dict[int, bytes] = {}
        for key, row in offer.links:
            if key not in self.seen:
                fresh.setdefault(key, row)
        hosts, urls = self.sites.get(offer.site, (0, 0))
        record = self.hosts.get(offer.host)
        if record is None and 0 < bounds.hosts <= hosts:
            return coordinator.OfferResult(0, dropped_hosts=len(fresh))
        rows = list(fresh.items())[: max(0, bounds.urls - urls) if bounds.urls else None]
        if rows:
            if record is None:
                record = self.hosts[offer.host] = HostRecord(self.placeable_agent(offer.agent))
                hosts += 1
            if bounds.hosts or bounds.urls:
                self.sites[offer.site] = (hosts, urls + len(rows))
            self.seen.update(key for key, _ in rows)
            self._enqueue_rows(record, rows, now)
        return coordinator.OfferResult(len(rows), dropped_urls=len(fresh) - len(rows))

    def mark_started(self) -> None:
        self.started = True

    def placeable_agent(self, agent: str) -> str:
        """The agent, if hosts may be placed at it; "" if it left or is draining."""
        record = self.agents.get(agent)
        return agent if record is not None and record.active and not record.draining else ""

    def _enqueue_rows(self, record: HostRecord, rows: Sequence[Row], now: float, *, first: bool = False) -> None:
        """Let URLs wait. If the host was idle, the agent it is placed at may have left since."""
        if rows and not record.waiting:
            record.place = self.placeable_agent(record.place)
        record.enqueue(rows, now, first=first)

    # -- liveness

    def list_stranded_hosts(self) -> list[Host]:
        """Hosts that cannot be granted to any agent: placed at or held by an agent that left."""
        return [
            host
            for host, record in self.hosts.items()
            if (record.is_available and record.place not in ("", *self.members))
            or (record.holder is not None and not self.was_never_fenced(record.holder))
            or any(lease.host == host and not self.was_never_fenced(lease.agent_id) for lease in self.leases.values())
        ]

    def repair_stranded_hosts(self, now: float) -> int:
        """Let stranded hosts wait for any agent; returns their number."""
        hosts = self.list_stranded_hosts()
        for host in hosts:
            record = self.hosts[host]
            if record.holder is not None and not self.was_never_fenced(record.holder):
                fenced_until = self.fenced_until.get(record.holder, now)
                self.release_host(host, now, not_before=fenced_until + record.payload.delay)
            record.place = ""
        self._return_all_urls(lambda agent: not self.was_never_fenced(agent), now)
        self.repaired += len(hosts)
        return len(hosts)

    # -- hosts and the URLs owed under their leases

    def holds(self, name: AgentId, held: LeaseId) -> bool:
        record = self.hosts.get(held.host)
        return record is not None and record.holder == name and record.epoch == held.epoch

    def owes_urls(self, name: AgentId, held: LeaseId) -> bool:
        """Whether the agent owes any URL under that epoch."""
        lease = self.leases.get(held.epoch)
        return lease is not None and lease.agent_id == name and lease.host == held.host

    def leasable_hosts(self, agent: str, now: float, soon: float) -> list[Host]:
        """Hosts for an agent: wished for, placed at it, placed at none, and those that waited too long."""
        wished = self._grantable_requests(agent, now, soon)
        turns: list[tuple[int, float, Host]] = []
        for host, record in self.hosts.items():
            if record.is_available:
                turn = 0 if record.place == agent else 2 if record.place else 1
                if turn == 2 and record.place not in self.members:
                    continue  # stranded: see `repair`
                latest = now - self.longest_lease if turn == 2 else now + soon
                if record.ready_at <= latest and not (turn == 2 and now < record.excluded_agents.get(agent, 0.0)):
                    turns.append((turn, record.ready_at, host))
        return list(dict.fromkeys([*wished, *(host for _, _, host in sorted(turns))]))

    def request_host(self, agent: str, host: Host, now: float) -> None:
        self.hosts.setdefault(host, HostRecord())
        self.host_requests.setdefault(agent, {}).setdefault(host, now)

    def _grantable_requests(self, agent: str, now: float, soon: float) -> list[Host]:
        """Requested hosts that the agent may have now. The first agent that finds a host held gets it next."""
        requests, hosts = self.host_requests.get(agent, {}), list[Host]()
        due = sorted((at, host) for host, at in requests.items() if at <= now)
        for _, host in due[:MOST_REQUESTS]:
            record, other = self.hosts[host], self.next_agent_for(host)
            if record.holder is not None or (other not in ("", agent) and now < record.kept_until):
                if not other:
                    record.next_agent = agent
                requests[host] = now + RETRY_SECONDS
            elif record.not_before > now + soon:
                requests[host] = record.not_before - soon
            else:
                hosts.append(host)
        return hosts

    def lease_host(self, name: AgentId, host: Host, urls: int, now: float) -> coordinator.HostGrant:
        self.epoch += 1
        record = self.hosts[host]
        record.holder, record.epoch, record.place = name, self.epoch, ""
        self.host_requests.get(name.agent, {}).pop(host, None)
        return self.grant_urls(name, host, urls, now)

    def grant_urls(self, name: AgentId, host: Host, urls: int, now: float) -> coordinator.HostGrant:
        """Grant URLs of a held host under its present epoch."""
        record = self.hosts[host]
        rows = [record.waiting.popleft() for _ in range(min(urls, len(record.waiting)))]
        if rows:
            self.leases.setdefault(record.epoch, UrlLease(host, name)).owed.update(rows)
        return coordinator.HostGrant(host, record.epoch, rows, record.current_payload(now), len(record.waiting))

    def release_host(self, host: Host, now: float, place: str = "", not_before: float = 0.0) -> None:
        """Release a host; it goes to the agent that wished for it, or else to `place`."""
        record = self.hosts[host]
        wished = self.next_agent_for(host)
        record.release(now, wished or self.placeable_agent(place), not_before)
        record.kept_until = record.ready_at + (self.longest_lease if wished else 0.0)

    def next_agent_for(self, host: Host) -> str:
        """Agent that gets the host next because it wished for it while it was held; "" for none."""
        agent = self.hosts[host].next_agent
        return self.placeable_agent(agent) if host in self.host_requests.get(agent, {}) else ""

    def settle_keys(self, epoch: int, keys: Iterable[int]) -> set[int]:
        """Remove URLs from a lease; returns those that were owed."""
        owed = self.leases[epoch].owed
        settled = {key for key in keys if owed.pop(key, None) is not None}
        if not owed:
            del self.leases[epoch]
        return settled

    def return_urls(self, epoch: int, rows: Sequence[Row], now: float) -> None:
        """Let URLs wait again, as far as they are owed."""
        record = self.hosts[self.leases[epoch].host]
        owed = self.settle_keys(epoch, dict(rows))
        self._enqueue_rows(record, [row for row in dict(rows).items() if row[0] in owed], now, first=True)

    def _return_all_urls(self, is_meant: Callable[[AgentId], bool], now: float) -> None:
        """Let all URLs wait again that the meant agents owe."""
        for epoch, lease in list(self.leases.items()):
            if is_meant(lease.agent_id):
                self.return_urls(epoch, list(lease.owed.items()), now)

    def give_back(self, given: coordinator.ReleasedHost, now: float) -> None:
        """Release a host on behalf of its holder, with the URLs that were not visited."""
        host, record = given.lease.host, self.hosts[given.lease.host]
        if record.holder is not None and self.owes_urls(record.holder, given.lease):
            self.return_urls(given.lease.epoch, given.unvisited, now)
        self.store_payload(host, given.payload, now)
        if given.excluded_agents:
            record.excluded_agents = {agent: now + seconds for agent, seconds in given.excluded_agents.items()}
        self.release_host(host, now, given.next_agent)

    def store_payload(self, host: Host, host_payload: HostPayload, now: float) -> None:
        """Store the state of a host, as its holder reports it."""
        self.hosts[host].store_payload(host_payload, now)
        self.record_delay(host_payload.delay)

    def record_delay(self, delay: float) -> None:
        self.longest_delay = max(self.longest_delay, min(delay, MOST_CALM_DELAY))

    # -- addresses

    def lease_address(self, name: AgentId, ask: coordinator.AddressRequest, now: float) -> coordinator.AddressReply:
        """Grant the address if it is free and rested, and `name` may visit the host."""
        may_visit = ask.lease.epoch == 0 or self.holds(name, ask.lease)
        if not may_visit or now > self.agents[name.agent].deadline:
            return coordinator.AddressReply(False, ADDRESS_RETRY_SECONDS)
        record = self.addresses.setdefault(ask.address, AddressRecord())
        holder = record.holder
        if holder is not None and holder != name:
            if self.was_never_fenced(holder):
                return coordinator.AddressReply(False, max(record.delay, ADDRESS_RETRY_SECONDS), holder.agent)
            # until then its holder may have sent requests
            self.release_address(holder, ask.address, self.fenced_until.get(holder, now) + record.delay)
        ready_at = max(record.not_before, self.calm_until)
        if holder != name and now < ready_at:
            return coordinator.AddressReply(False, ready_at - now)
        record.holder, record.delay = name, ask.delay
        self.record_delay(ask.delay)
        return coordinator.AddressReply(True)

    def release_address(self, name: AgentId, address: str, not_before: float) -> None:
        """End a visit. The address rests from then on, even if another agent holds it by now."""
        record = self.addresses.setdefault(address, AddressRecord())
        record.holder = None if record.holder == name else record.holder
        record.not_before = max(record.not_before, not_before)

    # -- outcomes

    def is_lost_epoch(self, epoch: int) -> bool:
        """Whether a server granted this epoch and was killed before it wrote that to disk."""
        return any(first <= epoch <= last for first, last in self.lost_epochs)

    def ack(self, name: AgentId, told: coordinator.AckBatch) -> list[Sequence[int]]:
        """Acknowledge outcomes; returns the rejected keys of each lease.

        A key that is no longer owed was acknowledged before.
        """
        counted: list[bool] = []
        every = [kind for booked in told.acks for kind in booked.kinds]
        strays: list[Sequence[int]] = []
        for booked in told.acks:
            owed = self.owes_urls(name, booked.lease)
            fresh = self.settle_keys(booked.lease.epoch, booked.keys) if owed else set()
            counted += (key in fresh for key in booked.keys)
            strays.append(booked.keys if not owed and self.is_lost_epoch(booked.lease.epoch) else ())
            self.settled += len(fresh)
            self.requeued -= fresh
        self.last_batch[name] = max(told.number, self.last_batch.get(name, 0))
        if any(counted):
            kinds = [kind for kind, counts in zip(every, counted, strict=True) if counts]
            self._count_kinds(kinds)
            record = self.agents[name.agent]
            record.reserved_pages = max(0, record.reserved_pages - kinds.count(coordinator.PAGE_KIND))
            if told.urls:
                kept = KeptAckBatch(told.urls, tuple(counted), tuple(every))
                self.kept_batches.setdefault(name.agent, []).append(kept)
        return strays

    def quarantine_damaged_values(
        self, name: AgentId, damaged: Mapping[LeaseId, Sequence[coordinator.DamagedField]]
    ) -> int:
        """Set unreadable values aside and settle URLs whose rows are among them; returns their number."""
        urls = 0
        for held, values in damaged.items():
            for value in values:
                if value.field == "rows" and self.owes_urls(name, held):
                    gone = len(self.settle_keys(held.epoch, value.keys))
                    self.settled += gone
                    self._count_kinds(["quarantined"] * gone)
                    self.quarantined += gone > 0
                    urls += gone
                elif value.field != "rows" and self.holds(name, held):
                    self.quarantined += self.hosts[held.host].drop_field(value.field)
        return urls

    def reserve_pages(self, name: AgentId, ask: coordinator.ReservationRequest, now: float) -> int:
        living = {agent: record for agent, record in self.agents.items() if record.active}
        own, counted = living.pop(name.agent), self.acked_page_count(now)
        others = sum(record.reserved_pages for record in living.values())
        own.reserved_pages = coordinator.compute_reservation(
            ask, booked=counted.acked, others=others, agents=1 + len(living), calm=counted.calm
        )
        return own.reserved_pages

    def acked_page_count(self, now: float) -> coordinator.PageCount:
        return coordinator.PageCount(self.kinds.get(coordinator.PAGE_KIND, 0), now < self.calm_until)

    def _count_kinds(self, kinds: Iterable[str], sign: int = 1) -> None:
        for kind in filter(None, kinds):
            self.kinds[kind] = self.kinds.get(kind, 0) + sign

    def requeue_failed(self, name: AgentId, taken: coordinator.RetryBatch, now: float) -> int:
        """Let the rows wait again, no longer settled, unless this part was received before."""
        if taken.number <= self.last_retry.get(name.agent, 0):
            return 0
        self.last_retry[name.agent] = taken.number
        keys = self.requeue(taken.host, taken.rows, taken.kinds, now)
        self.retry_counts.setdefault(name.agent, Counter()).update(keys)
        return len(keys)

    def requeue_acked(self, agent: str, now: float) -> int:
        """Let all URLs that an agent ever acknowledged wait again, except those it retried."""
        urls, taken_back = 0, self.retry_counts.pop(agent, Counter[int]())
        for kept in self.kept_batches.pop(agent, ()):
            again = UrlsToRefetch(kept.urls, kept.counted, kept.kinds, taken_back, self.spec.key_seed)
            for host, (rows, kinds) in again.hosts.items():
                urls += len(self.requeue(host, rows, kinds, now))
        return urls

    def requeue(self, host: Host, rows: Sequence[Row], kinds: Sequence[str], now: float) -> list[int]:
        """Let URLs with outcomes of these kinds wait again, unless they already do; returns their keys."""
        fresh = [(row, kind) for row, kind in zip(rows, kinds, strict=True) if row[0] not in self.requeued]
        self._enqueue_rows(self.hosts.setdefault(host, HostRecord()), [row for row, _ in fresh], now)
        self._count_kinds((kind for _, kind in fresh), -1)
        self.settled -= len(fresh)
        keys = [key for (key, _), _ in fresh]
        self.requeued.update(keys)
        return keys
