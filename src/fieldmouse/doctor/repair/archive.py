"""Rebuild of CDXJ lines and digests from the WARC files."""

from __future__ import annotations

import os
import re
from base64 import b32decode
from collections.abc import Sequence
from pathlib import Path

import lmdb

from fieldmouse.archive import cdxj
from fieldmouse.archive.audit import intact_responses, log_lines
from fieldmouse.archive.dedup import payload_digest
from fieldmouse.archive.warc_writer import cdxj_log_path
from fieldmouse.errors import CrawlDirError
from fieldmouse.storage.fsync import atomic_write, sync_directory
from fieldmouse.storage.shard_state import ShardState

_is_robots_txt = re.compile(r"https?://[^/]+/robots\.txt\Z").match
_EMPTY = payload_digest(b"")
_BATCH = 10_000  # digests per transaction


def rebuild_cdxj_log(directory: Path, shard: int, state: ShardState) -> int:
    """Rewrite the CDXJ log of a shard, byte for byte as at the checkpoint; return the number of lines."""
    path = cdxj_log_path(directory, shard)
    count = length = 0
    with atomic_write(path, ".fresh") as file:
        for _, line, _ in intact_responses(directory, shard, state):
            count, length = count + 1, length + file.write(line)
        if length != state.cdxj_length:
            raise CrawlDirError(
                f"`{path}` cannot be rebuilt: it had {state.cdxj_length} bytes,"
                f" the WARC files yield {length}",
                "restore it from a copy of the directory",
            )
    return count


def rebuild_digest_store(directory: Path, states: Sequence[ShardState]) -> int:
    """Rebuild the digest store from the CDXJ logs; return the number of digests."""
    path = directory / "digests.lmdb"
    fresh = path.with_name(path.name + ".fresh")
    fresh.unlink(missing_ok=True)
    with lmdb.open(str(fresh), subdir=False, map_size=64 << 30) as store:
        entries: list[tuple[bytes, bytes]] = []
        for shard, state in enumerate(states):
            at = 0
            for line in log_lines(cdxj_log_path(directory, shard), state.cdxj_length):
                place, at = shard << 48 | at, at + len(line)
                _, entry = cdxj.parse_line(line)
                digest = b32decode(entry.digest)
                # The store holds pages with a non-empty body only.
                page = entry.status.startswith("2") and not _is_robots_txt(entry.url)
                if page and entry.mime != cdxj.REVISIT and digest != _EMPTY:
                    entries.append((digest, place.to_bytes(8, "little")))
                if len(entries) >= _BATCH:
                    _put(store, entries)
        _put(store, entries)
        count: int = store.stat()["entries"]
        store.sync(True)
    os.replace(fresh, path)
    fresh.with_name(fresh.name + "-lock").unlink(missing_ok=True)
    sync_directory(directory)
    return count


def _put(store: lmdb.Environment, entries: list[tuple[bytes, bytes]]) -> None:
    with store.begin(write=True) as writing:
        for digest, place in sorted(entries):
            writing.put(digest, place, overwrite=False)
    entries.clear()
