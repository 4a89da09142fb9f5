"""Files and names that are on the disk when the call returns.

A file is safe when its content *and* its name are: the name belongs to the
directory, and reaches the disk when that is synced, not before.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable: a new file is not safe until its name is."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Syncing:
    """Waits for the disk, and never again once it has failed.

    After an error the system may have forgotten what it could not write. Asked a
    second time it would answer that all is well.
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
    """A directory, and every one above it that is missing, with durable names."""
    missing = [path]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for directory in reversed(missing):
        directory.mkdir(exist_ok=True)
        # Somebody else's directory may be closed to us; then its names are somebody else's care.
        with suppress(PermissionError):
            sync_directory(directory.parent)


@contextmanager
def whole(path: Path, suffix: str = ".new") -> Iterator[BinaryIO]:
    """Write a file so that a reader or a crash sees the old or the new one, never half.

    Until the block is left it has `suffix` at the end of its name; if the block fails, it is gone.
    """
    fresh = path.with_name(path.name + suffix)
    try:
        with fresh.open("wb", buffering=1 << 20) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except BaseException:
        with suppress(OSError):  # what went wrong is told; this would only hide it
            fresh.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file as `whole` does, with content that is at hand."""
    with whole(path) as file:
        file.write(content)
