"""Who lets hosts to a leased frontier, as that sees it."""

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
    kind: str  # of its outcome


class Landlord(Protocol):
    """Who lets hosts to us, as we see it."""

    @property
    def open(self) -> bool:
        """Whether what we hold is still ours."""

    def found(self, links: Sequence[Link], keys: Sequence[int]) -> None:
        """Links that somebody should visit."""

    def stays(self, host: Host, state: HostState, visits: int) -> bool:
        """A host was visited: whether we should visit it the next time, too."""

    def want_more(self, host: Host, epoch: int) -> None:
        """We have no URLs of this host left, and the board has."""

    def wish(self, hosts: Sequence[Host]) -> None:
        """We have known pages of these hosts to ask for again: each should come to us some time."""

    def vacated(
        self, host: Host, epoch: int, state: HostState, unused: Sequence[Link], *, idle: bool = False
    ) -> None:
        """We let a host go; these URLs of it were not visited. `idle`: only since there is nothing to do."""

    def evicted(self, host: Host) -> None:
        """We had to leave a host: it was taken from us."""

    def put_back(self, host: Host, epoch: int, link: Link) -> None:
        """This one of a host that left should be visited again by whoever has it."""

    def settled(self, urls: Sequence[SettledUrl]) -> None:
        """The outcomes of these are in the checkpoint that is sealed now."""

    @property
    def waiting(self) -> int:
        """URLs that wait in the whole crawl, as far as we heard; never 0 before all is done."""

    @property
    def dropped(self) -> dict[str, int]: ...
