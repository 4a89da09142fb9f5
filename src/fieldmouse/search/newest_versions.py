"""Version table: the newest stored version of each page that was fetched more than once.

Documents are never changed in place, and a finished generation is not rewritten when one
of its pages is fetched again. Instead, each shard logs the pages that it fetched again:
the key, and the batch of the newest version, or that the page no longer exists. A document
older than its key's entry is *masked*: search skips it, and it is deleted later, together
with many others (`search/replaced_documents.py`). Pages fetched once have no entry and cost nothing here.

The logs are authoritative. They are part of the checkpoint like all files of a shard, so an
uncommitted entry is truncated and the older version counts again; the older one is never
deleted before the journal holds the new one. Committed entries are copied to a table by key
(LMDB) that all shards share and search reads. The table is derived from the logs and is
rebuilt from them if it is lost.

A *stand* is a version number: batch, shard, and whether the page exists, in one integer. All
shards count batches together, so the greater of two version numbers is the newer. If two
shards store the same page between the same two checkpoints, the shard number decides, which
is arbitrary.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import lmdb
import numpy as np
from numpy.typing import NDArray

from fieldmouse.errors import DamagedFile
from fieldmouse.storage.log import Log, read_records, sync_directory

VERSION_TABLE = "copies.lmdb"
_MAP_SIZE = 64 << 30  # address space, not memory
_SHARD_BITS = 16  # bits
_ENTRY = np.dtype([("key", "<u8"), ("stand", "<u8")])

Uint64Array = NDArray[np.uint64]


def version_number(batch: int, shard: int, *, present: bool = True) -> int:
    """
    >>> version_number(7, 0) < version_number(7, 1, present=False) < version_number(7, 1)
    True
    >>> version_number(7, 1) < version_number(8, 0, present=False)
    True
    """
    return (batch << _SHARD_BITS | shard) << 1 | present


def version_log_path(directory: Path, shard: int) -> Path:
    return directory / f"shard-{shard}.copies"


class VersionLog:
    """Log of the pages that one shard fetched again. The file is created with the first entry."""

    def __init__(self, directory: Path, shard: int, length: int):
        """Truncate the log to `length` and continue there."""
        self._directory = directory
        self._log = Log(version_log_path(directory, shard), length)
        self._exists = self._log.path.exists()
        if self._exists:
            self._log.roll_back_to_checkpoint()
        self._noted: dict[int, int] = {}

    def set_newest_version(self, key: int, place: int) -> None:
        """Make `place` the newest version of the page from the next checkpoint on."""
        self._noted[key] = place

    def make_durable(self) -> int:
        """Make the noted entries durable and return the committed length."""
        if self._noted:
            self._log.append(np.array(list(self._noted.items()), "<u8").tobytes())
            self._noted.clear()
            self._log.flush()
            self._log.sync()
            if not self._exists:
                self._exists = True
                sync_directory(self._directory)
        return self._log.length

    def close(self) -> None:
        self._noted.clear()
        self._log.close()


class VersionTable:
    """The shared version table, as a shard uses it: entries are written once they are committed."""

    def __init__(self, directory: Path, shard: int):
        self._directory, self._shard = directory, shard
        self._env: lmdb.Environment | None = None

    def _open(self) -> lmdb.Environment:
        if self._env is None:
            path = str(self._directory / VERSION_TABLE)
            self._env = lmdb.open(path, map_size=_MAP_SIZE, subdir=False, readahead=False, max_readers=256)
            self._env.reader_check()  # killed readers keep old pages locked
            self._env.sync(True)  # an incomplete new file could not be opened after a power failure
            sync_directory(self._directory)
        return self._env

    def apply_log(self, length: int) -> int:
        """Apply the entries of our log up to the committed `length`; return the number of new entries."""
        if not length and self._env is None and not (self._directory / VERSION_TABLE).exists():
            return 0  # no page was ever fetched again
        with self._open().begin(write=True) as txn:
            applied = _applied_length(txn, self._shard)
            if applied > length:
                # The journal lost its newest record and the log went back: rebuild from committed entries.
                self._rebuild_from_other_shards(txn)
                applied = 0
            return self._replay_log(txn, self._shard, applied, length)

    def _replay_log(self, txn: lmdb.Transaction, shard: int, start: int, length: int) -> int:
        count = 0
        if start < length:
            for entries in _entries(version_log_path(self._directory, shard), start, length):
                for key, place in entries.tolist():
                    raw_key = _key_bytes(key)
                    if _to_int(txn.get(raw_key)) < place:
                        txn.put(raw_key, place.to_bytes(8, "big"))
                    count += 1
            txn.put(_length_key(shard), length.to_bytes(8, "big"))
        return count

    def _rebuild_from_other_shards(self, txn: lmdb.Transaction) -> None:
        marks = [(mark, _to_int(value)) for mark, value in txn.cursor() if len(mark) == len(_length_key(0))]
        txn.drop(self._open().open_db(txn=txn), delete=False)
        for mark, length in marks:
            shard = int.from_bytes(mark, "big")
            if shard != self._shard:
                self._replay_log(txn, shard, 0, length)

    def newest_versions(self, keys: Iterable[int]) -> Uint64Array:
        """The newest version number of each page, 0 for pages that were fetched once."""
        with self._open().begin() as txn:
            return _stored_versions(txn, keys)

    def close(self) -> None:
        if self._env is not None:
            self._env.close()
            self._env = None

    @staticmethod
    def delete_unusable_table(directory: Path, lengths: Iterable[int]) -> None:
        """Delete a table that is unreadable or ahead of the committed logs, before any process opens it."""
        env = _open_readonly(directory)
        fits = env is not None
        if env is not None:
            with env, env.begin() as txn:
                fits = all(_applied_length(txn, shard) <= length for shard, length in enumerate(lengths))
        if not fits:
            VersionTable.delete_files(directory)

    @staticmethod
    def delete_files(directory: Path) -> None:
        """Delete the table, which can be rebuilt from the logs. No process may have it open."""
        for name in (VERSION_TABLE, VERSION_TABLE + "-lock"):
            (directory / name).unlink(missing_ok=True)


class VersionView:
    """Read-only view of the table and the log entries after it; open it before the index."""

    def __init__(self, directory: Path):
        logs = sorted(directory.glob("shard-*.copies"))
        self._env = _open_readonly(directory) if logs else None
        starts = dict.fromkeys(logs, 0)
        if self._env is not None:
            with self._env.begin() as txn:
                starts = {log: _applied_length(txn, int(log.stem.partition("-")[2])) for log in logs}
        self._tail = newest_by_key(entries for log in logs for entries in _entries(log, starts[log], None))
        self.has_entries = self._env is not None or bool(len(self._tail[0]))

    def newest_versions(self, keys: Iterable[int]) -> Uint64Array:
        """The newest version number of each page, 0 for pages that were fetched once."""
        keys = np.array(list(keys), np.uint64)
        newest = np.zeros(len(keys), np.uint64)
        if self._env is not None:
            with self._env.begin() as txn:
                newest = _stored_versions(txn, keys.tolist())
        return np.maximum(newest, look_up_versions(keys, self._tail))

    def close(self) -> None:
        if self._env is not None:
            self._env.close()
            self._env = None


def verify_version_log(directory: Path, shard: int, length: int) -> None:
    """Raise `DamagedFile` unless a shard's log is valid up to `length`; changes nothing."""
    for _ in _entries(version_log_path(directory, shard), 0, length):
        pass


