"""Sorted files of 64-bit keys, searched through a window and merged in chunks.

Memory holds one key in 128 of a run (the first of each page), so a look-up knows its
page before it touches the file. The file is mapped, and touched pages are released
soon after: memory stays the same for any number of keys.

Behind its keys a run has a checksum for each block of them (`RunWriter`). All are
checked when it is opened, which reads every page once for its fences anyway.
Runs of format 1 end with their last key; only their order can be checked.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator
from pathlib import Path
from struct import Struct

import numpy as np
from xxhash import xxh3_64_intdigest

from fieldmouse.errors import DamagedFile, MissingFile
from fieldmouse.frontier.seen.key_table import Keys, Marks

_PAGE = 128  # keys per key kept in memory
_WINDOW = 1 << 15  # keys of a run that are searched together when the batch is dense
_DENSE = 256  # keys of a run per key asked for: below this, it pays to read everything
_SPARSE = 1024  # pages touched before they are released; the kernel maps up to 16 for each
_SMALL = 4 << 20  # keys: a run up to this size may stay mapped
_BLOCK = 1 << 16  # keys per checksum, at most
_ENTRY = Struct("<QQ")  # keys in a block, their checksum
_TRAILER = Struct("<8sQQQ")  # mark, keys, blocks, checksum of all before that is no key
_MARK = b"run of 2"


class RunWriter:
    """Writer of a new run: sorted keys, then their checksums."""

    def __init__(self, path: Path):
        self._path = path
        self._file = path.open("wb")
        self._entries: list[bytes] = []
        self._fences: list[Keys] = []
        self._count = 0

    def write(self, keys: Keys) -> None:
        self._fences.append(keys[-self._count % _PAGE :: _PAGE].copy())
        self._count += keys.size
        for start in range(0, keys.size, _BLOCK):
            block = keys[start : start + _BLOCK]
            self._file.write(block.data)
            self._entries.append(_ENTRY.pack(block.size, xxh3_64_intdigest(block.data)))

    def finish(self) -> SortedRun:
        entries = b"".join(self._entries)
        check = xxh3_64_intdigest(entries, self._count)
        self._file.write(entries + _TRAILER.pack(_MARK, self._count, len(self._entries), check))
        self._file.close()
        return SortedRun(self._path, fences=np.concatenate(self._fences))

    def close_unfinished(self) -> None:
        """Close without finishing the run."""
        self._file.close()


class SortedRun:
    """Sorted file of different keys, never changed after it was written."""

    def __init__(self, path: Path, *, raw: bool = False, fences: Keys | None = None):
        """`raw`: a run of format 1. With `fences`, from its writer, the file is not read through."""
        self.path = path
        try:
            with path.open("rb") as file:
                size = path.stat().st_size
                if size < 8:
                    raise DamagedFile(path, f"a run of keys cannot be {size} bytes long")
                self._map = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        except FileNotFoundError:
            raise MissingFile(path) from None
        if raw and size % 8:
            raise DamagedFile(path, f"a run of keys cannot be {size} bytes long")
        blocks = [] if raw else self._read_trailer(size)
        count = size // 8 if raw else sum(keys for keys, _ in blocks)
        self._keys: Keys = np.frombuffer(self._map, np.uint64, count)
        self._fences: Keys = self._check_blocks(blocks) if fences is None else fences

    def _read_trailer(self, size: int) -> list[tuple[int, int]]:
        """Read the number of keys and the checksum of every block."""
        if size >= _TRAILER.size:
            mark, count, blocks, check = _TRAILER.unpack_from(self._map, size - _TRAILER.size)
            start, end = 8 * count, size - _TRAILER.size
            if mark == _MARK and end - start == blocks * _ENTRY.size and start >= 0:
                entries = self._map[start:end]
                rows = list(_ENTRY.iter_unpack(entries))
                if xxh3_64_intdigest(entries, count) == check and sum(keys for keys, _ in rows) == count > 0:
                    return rows
        raise DamagedFile(self.path, "it does not end as a run of keys does")

    def _check_blocks(self, blocks: list[tuple[int, int]]) -> Keys:
        """Return the first key of each page, and check every block by its checksum."""
        fences = []
        at, before = 0, -1
        for count, check in blocks or _blocks_without_checksums(self._keys.size):
            keys = self._keys[at : at + count]
            if check >= 0:
                whole = xxh3_64_intdigest(keys.data) == check
            else:
                whole = int(keys[0]) > before and bool((keys[1:] > keys[:-1]).all())
                before = int(keys[-1])
            if not whole:
                what = "do not match their checksum" if check >= 0 else "are not in order"
                raise DamagedFile(self.path, f"the {count} keys at byte {8 * at} {what}")
            fences.append(keys[-at % _PAGE :: _PAGE].copy())
            at += count
            self.release_pages()
        return np.concatenate(fences)

    @classmethod
    def write(cls, path: Path, stretches: Iterable[Keys]) -> SortedRun:
        """Write a new run of sorted keys."""
        writer = RunWriter(path)
        for keys in stretches:
            writer.write(keys)
        return writer.finish()

    def __iter__(self) -> Iterator[Keys]:
        """Yield all keys in order, in batches."""
        for start in range(0, self._keys.size, _BLOCK):
            yield self._keys[start : start + _BLOCK]
            self.release_pages()

    def __len__(self) -> int:
        return int(self._keys.size)

    def contains_each(self, keys: Keys) -> Marks:
        """For each of the sorted keys, whether it is in the run."""
        if keys.size * _DENSE > self._keys.size:
            return self._search_dense(keys)
        if keys.size <= _SPARSE:
            return self._search_scattered(keys)
        parts = range(0, keys.size, _SPARSE)
        return np.concatenate([self._search_scattered(keys[at : at + _SPARSE]) for at in parts])

    def _search_scattered(self, keys: Keys) -> Marks:
        """Search many pages with few keys in each: all binary searches advance together."""
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
            self.release_pages()
        return found

    def _search_dense(self, keys: Keys) -> Marks:
        """Search few pages per key: one section of the run after the other, small enough for the cache."""
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
                self.release_pages()
        if self._keys.size > _SMALL:
            self.release_pages()
        return found

    def count_smaller(self, key: np.uint64) -> int:
        """Number of keys of the run that are smaller than `key`."""
        page = max(0, int(self._fences.searchsorted(key)) - 1)
        stretch = self._keys[page * _PAGE : (page + 1) * _PAGE]
        return page * _PAGE + int(stretch.searchsorted(key))

    def first_key_of_page(self, page: int) -> np.uint64:
        return np.uint64(self._fences[page])

    def keys_at_positions(self, start: int, end: int) -> Keys:
        return self._keys[start:end]

    def release_pages(self) -> None:
        self._map.madvise(mmap.MADV_DONTNEED)


def merge_runs(runs: list[SortedRun], writer: RunWriter, chunk: int = 1 << 16) -> Iterator[int]:
    """Write the keys of all `runs` in order, about `chunk` at a time.

    Yields the number of keys written after each chunk, so that the caller decides
    how long one call may take. The keys of different runs are different.
    """
    longest = max(runs, key=len)
    total = sum(map(len, runs))
    stride = max(1, chunk * len(longest) // total // _PAGE)
    done = [0] * len(runs)
    for page in range(stride, len(longest) // _PAGE + stride + 1, stride):
        at_end = page * _PAGE >= len(longest)
        upto = [len(run) if at_end else run.count_smaller(longest.first_key_of_page(page)) for run in runs]
        parts = [run.keys_at_positions(a, b) for run, a, b in zip(runs, done, upto, strict=True)]
        together = np.concatenate(parts)
        together.sort()
        writer.write(together)
        done = upto
        for run in runs:
            run.release_pages()
        yield int(together.size)
        if at_end:
            return


def _blocks_without_checksums(count: int) -> Iterator[tuple[int, int]]:
    """Yield blocks of keys without checksums."""
    for start in range(0, count, _BLOCK):
        yield min(_BLOCK, count - start), -1
