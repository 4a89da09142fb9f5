"""Which of several crawls has the last word on a URL.

Each crawl says of a URL what its newest statement says (`crawldir/statements.py`). Of several crawls
the one that spoke last is believed, and of two that spoke at the same time the one that was named
first. Most URLs are known to one crawl only and need no table: what is kept here are the keys of those
that are outdated, eight bytes each. The statements they are found by are sixteen bytes a URL of every crawl.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fieldmouse.crawldir.outcomes import hash_of
from fieldmouse.crawldir.statements import Statements


class Precedence:
    """Crawls are named by their place among those that are read."""

    def __init__(self, crawls: Sequence[Statements]):
        keys = np.sort(np.concatenate([said.keys for said in crawls]))
        shared = np.unique(keys[1:][keys[1:] == keys[:-1]])
        del keys
        last, at = np.zeros(len(shared), np.int32), np.full(len(shared), -np.inf)
        for crawl, said in enumerate(crawls):
            there, when = _found(said, shared)
            newer = there & (when > at)
            last[newer], at[newer] = crawl, when[newer]
        self._outdated = [
            _packed(shared[_found(said, shared)[0] & (last != crawl)]) for crawl, said in enumerate(crawls)
        ]
        self._unlisted = frozenset(
            key for said in crawls for key, when in said.unlisted.items() if when > _newest(crawls, key)
        )

    def is_outdated(self, crawl: int, url: str) -> bool:
        """Whether another crawl knows something newer of a URL that this one has stored."""
        outdated = self._outdated[crawl]
        key = hash_of(url) if outdated else 0
        place = bisect_left(outdated, key)
        return place < len(outdated) and outdated[place] == key

    def is_unlisted(self, url: str) -> bool:
        """Whether a crawl found it unchanged after all stored it, and asking not to be listed."""
        return bool(self._unlisted) and hash_of(url) in self._unlisted

    def is_to_be_found(self, crawl: int, url: str) -> bool:
        """Whether a search may show what this crawl has of it."""
        return not self.is_outdated(crawl, url) and not self.is_unlisted(url)


def _found(said: Statements, keys: NDArray[np.uint64]) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Which of these keys a crawl knows, and when it had its last word on them."""
    if not len(said.keys):
        return np.zeros(len(keys), np.bool_), np.zeros(len(keys))
    places = np.minimum(np.searchsorted(said.keys, keys), len(said.keys) - 1)
    return said.keys[places] == keys, said.at[places]


def _packed(keys: NDArray[np.uint64]) -> array[int]:
    packed = array("Q")
    packed.frombytes(keys.tobytes())
    return packed


def _newest(crawls: Sequence[Statements], key: int) -> float:
    return max((at for said in crawls if (at := said.at_of(key)) is not None), default=-np.inf)
