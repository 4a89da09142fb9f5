"""Making a crawl again that a board has lost, as far as the board is concerned.

All that agents have outcomes of is restored first, then how hosts stand; links that are offered after that
wait unless they have an outcome. Until it is published nobody sees any of it. Each call may be repeated,
and the whole, too: whoever was killed half-way begins from the start, and nothing counts twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from fieldmouse.balancer.board.contract import (
    BoardBooks,
    Charter,
    Heard,
    Luggage,
    Name,
    Offer,
    Offered,
    SiteBounds,
)
from fieldmouse.url import Host


@dataclass(frozen=True, slots=True)
class RestoredHost:
    """URLs of one host that have outcomes: keys, and the kind of each outcome."""

    host: Host
    site: str
    keys: Sequence[int]
    kinds: Sequence[str]


class BoardBuilder(Protocol):
    """The board of a crawl that cannot be seen yet."""

    async def clear(self, key_seed: int, since: Sequence[Heard]) -> bool:
        """A crawl that never heard one of these is an old copy, and is cleared; says whether one was.

        `since` are the signs of life that all else hangs on in the directories of its agents. A crawl with
        another `key_seed` is somebody else's and stays. One that agents crawl with is no old copy: raises.
        """

    async def hide(self, charter: Charter) -> Charter:
        """Begin, or go on; returns the charter that counts. `BoardError` if there is a crawl with URLs."""

    async def remove(self) -> None:
        """Nothing of the crawl is left on the board, whatever state it is in."""

    async def restore(
        self, name: Name, hosts: Sequence[RestoredHost], urls: bytes = b"", *, bounded: bool = False
    ) -> int:
        """An agent, by its last start, has outcomes of these; returns how many of them were new.

        `urls` are those of all keys in order, packed, should the agent be lost; `bounded`: sites are counted.
        """

    async def note_restored(self, name: Name, told: int) -> None:
        """All that `name` told, and what its directory has to tell up to that number, is there."""

    async def settle_hosts(self, luggage: Mapping[Host, Luggage]) -> None:
        """How hosts stand that were restored."""

    async def offer(self, offers: Sequence[Offer], bounds: SiteBounds, *, seeds: bool = False) -> Offered:
        """Links that were found: as `Board.offer`."""

    async def books(self) -> BoardBooks:
        """What all adds up to so far."""

    async def publish(self, lease: float, delay: float, age: float = 0.0) -> None:
        """All of it is there. The board is calm for as long as anybody may still ask a host, and a delay.

        `age` is how many seconds ago the crawl was founded on the board that was lost.
        """

    async def close(self) -> None: ...
