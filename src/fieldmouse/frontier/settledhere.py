"""Keys of the URLs that an agent of a cluster has settled, in a sieve."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
import numpy as np

from fieldmouse.frontier.disksieve import DiskSieve
from fieldmouse.frontier.landlord import SettledUrl
from fieldmouse.records import Link
from fieldmouse.url import key_of


class SettledHere:
    """Set of settled keys. No key leaves the sieve; keys of retried URLs are kept beside it until settled
    again."""

    def __init__(self, sieve: DiskSieve[Link], key_seed: int, forgiven: Collection[int]):
        self._sieve, self._key_seed, self._forgiven = sieve, key_seed, set(forgiven)

    def __len__(self) -> int:
        return self._sieve.seen - len(self._forgiven)

    def sort_out(self, links: Sequence[Link]) -> tuple[list[Link], list[Link]]:
        """Split links into those that are settled here and those that are not.

        Links of URLs that are to be retried are marked: a rebuilt coordinator may not know it.
        """
        keys = [key_of(link.url, self._key_seed) for link in links]
        done_here, new = list[Link](), list[Link]()
        for link, key, is_settled in zip(links, keys, self._sieve.knows(keys), strict=True):
            if key in self._forgiven:
                new.append(msgspec.structs.replace(link, forgiven=True))
            else:
                (done_here if is_settled else new).append(link)
        return done_here, new

    def add(self, urls: Sequence[SettledUrl]) -> None:
        keys = [url.key for url in urls]
        self._sieve.learn(np.array(keys, np.uint64))
        self._forgiven.difference_update(keys)

    def take_back(self, keys: Sequence[int]) -> None:
        """Mark these as no longer settled."""
        self._forgiven.update(keys)
