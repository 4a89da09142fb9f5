"""Things of one kind that wait for a messenger."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Tray(Generic[T]):
    def __init__(self) -> None:
        self._things: list[T] = []

    def __len__(self) -> int:
        return len(self._things)

    def __iter__(self) -> Iterator[T]:
        return iter(self._things)

    def put(self, thing: T) -> None:
        self._things.append(thing)

    def take(self) -> list[T]:
        """All of them; the tray is empty."""
        things, self._things = self._things, []
        return things

    def put_back(self, things: list[T]) -> None:
        """They could not be brought: they go before those that came meanwhile."""
        self._things[:0] = things
