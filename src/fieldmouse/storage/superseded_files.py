"""Deferred deletion of files that the last checkpoint may still name.

A kill brings back the last committed state, and with it every file it names. So
a superseded file is deleted only when a state sealed after it was superseded has been
committed.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


class SupersededFiles:
    """Superseded paths: first pending, then sealed without them, then deleted."""

    def __init__(self) -> None:
        self._superseded: list[Path] = []
        self._sealed: list[Path] = []

    def add(self, paths: Iterable[Path]) -> None:
        self._superseded.extend(paths)

    def seal(self) -> None:
        self._sealed.extend(self._superseded)
        self._superseded.clear()

    def committed(self) -> None:
        for path in self._sealed:
            path.unlink(missing_ok=True)
        self._sealed.clear()


def delete_unnamed(directory: Path, pattern: str, keep: Iterable[str]) -> None:
    """Delete files left by a kill that no checkpoint ever named."""
    kept = set(keep)
    for path in directory.glob(pattern):
        if path.name not in kept:
            path.unlink()
