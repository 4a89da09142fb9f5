"""Durable writes: files and directory entries that are on the disk when the call returns.

A file is safe when its content *and* its name are. The name belongs to the
directory and reaches the disk only when the directory is synced.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class FileSync:
    """Sync of files that never tries again after a failure.

    After an error the operating system may have dropped the unwritten data, and a
    second call would report success.
    """

    def __init__(self) -> None:
        self._trouble: OSError | None = None

    def sync(self, files: Iterable[Path], directory: Path | None = None) -> None:
        """Make the content of `files` durable, then the names in `directory`."""
        if self._trouble is not None:
            raise self._trouble
        try:
            for path in files:
                handle = os.open(path, os.O_RDONLY)
                try:
                    os.fdatasync(handle)
                finally:
                    os.close(handle)
            if directory is not None:
                sync_directory(directory)
        except OSError as trouble:
            self._trouble = trouble
            raise


def make_directory(path: Path) -> None:
    """Make a directory and all missing parents, with durable names."""
    missing = [path]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for directory in reversed(missing):
        directory.mkdir(exist_ok=True)
        # We may not be allowed to open a parent that belongs to another user; then its names are not ours to
        # sync.
        with suppress(PermissionError):
            sync_directory(directory.parent)


@contextmanager
def atomic_write(path: Path, suffix: str = ".new", mode: int | None = None) -> Iterator[BinaryIO]:
    """Write a file atomically: a reader or a crash sees the old or the new one, never a part.

    Inside the block the file has `suffix` at the end of its name; if the block fails, it is deleted.
    `mode` sets the permissions from the first byte on; None means the default of the system.
    """
    fresh = path.with_name(path.name + suffix)
    try:
        if mode is not None:
            fresh.unlink(missing_ok=True)  # a file left by a kill may be readable by others
        with open(
            fresh, "wb", buffering=1 << 20, opener=partial(os.open, mode=0o666 if mode is None else mode)
        ) as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            yield file
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except BaseException:
        with suppress(OSError):  # an error here would hide the first one
            fresh.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def write_atomically(path: Path, content: bytes, mode: int | None = None) -> None:
    """Replace a file atomically, as `atomic_write` does, by `content`."""
    with atomic_write(path, mode=mode) as file:
        file.write(content)
