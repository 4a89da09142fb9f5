"""Shard that this process has locked and verified, before anything in it is changed."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import lmdb

from fieldmouse.errors import FieldmouseError, storing
from fieldmouse.indexer import archive, digest, index
from fieldmouse.indexer.copies import verify_log
from fieldmouse.indexer.guests import Guests
from fieldmouse.indexer.wire import IndexerConfig, ShardState
from fieldmouse.plugins.call import Onlooker

STORES = (lmdb.Error, ValueError)
"""Errors that lmdb and tantivy raise when the disk fails."""


class HeldShard:
    """A locked and verified shard. Nothing in it has been changed yet."""

    def __init__(
        self,
        directory: Path,
        number: int,
        config: IndexerConfig,
        state: ShardState,
        onlooker: Onlooker | None = None,
    ):
        """Raises `Damaged` if the shard cannot be restored to `state`, and `FieldmouseError` if a plug-in
        cannot be loaded."""
        self.guests = Guests(config.plugins, onlooker)
        with storing(directory):
            for folder in (directory / "archive", directory / "index"):
                folder.mkdir(parents=True, exist_ok=True)
            self.lock = os.open(directory / "index" / f"shard-{number}.lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            with storing(directory, *STORES):
                # The previous worker may still be exiting; two must not write at once.
                fcntl.flock(self.lock, fcntl.LOCK_EX)
                archive.verify(directory / "archive", number, state)
                index.verify(directory / "index", number, state)
                verify_log(directory / "index", number, state.copies)
                if state.batch:
                    digest.verify(directory / "archive")
        except FieldmouseError:
            self.close()
            raise

    def close(self) -> None:
        os.close(self.lock)