def read_version_logs(directory: Path, lengths: Iterable[int]) -> tuple[Uint64Array, Uint64Array]:
    """Sorted keys of the log entries up to `lengths`, and the newest version number of each.

    Raises `DamagedFile` if a log is not valid up to its length.
    """
    return newest_by_key(
        entries
        for shard, length in enumerate(lengths)
        for entries in _entries(version_log_path(directory, shard), 0, length)
    )


def all_log_entries(directory: Path) -> Iterator[NDArray[np.void]]:
    """All complete entries of all logs, including uncommitted ones."""
    for log in sorted(directory.glob("shard-*.copies")):
        yield from _entries(log, 0, None)


def newest_by_key(read: Iterable[NDArray[np.void]]) -> tuple[Uint64Array, Uint64Array]:
    """The sorted unique keys, and the greatest version number of each."""
    parts = list(read)
    entries = np.concatenate(parts) if parts else np.zeros(0, _ENTRY)
    entries = entries[np.lexsort((entries["stand"], entries["key"]))]
    last = np.append(entries["key"][1:] != entries["key"][:-1], True)[: len(entries)]
    return entries["key"][last].astype(np.uint64), entries["stand"][last].astype(np.uint64)


def look_up_versions(keys: Uint64Array, known: tuple[Uint64Array, Uint64Array]) -> Uint64Array:
    """The version number of each key, 0 if it is not in `known`."""
    if not len(known[0]):
        return np.zeros(len(keys), np.uint64)
    at = np.minimum(np.searchsorted(known[0], keys), len(known[0]) - 1)
    return np.where(known[0][at] == keys, known[1][at], np.uint64(0))


def version_numbers(batches: Iterable[int], shard: int) -> Uint64Array:
    """The version numbers of a shard's documents, given their batches."""
    return np.array([version_number(batch, shard) for batch in batches], np.uint64)


def _entries(path: Path, start: int, length: int | None) -> Iterator[NDArray[np.void]]:
    """Entries from `start` to `length`; without `length`, up to the last complete one."""
    for offset, record in read_records(path, start=start, length=length):
        if len(record) % _ENTRY.itemsize:
            raise DamagedFile(path, f"the record at byte {offset} cannot be decoded")
        yield np.frombuffer(record, _ENTRY)


def _open_readonly(directory: Path) -> lmdb.Environment | None:
    """The table, or None if it is missing, unreadable or truncated (a map beyond the file's end kills its
    reader)."""
    path = directory / VERSION_TABLE
    with suppress(lmdb.Error, OSError):
        if path.stat().st_size:
            # The same map size as its writers: the file grows while we read, and a smaller map would not
            # follow.
            lock = os.access(directory, os.W_OK)
            env = lmdb.open(str(path), map_size=_MAP_SIZE, subdir=False, readonly=True, max_readers=256, lock=lock)
            if (env.info()["last_pgno"] + 1) * env.stat()["psize"] <= path.stat().st_size:
                return env
            env.close()
    return None


def _stored_versions(txn: lmdb.Transaction, keys: Iterable[int]) -> Uint64Array:
    return np.array([_to_int(txn.get(_key_bytes(key))) for key in keys], np.uint64)


def _key_bytes(key: int) -> bytes:
    return key.to_bytes(8, "big")


def _length_key(shard: int) -> bytes:
    """The key under which the table stores the applied length of a shard's log."""
    return shard.to_bytes(2, "big")


def _applied_length(txn: lmdb.Transaction, shard: int) -> int:
    return _to_int(txn.get(_length_key(shard)))


def _to_int(raw: bytes | memoryview | None) -> int:
    return int.from_bytes(raw, "big") if raw is not None else 0
