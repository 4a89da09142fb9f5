"""Stack of open resources that are closed together, also after an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Protocol, TypeVar


class Closeable(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=Closeable)


class OpenedParts:
    """Closes its resources in reverse order."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def keep(self, thing: C) -> C:
        self._stack.callback(thing.close)
        return thing

    def close(self) -> None:
        """Close all, ignoring `OSError`: a failed disk may fail again, and the checkpoint is safe."""
        with suppress(OSError):
            self._stack.close()

    @contextmanager
    def closed_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise
