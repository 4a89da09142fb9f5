"""Interfaces of the frontier: towards the crawler, and towards the source of host leases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from fieldmouse.frontier.state import FrontierState
from fieldmouse.storage.checkpoint import Sealed
from fieldmouse.types.host import HostState
from fieldmouse.types.reason import OutcomeKind
from fieldmouse.types.request import HostVisit, QueuedRequest, Request
from fieldmouse.types.stats import RestingHost
from fieldmouse.url import Host


class CrawlFrontier(Protocol):
    """Implemented by `Frontier`, alone on its machine, and `LeasedFrontier`, a member of a cluster."""

    @property
    def name(self) -> str: ...

    def begin(self) -> None: ...

    def discover(self, links: Sequence[Request], keys: Sequence[int] | None = None) -> None: ...

    def poll(self, links: Sequence[Request]) -> None: ...

    def take(self, now: float, *, only_polls: bool = False) -> HostVisit | None: ...

    def ready_at(self) -> float | None: ...

    def give_back(self, errand: HostVisit, state: HostState, unused: Sequence[QueuedRequest] = ()) -> None: ...

    def mark_done(self, kinds: Mapping[int, OutcomeKind], /) -> None:
        """Include the outcomes of these tickets, given by number, in the next checkpoint."""

    def retry(self, number: int, link: Request) -> None: ...

    def seal(self) -> Sealed[FrontierState]: ...

    def committed(self) -> None: ...

    def close(self) -> None: ...

    @property
    def seen(self) -> int: ...

    @property
    def settled(self) -> int: ...

    @property
    def waiting(self) -> int: ...

    @property
    def held_back(self) -> int: ...

    @property
    def polls_waiting(self) -> int: ...

    @property
    def host_count(self) -> int: ...

    @property
    def dropped_links(self) -> dict[str, int]: ...

    @property
    def online_hosts(self) -> int: ...

    def ready_hosts(self, now: float) -> int: ...

    def resting_hosts(self, now: float) -> list[RestingHost]: ...

    def is_stalled(self, now: float, patience: float) -> bool: ...


class SettledUrl(NamedTuple):
    """A URL whose outcome the next checkpoint holds, and the lease it belongs to."""

    host: Host
    epoch: int
    key: int
    url: str
    kind: str  # kind of its outcome


class LeaseSource(Protocol):
    """Source of host leases for a `LeasedFrontier`."""

    @property
    def is_valid(self) -> bool:
        """Whether our leases are still valid."""

    def report_links(self, links: Sequence[Request], keys: Sequence[int]) -> None:
        """Report links that an agent should visit."""

    def should_keep(self, host: Host, state: HostState, visits: int) -> bool:
        """Whether this agent should also make the next visit, after `visits` to the host."""

    def request_more(self, host: Host, epoch: int) -> None:
        """Request more URLs of this host: we have none left, and the coordinator has some."""

    def request_hosts(self, hosts: Sequence[Host]) -> None:
        """Request these hosts, some time: we have known pages of them to fetch again."""

    def return_host(
        self, host: Host, epoch: int, state: HostState, unused: Sequence[Request], *, idle: bool = False
    ) -> None:
        """Return a host, with the URLs that were not visited. `idle`: only because it has nothing to do."""

    def lease_lost(self, host: Host) -> None:
        """Report that we left a host whose lease was lost."""

    def return_url(self, host: Host, epoch: int, link: Request) -> None:
        """Ask the present holder of a host that left us to visit this link again."""

    def report_settled(self, urls: Sequence[SettledUrl]) -> None:
        """Report URLs whose outcomes are in the checkpoint that is sealed now."""

    @property
    def waiting_urls(self) -> int:
        """Last known number of URLs that wait in the whole crawl; never 0 before all is done."""

    @property
    def dropped_links(self) -> dict[str, int]: ...
