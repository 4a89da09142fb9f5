"""Interface through which the frontier leases hosts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from fieldmouse.records import HostState, Link
from fieldmouse.url import Host


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
