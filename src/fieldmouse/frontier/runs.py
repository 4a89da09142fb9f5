"""Sorted files of 64-bit keys: searched through a window, merged in chunks.

Of a run only one key in 128 (the first of each page) is kept in memory, so
a look-up knows its page before it touches the file. The file is mapped, and the
pages touched are handed back soon after: memory stays the same however many keys
there are.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fieldmouse.errors import Damaged
from fieldmouse.frontier.keytable import Keys, Marks

_PAGE = 128  # keys to each one kept in memory
_WINDOW = 1 << 15  # keys of a run that are searched together when the batch is dense
_DENSE = 256  # keys of a run for each one asked for: below, it pays to read on
_SPARSE = 1024  # pages touched before they are handed back; the kernel maps up to 16 for each
_SMALL = 4 << 20  # keys: a run up to this size may stay mapped


class Run:
    """One sorted file of different keys, never changed after it was written."""

    def __init__(self, path: Path, fences: Keys | None = None):
        self.path = path
        with path.open("rb") as file:
            size = path.stat().st_size
            if size == 0 or size % 8:
                raise Damaged(path, f"a run of keys cannot be {size} bytes long")
            self._map = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        self._keys: Keys = np.frombuffer(self._map, np.uint64)
        if fences is None:
            fences = self._keys[::_PAGE].copy()
            self.hand_back()
        self._fences = fences

    @classmethod
    def write(cls, path: Path, keys: Keys) -> Run:
        keys.tofile(path)
        return cls(path, keys[::_PAGE].copy())

    def __len__(self) -> int:
        return int(self._keys.size)

    def has(self, keys: Keys) -> Marks:
        """For each of the sorted keys, whether it is in the run."""
        if keys.size * _DENSE > self._keys.size:
            return self._has_dense(keys)
        if keys.size <= _SPARSE:
            return self._has_sparse(keys)
        parts = range(0, keys.size, _SPARSE)
        return np.concatenate([self._has_sparse(keys[at : at + _SPARSE]) for at in parts])

    def _has_sparse(self, keys: Keys) -> Marks:
        """Many pages, few keys in each: all binary searches take their steps together."""
        pages = self._fences.searchsorted(keys, "right") - 1
        low = np.maximum(pages, 0) * _PAGE
        last = self._keys.size - 1
        step = _PAGE // 2
        while step:
            probe = np.minimum(low + step, last)
            low = np.where(self._keys[probe] <= keys, probe, low)
            step //= 2
        found: Marks = self._keys[low] == keys
        if self._keys.size > _SMALL:
            self.hand_back()
        return found

    def _has_dense(self, keys: Keys) -> Marks:
        """Few pages a key: one stretch of the run after the other, small enough for the cache."""
        found: Marks = np.zeros(keys.size, np.bool_)
        bounds = self._fences[:: _WINDOW // _PAGE]
        starts = keys.searchsorted(bounds).tolist()
        starts.append(keys.size)
        for number in range(len(bounds)):
            first, end = starts[number], starts[number + 1]
            if first == end:
                continue
            stretch = self._keys[number * _WINDOW : (number + 1) * _WINDOW]
            wanted = keys[first:end]
            at = stretch.searchsorted(wanted)
            np.minimum(at, stretch.size - 1, out=at)
            found[first:end] = stretch[at] == wanted
            if number % 64 == 63:
                self.hand_back()
        if self._keys.size > _SMALL:
            self.hand_back()
        return found

    def position(self, key: np.uint64) -> int:
        """How many keys of the run are smaller than `key`."""
        page = max(0, int(self._fences.searchsorted(key)) - 1)
        stretch = self._keys[page * _PAGE : (page + 1) * _PAGE]
        return page * _PAGE + int(stretch.searchsorted(key))

    def fence(self, page: int) -> np.uint64:
        return np.uint64(self._fences[page])

    def slice(self, start: int, end: int) -> Keys:
        return self._keys[start:end]

    def hand_back(self) -> None:
        self._map.madvise(mmap.MADV_DONTNEED)


def merge(runs: list[Run], path: Path, chunk: int = 1 << 16) -> Iterator[int]:
    """Write the keys of all `runs` to `path` in order, about `chunk` at a time.

    Yields the keys written after each chunk, so that whoever drives it decides
    how long one call may take. The keys of different runs are different.
    """
    longest = max(runs, key=len)
    total = sum(map(len, runs))
    stride = max(1, chunk * len(longest) // total // _PAGE)
    done = [0] * len(runs)
    with path.open("wb") as file:
        for page in range(stride, len(longest) // _PAGE + stride + 1, stride):
            at_end = page * _PAGE >= len(longest)
            upto = [len(run) if at_end else run.position(longest.fence(page)) for run in runs]
            parts = [run.slice(a, b) for run, a, b in zip(runs, done, upto, strict=True)]
            together = np.concatenate(parts)
            together.sort()
            file.write(together.data)
            done = upto
            for run in runs:
                run.hand_back()
            yield int(together.size)
            if at_end:
                return
