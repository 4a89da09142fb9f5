"""Files that a command writes for its user: whole or not at all, and a sentence if they cannot be written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from fieldmouse.crawldir.durable import whole
from fieldmouse.errors import FieldmouseError


@contextmanager
def written(path: Path) -> Iterator[BinaryIO]:
    """The file `path` will be: its name appears when the block is left, and what went wrong leaves nothing.

    What is there already and no file (a pipe, a device) is written to as it is.
    """
    try:
        with path.open("wb") if path.exists() and not path.is_file() else whole(path, ".part") as file:
            yield file
    except OSError as trouble:
        raise FieldmouseError(
            f"cannot write `{path}`: {trouble.strerror}", "choose another place"
        ) from trouble


def write(path: Path, content: bytes, *, parents: bool = False) -> None:
    """As `written`, of content that is at hand; with `parents` in a directory that is made if need be."""
    with suppress(OSError):  # then the file cannot be written either, and that is told
        if parents:
            path.parent.mkdir(parents=True, exist_ok=True)
    with written(path) as file:
        file.write(content)
