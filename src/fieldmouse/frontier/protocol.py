"""Interfaces of the frontier: towards the crawler, and towards the source of host leases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from fieldmouse.frontier.state import FrontierState
from fieldmouse.storage.checkpoint import Sealed
from fieldmouse.types.host import HostState
from fieldmouse.types.reason import OutcomeKind
from fieldmouse.types.request import Errand, Link, Ticket
from fieldmouse.types.stats import HostRest
from fieldmouse.url import Host


class CrawlFrontier(Protocol):
    """Implemented by `Frontier`, alone on its machine, and `LeasedFrontier`, a member of a cluster."""

    @property
    def name(self) -> str: ...

    def begin(self) -> None: ...

    def discover(self, links: Sequence[Link], keys: Sequence[int] | None = None) -> None: ...

    def poll(self, links: Sequence[Link]) -> None: ...

    def take(self, now: float, *, only_polls: bool = False) -> Errand | None: ...

    def ready_at(self) -> float | None: ...

    def give_back(self, errand: Errand, state: HostState, unused: Sequence[Ticket] = ()) -> None: ...

    def done(self, kinds: Mapping[int, OutcomeKind], /) -> None:
        """Include the outcomes of these tickets, given by number, in the next checkpoint."""

    def again(self, number: int, link: Link) -> None: ...

    def seal(self) -> Sealed[FrontierState]: ...

    def committed(self) -> None: ...

    def close(self) -> None: ...

    @property
    def seen(self) -> int: ...

    @property
    def finished(self) -> int: ...

    @property
    def waiting(self) -> int: ...

    @property
    def held(self) -> int: ...

    @property
    def polling(self) -> int: ...

    @property
    def hosts(self) -> int: ...

    @property
    def dropped(self) -> dict[str, int]: ...

    @property
    def front(self) -> int: ...

    def ready_hosts(self, now: float) -> int: ...

    def resting(self, now: float) -> list[HostRest]: ...

    def is_stalled(self, now: float, patience: float) -> bool: ...


class SettledUrl(NamedTuple):
    """A URL whose outcome the next checkpoint holds, and the lease it belongs to."""

    host: Host
    epoch: int
    key: int
    url: str
    kind: str  # kind of its outcome


class Landlord(Protocol):
    """Source of host leases for a `LeasedFrontier`."""

    @property
    def open(self) -> bool:
        """Whether our leases are still valid."""

    def found(self, links: Sequence[Link], keys: Sequence[int]) -> None:
        """Report links that an agent should visit."""

    def stays(self, host: Host, state: HostState, visits: int) -> bool:
        """Whether this agent should also make the next visit, after `visits` to the host."""

    def want_more(self, host: Host, epoch: int) -> None:
        """Request more URLs of this host: we have none left, and the coordinator has some."""

    def wish(self, hosts: Sequence[Host]) -> None:
        """Request these hosts, some time: we have known pages of them to fetch again."""

    def vacated(
        self, host: Host, epoch: int, state: HostState, unused: Sequence[Link], *, idle: bool = False
    ) -> None:
        """Return a host, with the URLs that were not visited. `idle`: only because it has nothing to do."""

    def evicted(self, host: Host) -> None:
        """Report that we left a host whose lease was lost."""

    def put_back(self, host: Host, epoch: int, link: Link) -> None:
        """Ask the present holder of a host that left us to visit this link again."""

    def settled(self, urls: Sequence[SettledUrl]) -> None:
        """Report URLs whose outcomes are in the checkpoint that is sealed now."""

    @property
    def waiting(self) -> int:
        """Last known number of URLs that wait in the whole crawl; never 0 before all is done."""

    @property
    def dropped(self) -> dict[str, int]: ...
