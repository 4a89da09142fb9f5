"""Which URLs are new: each comes out exactly once, in the order first seen.

A sieve remembers keys (64-bit hashes), not URLs. Offers are gathered and sifted
together, because looking up a thousand sorted keys on disk costs little more
than looking up one. `MemorySieve` is the reference; `DiskSieve` is what a crawl
uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")


class Sieve(Protocol[T]):
    """Offer as much as you like; what is new comes out of the next `sift`."""

    @property
    def seen(self) -> int:
        """Different keys that came out so far."""
        ...

    @property
    def pending(self) -> int:
        """Offers not sifted yet."""
        ...

    def offer(self, keys: Sequence[int], items: Sequence[T]) -> None: ...

    def sift(self) -> list[T]: ...


class MemorySieve(Generic[T]):
    """A set: for tests, for the lab, and as the oracle of the other."""

    def __init__(self) -> None:
        self._known: set[int] = set()
        self._offers: list[tuple[int, T]] = []

    @property
    def seen(self) -> int:
        return len(self._known)

    @property
    def pending(self) -> int:
        return len(self._offers)

    def offer(self, keys: Sequence[int], items: Sequence[T]) -> None:
        self._offers.extend(zip(keys, items, strict=True))

    def sift(self) -> list[T]:
        new: list[T] = []
        for key, item in self._offers:
            if key not in self._known:
                self._known.add(key)
                new.append(item)
        self._offers.clear()
        return new
