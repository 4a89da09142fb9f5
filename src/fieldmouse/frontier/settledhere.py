"""What an agent of a network has settled: the keys of it, in a sieve, and how much of it was taken back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fieldmouse.frontier.disksieve import DiskSieve
from fieldmouse.frontier.landlord import SettledUrl
from fieldmouse.frontier.moment import FrontierState
from fieldmouse.records import Link
from fieldmouse.url import key_of


class SettledHere:
    """No key is ever forgotten: what is forgiven comes again with a mark, and counts when it is settled."""

    def __init__(self, sieve: DiskSieve[Link], state: FrontierState | None, key_seed: int):
        self._sieve, self._key_seed = sieve, key_seed
        self._taken_back = state.sieve.seen - state.done if state else 0

    def __len__(self) -> int:
        return self._sieve.seen - self._taken_back

    def before(self, links: Sequence[Link]) -> list[bool]:
        """Which of these are settled, and not forgiven."""
        known = self._sieve.knows([key_of(link.url, self._key_seed) for link in links])
        return [there and not link.forgiven for there, link in zip(known, links, strict=True)]

    def add(self, urls: Sequence[SettledUrl]) -> None:
        new = self._sieve.learn(np.array([url.key for url in urls], np.uint64))
        self._taken_back = max(0, self._taken_back - len(urls) + new.size)

    def take_back(self, urls: int) -> None:
        """So many are not settled any more."""
        self._taken_back += urls
