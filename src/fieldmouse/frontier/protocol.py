"""Frontier as the crawler sees it, and the interface to the source of host leases."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from xxhash import xxh3_64_intdigest

from fieldmouse.clock import Clock
from fieldmouse.frontier.durable_parts import FrontierParts, FrontierState
from fieldmouse.frontier.workbench import Workbench
from fieldmouse.policy.front_size import FrontSizeRule
from fieldmouse.storage.checkpoint import SealedPart
from fieldmouse.storage.log import make_directory
from fieldmouse.types.host_state import HostState
from fieldmouse.types.reason import OutcomeKind
from fieldmouse.types.request import HostVisit, NumberedRequest, Request
from fieldmouse.types.stats import RestingHost
from fieldmouse.url import Host

_COUNT_IDLE_EVERY = 256  # host visits between two counts of idle hosts


class CrawlFrontier(ABC):
    """Common part of `Frontier`, alone on its machine, and `AgentFrontier`, a member of a cluster.

    Opening it changes nothing on disk; `roll_back_to_checkpoint` does.
    """

    name = "frontier"

    def __init__(
        self,
        parts: FrontierParts,
        workbench: Workbench,
        *,
        clock: Clock,
        rule: FrontSizeRule,
        key_seed: int,
        errand_links: int,
        state: FrontierState | None,
    ):
        self._parts, self._workbench, self._clock, self._rule = parts, workbench, clock, rule
        self._key_seed, self._errand_links = key_seed, errand_links
        self._width = max(rule.minimum, min(rule.maximum, state.width if state else 0))  # hosts that should be online
        self._visits = 0

    def roll_back_to_checkpoint(self) -> None:
        """Cut everything after the checkpoint and start work. Every part of the crawl is open by now."""
        make_directory(self._parts.directory)
        for part in self._parts:
            part.roll_back_to_checkpoint()

    def discover(self, links: Sequence[Request]) -> None:
        """Offer links found on the web; those never seen before will be visited."""
        seed, digest = self._key_seed, xxh3_64_intdigest  # `key_of` inlined, for speed
        self._offer_with_keys(links, [digest(link.url.encode(), seed) for link in links])

    @abstractmethod
    def _offer_with_keys(self, links: Sequence[Request], keys: list[int]) -> None: ...

    @abstractmethod
    def enqueue_polls(self, links: Sequence[Request]) -> None:
        """Fetch known links again: they enter behind the sieve, which would drop them.

        The caller passes only those that are due. Their outcomes are counted separately: a discovered URL
        that is done stays done.
        """

    @abstractmethod
    def discard_waiting_polls(self) -> None:
        """Forget the polls of earlier runs; to be called before `roll_back_to_checkpoint`."""

    @abstractmethod
    def addresses(self) -> Iterable[tuple[Host, str]]:
        """Address of each host; "" before the first DNS lookup."""

    @abstractmethod
    def take_visit(self, now: float, *, only_polls: bool = False) -> HostVisit | None:
        """Lease a host that may be visited now to the caller; None if there is none.

        With `only_polls`, discovered URLs stay in place until the next call without it.
        """

    def _count_visit_and_shrink_front(self, now: float) -> None:
        self._visits += 1
        if self._visits % _COUNT_IDLE_EVERY == 0:
            self._width = self._rule.shrunk_size(self._width, self._workbench.ready_host_count(now))

    @abstractmethod
    def ready_at(self) -> float | None:
        """Time at which `take` could succeed next; 0: at once, None: no host online is waiting."""

    @abstractmethod
    def end_visit(self, visit: HostVisit, state: HostState, unused: Sequence[NumberedRequest] = ()) -> None:
        """Return a host after a visit; `state` says when it and its address may be visited again.

        Unused tickets go back to the head of the host's queue. The others are
        owed an outcome until `mark_durably_done` or `retry` is called for them.
        """

    @abstractmethod
    def mark_durably_done(self, kinds: Mapping[int, OutcomeKind], /) -> None:
        """Include the outcomes of these tickets, given by number, in the next checkpoint."""

    @abstractmethod
    def retry_ticket(self, number: int, link: Request) -> None:
        """Visit `link` instead of the ticket, under a new number, not before `link.not_before`."""

    @abstractmethod
    def seal(self) -> SealedPart[FrontierState]:
        """Write everything to the operating system, and note the lengths."""

    def on_checkpoint_committed(self) -> None:
        """Delete superseded files: the journal holds the state sealed last."""
        for part in self._parts:
            part.on_checkpoint_committed()

    def close(self) -> None:
        """Close the files. Anything not sealed is forgotten, as after a kill."""
        for part in self._parts:
            part.close()

    @property
    @abstractmethod
    def seen_count(self) -> int:
        """URLs accepted so far. Always `settled + waiting`, once all offers are sifted."""

    @property
    @abstractmethod
    def settled_count(self) -> int:
        """URLs whose outcome is durable."""

    @property
    @abstractmethod
    def waiting_count(self) -> int:
        """URLs accepted and not done: ready, offline, online or with fetch workers. Polls do not count."""

    @property
    def held_for_refresh_count(self) -> int:
        """Waiting URLs that this run leaves alone."""
        return 0

    @property
    @abstractmethod
    def waiting_polls(self) -> int:
        """Known URLs that are to be fetched again."""

    @property
    @abstractmethod
    def total_hosts(self) -> int: ...

    @property
    @abstractmethod
    def dropped_links_by_setting(self) -> dict[str, int]:
        """Links dropped because their site was full, by the name of the setting; each time a link is found
        counts."""

    @property
    def online_host_count(self) -> int:
        """Number of hosts online."""
        return len(self._workbench)

    def ready_host_count(self, now: float) -> int:
        return self._workbench.ready_host_count(now)

    def hosts_in_backoff(self, now: float) -> list[RestingHost]:
        """Hosts with URLs online that rest after a failure, ordered by the end of the rest."""
        return []

    def are_all_hosts_in_backoff(self, now: float, patience: float) -> bool:
        """Whether nothing can be fetched for `patience` seconds, only because hosts or URLs failed."""
        return False


class SettledUrl(NamedTuple):
    """A URL whose outcome the next checkpoint holds, and the lease it belongs to."""

    host: Host
    epoch: int
    key: int
    url: str
    kind: str  # kind of its outcome


class CoordinatorCalls(Protocol):
    """Source of host leases for a `AgentFrontier`."""

    @property
    def are_leases_valid(self) -> bool:
        """Whether our leases are still valid."""

    def report_links(self, links: Sequence[Request], keys: Sequence[int]) -> None:
        """Report links that an agent should visit."""

    def should_make_next_visit(self, host: Host, state: HostState, visits: int) -> bool:
        """Whether this agent should also make the next visit, after `visits` to the host."""

    def request_more_urls(self, host: Host, epoch: int) -> None:
        """Request more URLs of this host: we have none left, and the coordinator has some."""

    def request_hosts_for_polls(self, hosts: Sequence[Host]) -> None:
        """Request these hosts, some time: we have known pages of them to fetch again."""

    def return_host(
        self, host: Host, epoch: int, state: HostState, unused: Sequence[Request], *, idle: bool = False
    ) -> None:
        """Return a host, with the URLs that were not visited. `idle`: only because it has nothing to do."""

    def forget_lost_host(self, host: Host) -> None:
        """Report that we left a host whose lease was lost."""

    def return_url_for_retry(self, host: Host, epoch: int, link: Request) -> None:
        """Ask the present holder of a host that left us to visit this link again."""

    def report_settled(self, urls: Sequence[SettledUrl]) -> None:
        """Report URLs whose outcomes are in the checkpoint that is sealed now."""

    @property
    def waiting_urls_in_crawl(self) -> int:
        """Last known number of URLs that wait in the whole crawl; never 0 before all is done."""

    @property
    def dropped_links_by_setting(self) -> dict[str, int]: ...
