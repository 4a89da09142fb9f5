"""What is open and must be closed, whoever fails in between."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from typing import Protocol, TypeVar


class Closeable(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=Closeable)


class OpenedParts:
    """Closed in the reverse order."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def keep(self, thing: C) -> C:
        self._stack.callback(thing.close)
        return thing

    def close(self) -> None:
        """A disk that refused before may refuse again: what counts is safe already."""
        with suppress(OSError):
            self._stack.close()
