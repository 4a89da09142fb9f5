"""Output files of commands: written completely or not at all, with a clear error if that fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from fieldmouse.errors import FieldmouseError
from fieldmouse.storage.log import atomic_write


@contextmanager
def open_output(path: Path) -> Iterator[BinaryIO]:
    """Open `path` for writing; the file appears when the block ends, and an exception leaves no file.

    An existing path that is no regular file (a pipe, a device) is written directly.
    """
    try:
        with path.open("wb") if path.exists() and not path.is_file() else atomic_write(path, ".part") as file:
            yield file
    except OSError as trouble:
        raise FieldmouseError(f"cannot write `{path}`: {trouble.strerror}", "choose another path") from trouble


def write_output(path: Path, content: bytes, *, parents: bool = False) -> None:
    """Write `content` as `open_output` does; with `parents`, make missing directories."""
    with suppress(OSError):  # writing the file then fails, too, and reports the error
        if parents:
            path.parent.mkdir(parents=True, exist_ok=True)
    with open_output(path) as file:
        file.write(content)
