"""List of pending calls of one kind."""

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
        """Take all and leave the list empty."""
        things, self._things = self._things, []
        return things

    def put_back(self, things: list[T]) -> None:
        """Put back calls that could not be delivered, before those added since."""
        self._things[:0] = things
