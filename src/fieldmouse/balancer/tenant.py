"""Interface of a frontier that leases hosts, for the session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fieldmouse.records import HostState, Link
from fieldmouse.url import Host


class Tenant(Protocol):
    """Implemented by `frontier.leased`."""

    @property
    def wanted(self) -> int: ...

    @property
    def holds(self) -> int: ...

    def epoch_of(self, host: Host) -> int: ...

    def owed(self) -> dict[tuple[Host, int], set[int]]: ...

    def standing(self) -> dict[tuple[Host, int], HostState]: ...

    def grant(self, host: Host, epoch: int, links: Sequence[Link], state: HostState, left: int) -> None: ...

    def sort_out(self, links: Sequence[Link]) -> tuple[list[Link], list[Link]]: ...

    def revoke(self, host: Host, epoch: int) -> None: ...

    def revoke_all(self) -> None: ...

    def let_all_go(self) -> None: ...
