"""Choice of the crawl whose copy of a URL counts, when several crawls are read as one.

Each crawl has a latest outcome per URL (`crawldir/statements.py`). The newest of them counts; of two with
the same time, that of the crawl named first. Most URLs occur in one crawl only and need no entry: this
keeps the keys of outdated URLs, eight bytes each. The latest outcomes it is built from take sixteen bytes
a URL of every crawl.
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
    """Outdated and unlisted URLs of several crawls, which are identified by their index."""

    def __init__(self, crawls: Sequence[Statements]):
        keys = np.sort(np.concatenate([latest.keys for latest in crawls]))
        shared = np.unique(keys[1:][keys[1:] == keys[:-1]])
        del keys
        last, at = np.zeros(len(shared), np.int32), np.full(len(shared), -np.inf)
        for crawl, latest in enumerate(crawls):
            there, when = _times_of(latest, shared)
            newer = there & (when > at)
            last[newer], at[newer] = crawl, when[newer]
        self._outdated = [
            _packed(shared[_times_of(latest, shared)[0] & (last != n)]) for n, latest in enumerate(crawls)
        ]
        self._unlisted = frozenset(
            key for latest in crawls for key, when in latest.unlisted.items() if when > _newest(crawls, key)
        )

    def is_outdated(self, crawl: int, url: str) -> bool:
        """Whether another crawl has a newer outcome of a URL that this crawl has stored."""
        outdated = self._outdated[crawl]
        key = hash_of(url) if outdated else 0
        place = bisect_left(outdated, key)
        return place < len(outdated) and outdated[place] == key

    def is_unlisted(self, url: str) -> bool:
        """Whether a crawl found the page unchanged but not to be listed, after every latest outcome of it."""
        return bool(self._unlisted) and hash_of(url) in self._unlisted

    def is_to_be_found(self, crawl: int, url: str) -> bool:
        """Whether a search may show this crawl's copy."""
        return not self.is_outdated(crawl, url) and not self.is_unlisted(url)


def _times_of(latest: Statements, keys: NDArray[np.uint64]) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Which of these keys a crawl has, and the times of their latest outcomes."""
    if not len(latest.keys):
        return np.zeros(len(keys), np.bool_), np.zeros(len(keys))
    places = np.minimum(np.searchsorted(latest.keys, keys), len(latest.keys) - 1)
    return latest.keys[places] == keys, latest.at[places]


def _packed(keys: NDArray[np.uint64]) -> array[int]:
    packed = array("Q")
    packed.frombytes(keys.tobytes())
    return packed


def _newest(crawls: Sequence[Statements], key: int) -> float:
    return max((at for latest in crawls if (at := latest.at_of(key)) is not None), default=-np.inf)
