"""Interface of the coordinator that the agents of a crawl share, its values, and the rebuild of a lost one.

Every call may be repeated, because an answer may be lost on the way; a repeated call changes nothing.
Times go over the wire as seconds from now, never as points in time: the coordinator uses the clock of its
server, and the clocks of two machines need not agree. A call by a fenced agent raises, and so does a call
to a server that cannot be reached; it is then unknown whether it was executed.

A heartbeat reply carries the server's run. When it changes, the server was restarted and may have lost
its last second. The coordinator is then *calm* for longer than any lease and delay: it grants only hosts,
addresses and pages that the caller already has, so that the holders of forgotten leases have stopped by
then. An agent that sees another run sends the recent part of its outbox again, finds out which leases it
still has, asks for its addresses again and leaves those that are refused, and saves the state of its
hosts.

Old copies: an agent drops a message from its outbox when the coordinator has recorded a later heartbeat,
long ago. A coordinator that does not know that heartbeat was given an old copy of its data. Only an agent
itself raises the number of its heartbeats, so calls of other agents on the old copy hide nothing.

Page limit: an agent fetches a page only within its reservation. The reservation covers pages in flight,
pages that are known but not acknowledged, and some to spare. Acknowledging a page takes it off. The
reservation of an agent that leaves or is fenced is free again. So acknowledged and reserved pages
together never exceed the limit, and a request that yields no page costs nothing of it.

Retry of failed URLs: an agent sends it for URLs it acknowledged itself, in numbered parts. A part counts
once, however often it is sent.

First all outcomes of the agents are restored, then the state of the hosts. Links that are offered after
that wait unless they have an outcome. The crawl stays invisible until it is published. Each call may be
repeated, and the whole rebuild, too: one that was killed half-way starts again, and nothing counts twice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import msgspec

from fieldmouse.errors import CoordinatorError
from fieldmouse.url import Host, Url

#: Format of the coordinator's data. Raised when older versions could not read it, or would corrupt it.
DATA_FORMAT = 1


@dataclass(frozen=True, slots=True)
class CrawlSpec:
    """Specification of a crawl. The first agent writes it."""

    key_seed: int
    settings: str  # TOML: settings of the crawl, not of a machine
    seeds: tuple[str, ...]
    made_by: str = ""
    servers: tuple[str, ...] = ()  # all servers of the crawl if there are several, without passwords
    place: int = 0  # index of this server among them
    format: int = 1  # the first versions did not store it


def newer_format_error(label: str, format: int, made_by: str) -> CoordinatorError:
    """Error for a crawl that was created by a newer version."""
    return CoordinatorError(
        f"the crawl on the coordinator at {label} has format {format}, {DATA_FORMAT} is the newest known",
        f"use the version that created it ({made_by or 'unknown'}), or a newer one",
    )


@dataclass(frozen=True, slots=True)
class HeartbeatId:
    """A heartbeat of one start of an agent. Every coordinator knows the one of the agent ""."""

    agent: str = ""
    incarnation: int = 0
    number: int = 0


#: Known to every coordinator.
ANY_HEARTBEAT = HeartbeatId()

#: Kind of outcome that counts against the limit.
PAGE_KIND = "page"


@dataclass(frozen=True, slots=True)
class ReservationRequest:
    """Request for a reservation. All numbers are absolute, so repeating it changes nothing."""

    limit: int  # pages of the whole crawl
    keep: int  # pages of its reservation that the caller keeps: they may be in flight
    want: int  # total reservation that the caller wants
    acked_elsewhere: int = 0  # pages acknowledged on other servers
    frozen: bool = False  # another server is calm: reserve nothing new


@dataclass(frozen=True, slots=True)
class PageCount:
    """Number of acknowledged pages; `calm` if the server may have lost some of the latest."""

    acked: int
    calm: bool


def compute_reservation(ask: ReservationRequest, *, booked: int, others: int, agents: int, calm: bool) -> int:
    """Compute a reservation.

    `others` is reserved for the other agents; `agents` counts the living agents with the caller.

    >>> compute_reservation(ReservationRequest(100, keep=3, want=20), booked=40, others=10, agents=2, calm=False)
    14
    >>> compute_reservation(ReservationRequest(100, keep=3, want=20), booked=85, others=12, agents=2, calm=False)
    3
    >>> compute_reservation(ReservationRequest(100, keep=0, want=20), booked=40, others=58, agents=9, calm=False)
    1
    """
    free = ask.limit - booked - ask.acked_elsewhere - others - ask.keep
    if calm or ask.frozen or free <= 0:
        return ask.keep
    return max(ask.keep, min(ask.want, ask.keep + min(free, max(1, free // (2 * max(1, agents))))))


@dataclass(frozen=True, slots=True)
class RetryBatch:
    """Failed outcomes of one host that an agent retries: keys with rows, and the kind of each outcome."""

    host: Host
    rows: Sequence[tuple[int, bytes]]
    kinds: Sequence[str]
    number: int = 0  # grows with each one that an agent sends


#: A URL: its key and its row, which is opaque to the coordinator.
Row: TypeAlias = tuple[int, bytes]
#: Number of hosts named in the report of a fault.
MOST_EXAMPLES = 5
#: Most agents in one heartbeat reply: with a thousand agents a server would do nothing but list all of them.
MOST_LISTED_AGENTS = 64


@dataclass(frozen=True, slots=True)
class AgentId:
    """An agent and the start of it that is meant.

    `incarnation` grows with each start and stays below 2**53. No two starts may share it, those of copies
    of a directory included: take the time in microseconds, and more than the last one.
    """

    agent: str
    incarnation: int


@dataclass(frozen=True, slots=True)
class LinkOffer:
    """Links of one host."""

    host: Host
    site: str
    links: Sequence[Row]
    agent: str = ""  # agent that should visit the host if it is new; "" for any


@dataclass(frozen=True, slots=True)
class SiteBounds:
    """Most hosts and URLs of a site that are accepted; 0: no bound."""

    hosts: int = 0
    urls: int = 0


@dataclass(frozen=True, slots=True)
class OfferResult:
    """Result of a batch of offers."""

    new: int
    dropped_hosts: int = 0  # links dropped because their site has too many hosts
    dropped_urls: int = 0  # links dropped because their site has too many URLs

    @classmethod
    def sum_results(cls, results: Sequence[OfferResult]) -> OfferResult:
        """Sum of several results."""
        return cls(
            sum(result.new for result in results),
            sum(result.dropped_hosts for result in results),
            sum(result.dropped_urls for result in results),
        )


@dataclass(frozen=True, slots=True)
class HostPayload:
    """State that travels with a host. It is opaque to the coordinator, except for `rest`."""

    state: bytes = b""
    rest: float = 0.0  # seconds from now during which the host must not be visited; never shortened
    delay: float = 0.0  # seconds between two visits: counted from the end of the lease if its holder died
    policy_data: bytes = b""
    robots_txt: bytes = b""
    robots_txt_seconds: float = 0.0  # seconds for which the robots.txt is valid


@dataclass(frozen=True, slots=True)
class DamagedField:
    """Unreadable value of a granted host: a block of its rows, or another field."""

    field: str  # `rows`, or the field of the host's hash
    reason: str
    keys: tuple[int, ...] = ()  # keys of the rows
    value: bytes = b""  # its first bytes, for people


@dataclass(frozen=True, slots=True)
class HostGrant:
    """A host, held from now on under `epoch`, with some URLs; or more URLs of a host that is already held."""

    host: Host
    epoch: int
    rows: Sequence[Row]
    payload: HostPayload = HostPayload()
    remaining_urls: int = 0  # URLs of the host that still wait at the coordinator
    damaged: tuple[DamagedField, ...] = ()  # unreadable values of the host, to be quarantined


@dataclass(frozen=True, slots=True)
class LeaseId:
    host: Host
    epoch: int


@dataclass(frozen=True, slots=True)
class ReleasedHost:
    """A host that its holder releases."""

    lease: LeaseId
    payload: HostPayload
    unvisited: Sequence[Row] = ()  # not visited: they wait again, before all others
    next_agent: str = ""  # agent that should visit it next; "" for any
    # agents that must not take it over from `place`, and for how many seconds
    excluded_agents: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AddressRequest:
    address: str
    lease: LeaseId  # host it is for; epoch 0 if the caller does not hold it (a redirect of robots.txt)
    delay: float  # counted from the end of the lease if the caller dies before it frees the address


@dataclass(frozen=True, slots=True)
class AddressReply:
    granted: bool
    retry_seconds: float = 0.0  # not granted: seconds to wait before the next try
    holder: str = ""  # not granted: agent that holds it, "" if the address is free but must rest


@dataclass(frozen=True, slots=True)
class LeaseAck:
    """URLs of one lease whose outcomes are durable."""

    lease: LeaseId
    keys: Sequence[int]
    kinds: Sequence[str]  # kind of each outcome; "" if unknown


@dataclass(frozen=True, slots=True)
class AckBatch:
    """Batch of outcomes that an agent acknowledges in one call."""

    acks: Sequence[LeaseAck]
    urls: bytes = b""  # URLs of all keys in order (`pack_urls`), to fetch again if the agent is lost
    number: int = 0  # grows with each batch of an agent; 0 for a batch that need not be tracked


class AgentReport(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """Figures that an agent sends with each heartbeat. Fields missing in an older message get defaults."""

    backlog: float = 0.0  # seconds of waiting work, in the balancer's unit
    speed: float = 1.0
    price: float = 0.0
    pages: int = 0
    pages_per_second: float = 0.0
    robots: int = 0
    machine: str = ""
    directory: str = ""
    rss_mb: float = 0.0
    polls: int = 0
    refreshes: bool = False  # it fetches known pages again, and needs their hosts for that
    resting: bool = False  # its own network is down: it waits, and wants no hosts
    load: float = 0.0  # utilisation of its scarcest resource, 0 to 1


@dataclass(frozen=True, slots=True)
class ListedAgent:
    """An agent as other agents see it."""

    agent: str
    incarnation: int
    alive: bool
    draining: bool
    status: bytes  # an encoded `AgentReport` (`decoding.decode_agent_status`)
    heartbeat_age: float  # seconds since its last heartbeat
    host_count: int = 0  # number of hosts that it holds


@dataclass(frozen=True, slots=True)
class StrandedHosts:
    """Hosts with waiting URLs that cannot be granted to any agent: `lease_hosts` repairs this fault."""

    count: int = 0
    examples: Sequence[Host] = ()  # some of them
    repaired: int = 0  # hosts repaired since the crawl began


@dataclass(frozen=True, slots=True)
class CrawlTotals:
    """Totals of the crawl: `seen = settled + waiting`."""

    seen: int = 0
    settled: int = 0
    waiting: int = 0  # including URLs that agents hold
    hosts: int = 0
    started: bool = False  # seeds were offered
    age: float = 0.0  # seconds since the crawl was created
    kinds: Mapping[str, int] = field(default_factory=dict)  # settled URLs by kind of outcome
    quarantined: int = 0  # unreadable values that were set aside


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    """Sign of life of an agent. It is recorded only if the coordinator knows the heartbeat `since`."""

    status: bytes  # an encoded `AgentReport`
    lease_seconds: float  # seconds for which the agent keeps its leases
    list_after: str = ""  # list the agents after this one by name, starting over at the end, if there are many
    number: int = 0  # grows with each heartbeat of an agent; 0 for none
    since: HeartbeatId = ANY_HEARTBEAT
    known_scope_pages: int = 0  # number of scope pages that the agent already has


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    """Reply to a heartbeat."""

    totals: CrawlTotals
    # sorted by name: all agents (`lists_all_agents`), or the caller and the next `MOST_LISTED_AGENTS`
    agents: Sequence[ListedAgent]
    alive: int  # number of living agents, listed here or not
    members: int  # agents that joined and did not leave
    last_listed: str  # last agent of this turn, "" if all are listed
    server_run: str  # changes with every start of the server
    calm_seconds: float  # seconds for which nothing new is granted
    draining: bool  # the caller was asked to drain
    stop_reason: str = ""  # why the crawl was stopped for all agents (a limit), "" if it continues
    # pages added to the scope (`widen_scope`); empty if the caller already has this number of pages
    scope_pages: Sequence[Url] = ()

    @property
    def lists_all_agents(self) -> bool:
        return self.members <= MOST_LISTED_AGENTS


class Coordinator(Protocol):
    """Coordinator of one crawl. Single-threaded and asynchronous; calls may run concurrently."""

    async def server_identity(self) -> str:
        """Identity of the running server: the same for two coordinators on one server."""

    async def crawl_spec(self) -> CrawlSpec | None:
        """Read the specification of the crawl; None if there is no crawl of that name."""

    async def create_crawl(self, spec: CrawlSpec) -> CrawlSpec:
        """Create the crawl unless it exists. Returns the specification that is in force."""

    async def join(self, name: AgentId, lease: float) -> None:
        """Register a start of an agent. An earlier one is fenced, and its hosts go to other agents."""

    async def was_never_fenced(self, name: AgentId) -> bool:
        """Whether this start of an agent was never fenced: its late acknowledgements still count."""

    async def check_no_data_lost(self, since: HeartbeatId) -> None:
        """Raise `CoordinatorDataLost` if the heartbeat is unknown: the server has an old copy of its data."""

    async def heartbeat(self, name: AgentId, beat: HeartbeatRequest) -> HeartbeatReply:
        """Send a heartbeat: `name` keeps its leases. Overdue agents are fenced."""

    async def widen_scope(self, urls: Sequence[Url]) -> None:
        """Add pages that seeds redirect to: all agents take them into their scope.

        They are published before their outcomes are acknowledged. So an agent that sees that no URL waits
        has received all of them.
        """

    async def leave(self, name: AgentId) -> None:
        """Leave in an orderly way: what the agent held waits again, and it is no longer a member."""

    async def offer_links(self, offers: Sequence[LinkOffer], bounds: SiteBounds, *, seeds: bool = False) -> OfferResult:
        """Offer links: those never seen before wait from now on. `seeds`: the crawl starts with them."""

    async def lease_hosts(self, name: AgentId, hosts: int, urls: int, soon: float = 0.0) -> list[HostGrant]:
        """Lease up to `hosts` hosts that may be visited within `soon` seconds, with about `urls` URLs each.

        The order on each server: hosts the agent wished for, hosts placed at it, hosts placed at no agent,
        then hosts that waited too long for another agent and do not exclude this one. If there are none,
        hosts that cannot be granted to any agent are repaired (`stranded_hosts`).
        """

    async def request_hosts_for_polls(self, name: AgentId, hosts: Sequence[Host]) -> None:
        """Ask for hosts whose known pages `name` wants to fetch again.

        The coordinator has no URLs of these pages.

        Each of them is granted by a later `lease_hosts`, perhaps without a URL. Another agent that holds the
        host keeps it until it gives it back; then the host waits for the first agent that wished for it. A
        wish ends when it is granted, and with the agent.
        """

    async def lease_more_urls(self, name: AgentId, held: Sequence[LeaseId], urls: int) -> list[HostGrant]:
        """Take more URLs of hosts that `name` holds, under the same epoch; one grant each, perhaps empty."""

    async def lease_addresses(self, name: AgentId, asks: Sequence[AddressRequest]) -> list[AddressReply]:
        """Lease one address each, for one host visit; granted again if `name` already has it."""

    async def release_addresses(self, name: AgentId, rests: Mapping[str, float]) -> None:
        """End the visits: the addresses rest for these seconds, even if another agent holds them by now."""

    async def save_host_payloads(self, name: AgentId, host_payload: Mapping[LeaseId, HostPayload]) -> None:
        """Store the state of hosts that `name` still holds, in case it dies."""

    async def release_hosts(self, name: AgentId, hosts: Sequence[ReleasedHost]) -> None:
        """Release hosts for another visit. Hosts that `name` no longer holds are ignored.

        URLs granted under that epoch that are neither unused nor acknowledged stay assigned to `name`
        until they are.
        """

    async def return_urls(self, name: AgentId, rows: Mapping[LeaseId, Sequence[Row]]) -> None:
        """Return URLs that will not be visited under their lease, wherever their hosts are by now.

        They wait again, with these rows, unless they were acknowledged or returned before.
        """

    async def ack(self, name: AgentId, told: AckBatch) -> list[Sequence[int]]:
        """Acknowledge durable outcomes. Returns the rejected keys of each lease.

        Rejected keys belong to a lost lease: other agents fetch them, or have done so. Keys acknowledged
        before are not rejected.
        """

    async def requeue_failed(self, name: AgentId, taken: RetryBatch) -> int:
        """Let these URLs wait again; returns their number. 0 if this part was received before."""

    async def reserve_pages(self, name: AgentId, ask: ReservationRequest) -> int:
        """Set the reservation of `name` and return it: at least what it keeps, at most what it wants.

        When few pages are left, an agent gets at most its share of half of them, so that no agent takes
        all of the last ones. Nothing new is reserved while the coordinator is calm: it may have forgotten
        the reservations of other agents, which renew them now.
        """

    async def acked_page_count(self) -> PageCount:
        """Pages acknowledged on this server."""

    async def quarantine_damaged_values(self, name: AgentId, damaged: Mapping[LeaseId, Sequence[DamagedField]]) -> int:
        """Set aside unreadable values of hosts that `name` holds. Returns the number of URLs lost with them.

        Those URLs are settled as `quarantined`: they are never granted again, and the crawl ends without
        them.
        """

    async def last_acked_batch(self, name: AgentId) -> int:
        """Number of the last batch that `name` acknowledged, fenced or not; 0 if there is none."""

    async def reconcile_leases(self, name: AgentId, known: Mapping[LeaseId, Collection[int]]) -> list[LeaseId]:
        """Reconcile after an interruption: release what `name` does not know, return the leases it lost.

        `known` maps the leases of the agent, those of hosts it gave back included, to the keys it still
        owes. The answer to a `lease_hosts` or `lease_more_urls` may have been lost, and its URLs would
        never be visited otherwise.
        """

    async def totals(self) -> CrawlTotals:
        """Read the current totals; for callers that are not agents."""

    async def stranded_hosts(self) -> StrandedHosts:
        """Hosts that cannot be granted to any agent.

        Reads all hosts only if URLs wait and no host is available.
        """

    async def list_agents(self) -> list[ListedAgent]:
        """Agents that joined and did not leave, sorted by name."""

    async def list_departed_agents(self) -> list[ListedAgent]:
        """Agents that left but still have recorded results."""

    async def request_drain(self, agent: str) -> bool:
        """Tell an agent to finish its work and leave; False if there is none of that name.

        An agent that joins again before it received the request receives it then.
        """

    async def forget_agent(self, agent: str, *, again: bool) -> int:
        """Fence an agent permanently.

        With `again` all URLs it ever acknowledged wait again. Returns their number.
        """

    async def stop_crawl(self, why: str) -> None:
        """Stop the crawl for all agents because of a limit; "" lets it continue."""

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class RestoredOutcomes:
    """URLs of one host that have outcomes: keys, and the kind of each outcome."""

    host: Host
    site: str
    keys: Sequence[int]
    kinds: Sequence[str]


class CrawlRebuilder(Protocol):
    """Coordinator of a crawl that is not visible yet."""

    async def clear_outdated_crawl(self, key_seed: int, since: Sequence[HeartbeatId]) -> bool:
        """Clear a crawl that is an old copy: it does not know one of these heartbeats. Returns whether it
        did.

        `since` are the heartbeats that the directories of its agents rely on. A crawl with another
        `key_seed` is a different crawl and stays. A crawl that agents work with is no old copy: raises.
        """

    async def begin_hidden(self, spec: CrawlSpec) -> CrawlSpec:
        """Start or continue a rebuild; returns the specification in force.

        Raises `CoordinatorError` if there is a crawl with URLs.
        """

    async def remove_crawl(self) -> None:
        """Remove the crawl completely, whatever state it is in."""

    async def restore_outcomes(
        self, name: AgentId, hosts: Sequence[RestoredOutcomes], urls: bytes = b"", *, bounded: bool = False
    ) -> int:
        """Restore outcomes of an agent, by its last start; returns how many of them were new.

        `urls` are the packed URLs of all keys in order, in case the agent is lost; `bounded`: sites are
        counted.
        """

    async def mark_agent_restored(self, name: AgentId, told: int) -> None:
        """Mark the outcomes of `name` as complete, up to the number `told` of its messages."""

    async def restore_host_payloads(self, host_payload: Mapping[Host, HostPayload]) -> None:
        """Set the state of restored hosts."""

    async def offer_links(self, offers: Sequence[LinkOffer], bounds: SiteBounds, *, seeds: bool = False) -> OfferResult:
        """Offer links, as an agent does at the coordinator."""

    async def totals(self) -> CrawlTotals:
        """Totals restored up to now."""

    async def publish_crawl(self, lease: float, delay: float, age: float = 0.0) -> None:
        """Make the crawl visible. It is calm for as long as an agent may still visit a host, plus a delay.

        `age` is the number of seconds since the crawl was created on the lost server.
        """

    async def close(self) -> None: ...
