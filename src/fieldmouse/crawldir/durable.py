"""Files and names that are on the disk when the call returns.

A file is safe when its content *and* its name are: the name belongs to the
directory, and reaches the disk when that is synced, not before.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
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
def whole(path: Path, suffix: str = ".new", mode: int | None = None) -> Iterator[BinaryIO]:
    """Write a file so that a reader or a crash sees the old or the new one, never half.

    Until the block is left it has `suffix` at the end of its name; if the block fails, it is gone.
    `mode` is who may read and write it, from its first byte on; None is what the system gives a new file.
    """
    fresh = path.with_name(path.name + suffix)
    try:
        if mode is not None:
            fresh.unlink(missing_ok=True)  # one that a kill left may be open to others
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
        with suppress(OSError):  # what went wrong is told; this would only hide it
            fresh.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def write_whole(path: Path, content: bytes, mode: int | None = None) -> None:
    """Replace a file as `whole` does, with content that is at hand."""
    with whole(path, mode=mode) as file:
        file.write(content)
