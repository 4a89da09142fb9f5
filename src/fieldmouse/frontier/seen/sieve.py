"""Sieve on disk: sorted runs of keys in files, the newest keys in memory.

A sieve lets each URL through exactly once, in the order first seen. It remembers keys
(64-bit hashes), not URLs. Offers are collected and sifted together, because looking up
a thousand sorted keys on disk costs little more than looking up one.

New keys go into a table and into an append-only log. When the table has `run_size` keys
it is written out sorted, as a run. Two runs of similar size are merged, a little at
each sift, so that no call takes long and there are never more than a handful of runs to
search. Memory holds the table, a small cache of recent keys, and one key in 128 of the runs.

The state names the runs and the length of the log. A run is never changed, and is deleted
only after a checkpoint that no longer names it. In format 1 neither file had checksums;
`roll_back_to_checkpoint` rewrites both, and the first checkpoint names the new files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from fieldmouse.errors import DamagedFile, MissingFile
from fieldmouse.frontier.seen.key_table import Keys, RecentKeySet
from fieldmouse.frontier.seen.sorted_runs import RunWriter, SortedRun, merge_runs
from fieldmouse.storage.log import Log, SupersededFiles, delete_unnamed_files, read_records

T = TypeVar("T")

_CACHE = 1 << 18
_MERGE_SPEED = 10  # keys merged for each new one; doubling runs need log2(keys / run_size)
_MERGE_CHUNK = 1 << 16


class SieveState(msgspec.Struct, frozen=True, array_like=True):
    """Names of the files that hold the keys, and the length of the log."""

    runs: tuple[str, ...] = ()
    log: str = "keys-0.log"
    logged: int = 0  # keys in the log
    serial: int = 1  # of the next file
    seen: int = 0
    length: int = -1  # bytes of the log; -1 in a crawl of format 1, whose files have no checksums

    @property
    def has_no_checksums(self) -> bool:
        return self.length < 0 and (self.seen > 0 or bool(self.runs))

    @property
    def log_bytes(self) -> int:
        return 8 * self.logged if self.length < 0 else self.length


class DiskSieve(Generic[T]):
    """Exactly-once filter by 64-bit key, in bounded memory."""

    def __init__(self, directory: Path, state: SieveState | None = None, *, run_size: int = 1 << 21):
        state = state or SieveState()
        self._directory = directory
        self._run_size = run_size
        self._keys: list[int] = []
        self._items: list[T] = []
        self._cache: Keys = np.zeros(_CACHE, np.uint64)
        self._raw, self._begun = state.has_no_checksums, False
        self._runs = [SortedRun(directory / name, raw=state.has_no_checksums) for name in state.runs]
        self._serial = state.serial
        self._leftovers = SupersededFiles()
        self._merge: Iterator[int] | None = None
        self._merging: list[SortedRun] = []
        self._merged: RunWriter | None = None
        self._credit = 0
        self._unsynced: list[Path] = []
        self._table = RecentKeySet()
        for keys in logged_keys(directory, state):
            self._table.insert_unchecked(keys)
        self._log = Log(directory / state.log, state.log_bytes)
        self._logged = state.logged
        self.seen = state.seen
        if sum(map(len, self._runs)) + state.logged != state.seen:
            raise DamagedFile(directory / state.log, f"it and the runs of keys do not add up to {state.seen}")

    def roll_back_to_checkpoint(self) -> None:
        """Cut and delete everything written after the checkpoint. The first write calls it implicitly."""
        if self._begun:
            return
        self._begun = True
        delete_unnamed_files(self._directory, "keys-*.log", [self._log.path.name])
        delete_unnamed_files(self._directory, "run-*.keys", [run.path.name for run in self._runs])
        if self._raw:
            self._rewrite_with_checksums()
        self._log.roll_back_to_checkpoint()
        self._unsynced.append(self._log.path)

    def _rewrite_with_checksums(self) -> None:
        """Rewrite everything with checksums; the old files stay until a checkpoint names the new ones."""
        self._leftovers.add([*(run.path for run in self._runs), self._log.path])
        self._log.close()
        self._runs = [SortedRun.write(self._next_path("run-{}.keys"), run) for run in self._runs]
        self._unsynced += [run.path for run in self._runs]
        self._log = Log(self._next_path("keys-{}.log"))
        if self._logged:
            self._log.append(self._table.sorted_keys().tobytes())

    @property
    def pending_offers(self) -> int:
        return len(self._keys)

    @property
    def run_count(self) -> int:
        return len(self._runs)

    def offer(self, keys: Sequence[int], items: Sequence[T]) -> None:
        """Add `items`, whose keys are `keys`; the new ones come out of the next `sift`."""
        assert len(keys) == len(items), "every item needs its key"
        self._keys.extend(keys)
        self._items.extend(items)

    def sift(self, admit: Callable[[list[T]], Sequence[bool] | None] | None = None) -> list[T]:
        """Return the items offered since the last call whose key is new, each once, in the order offered.

        `admit` receives the new items and returns a flag for each, or None to admit all.
        Rejected items are not remembered, as if they had never been offered.
        """
        if not self._keys:
            return []
        keys = np.array(self._keys, np.uint64)
        items, self._keys, self._items = self._items, [], []
        keys, first = self._unknown_keys(keys)
        if not keys.size:
            return []
        new = [items[place] for place in np.sort(first).tolist()]
        passed = admit(new) if admit is not None else None
        if passed is not None and not all(passed):
            kept = np.empty(keys.size, np.bool_)
            kept[np.argsort(first)] = passed
            slots = (keys[~kept] & np.uint64(_CACHE - 1)).astype(np.intp)
            self._cache[slots] = 0
            keys = keys[kept]
            new = [item for item, may in zip(new, passed, strict=True) if may]
        if keys.size:
            self._add_new_keys(keys)
        return new

    def add_known(self, keys: Keys) -> Keys:
        """Remember keys that were accepted elsewhere; returns those that were not known here."""
        assert not self._keys, "sift before learning"
        new, _ = self._unknown_keys(keys.copy())
        if new.size:
            self._add_new_keys(new)
        return new

    def contains_each(self, keys: Sequence[int]) -> list[bool]:
        """Whether each of these keys was accepted or learned."""
        wanted, places = np.unique(np.array([key or 1 for key in keys], np.uint64), return_inverse=True)
        is_known = self._table.contains_each(wanted)
        for run in self._runs:
            is_known |= run.contains_each(wanted)
        return [bool(flag) for flag in is_known[places]]

    def _unknown_keys(self, keys: Keys) -> tuple[Keys, NDArray[np.intp]]:
        """Return the keys never accepted, each once and sorted, and the index of its first occurrence."""
        keys[keys == 0] = 1  # zero means empty in the table
        first = np.argsort(keys, kind="stable")
        keys = keys[first]
        if keys.size > 1:
            different = np.empty(keys.size, np.bool_)
            different[0] = True
            np.not_equal(keys[1:], keys[:-1], out=different[1:])
            keys, first = keys[different], first[different]
        slots = (keys & np.uint64(_CACHE - 1)).astype(np.intp)
        unknown = self._cache[slots] != keys
        keys, first, slots = keys[unknown], first[unknown], slots[unknown]
        self._cache[slots] = keys
        if keys.size and self._table.count:
            unknown = ~self._table.contains_each(keys)
            keys, first = keys[unknown], first[unknown]
        for run in self._runs:
            if not keys.size:
                break
            unknown = ~run.contains_each(keys)
            keys, first = keys[unknown], first[unknown]
        return keys, first

    def _add_new_keys(self, keys: Keys) -> None:
        self.roll_back_to_checkpoint()
        self._table.insert_unchecked(keys)
        self._log.append(keys.tobytes())
        self._logged += keys.size
        self.seen += keys.size
        if self._table.count >= self._run_size:
            self._write_run()
        self._continue_merge(keys.size)

    def _write_run(self) -> None:
        run = SortedRun.write(self._next_path("run-{}.keys"), [self._table.sorted_keys()])
        self._runs.append(run)
        self._leftovers.add([self._log.path])
        self._log.close()
        self._table.clear()  # it keeps its size, which it will need again
        self._log, self._logged = Log(self._next_path("keys-{}.log")), 0
        self._unsynced += [run.path, self._log.path]

    def _continue_merge(self, new: int) -> None:
        """Continue the current merge, by an amount of work proportional to `new` keys."""
        if self._merge is None:
            self._choose_merge()
        if self._merge is None:
            return
        self._credit += new * _MERGE_SPEED
        while self._credit >= _MERGE_CHUNK and self._merge is not None:
            written = next(self._merge, None)
            if written is not None:
                self._credit -= written
                continue
            assert self._merged is not None
            run = self._merged.finish()
            self._runs = [run, *(old for old in self._runs if old not in self._merging)]
            self._unsynced.append(run.path)
            self._leftovers.add(old.path for old in self._merging)
            self._merge, self._merging = None, []
            self._choose_merge()
        if self._merge is None:
            self._credit = 0

    def _choose_merge(self) -> None:
        by_size = sorted(self._runs, key=len)
        for small, large in pairwise(by_size):
            if len(large) < 2 * len(small):
                self._merging = [small, large]
                self._merged = RunWriter(self._next_path("run-{}.keys"))
                self._merge = merge_runs(self._merging, self._merged, _MERGE_CHUNK)
                return

    def _next_path(self, pattern: str) -> Path:
        self._serial += 1
        return self._directory / pattern.format(self._serial - 1)

    def seal(self) -> tuple[SieveState, list[Path]]:
        """Return the state and the files that must be synced before it counts. Nothing may be pending."""
        assert not self._keys, "sift before sealing"
        self.roll_back_to_checkpoint()
        self._leftovers.seal()
        length = self._log.flush()
        unsynced, self._unsynced = self._unsynced, [self._log.path]
        runs = tuple(run.path.name for run in self._runs)
        state = SieveState(runs, self._log.path.name, self._logged, self._serial, self.seen, length)
        return state, unsynced

    def on_checkpoint_committed(self) -> None:
        self._leftovers.on_checkpoint_committed()

    def close(self) -> None:
        self._log.close()
        if self._merged is not None:
            self._merged.close_unfinished()


def has_key(directory: Path, state: SieveState, key: int) -> bool:
    """Whether `key` had been seen at that state; reads only, for readers beside a crawl."""
    wanted = np.array([key or 1], np.uint64)
    return any(bool((keys == wanted[0]).any()) for keys in logged_keys(directory, state)) or any(
        bool(run.contains_each(wanted)[0]) for run in open_runs(directory, state)
    )


def open_runs(directory: Path, state: SieveState) -> Iterator[SortedRun]:
    """Open every run, checking that it is complete; reads only."""
    return (SortedRun(directory / name, raw=state.has_no_checksums) for name in state.runs)


def logged_keys(directory: Path, state: SieveState) -> Iterator[Keys]:
    """Yield the keys of the log in batches, unsorted; reads only."""
    path = directory / state.log
    if not state.logged:
        return
    if state.has_no_checksums:
        try:
            keys = np.fromfile(path, np.uint64, state.logged)
        except FileNotFoundError:
            raise MissingFile(path) from None
        count = keys.size
        yield keys
    else:
        count = 0
        for offset, record in read_records(path, length=state.length):
            if len(record) % 8:
                raise DamagedFile(path, f"the record at byte {offset} holds no keys")
            keys = np.frombuffer(record, np.uint64)
            count += keys.size
            yield keys
    if count != state.logged:
        raise DamagedFile(path, f"{state.logged} keys were written and synced, {count} are there")
