"""Contract of the sieve, run for each implementation."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldmouse.frontier.seen.sieve import DiskSieve

T = TypeVar("T")


class Sieve(Protocol[T]):
    """Offer as much as you like; what is new comes out of the next `sift`."""

    @property
    def seen(self) -> int:
        """Different keys that came out so far."""
        ...

    @property
    def pending_offers(self) -> int:
        """Offers not sifted yet."""
        ...

    def offer(self, keys: Sequence[int], items: Sequence[T]) -> None: ...

    def sift(self) -> list[T]: ...


class MemorySieve(Generic[T]):
    """Reference implementation: a set."""

    def __init__(self) -> None:
        self._known: set[int] = set()
        self._offers: list[tuple[int, T]] = []

    @property
    def seen(self) -> int:
        return len(self._known)

    @property
    def pending_offers(self) -> int:
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


@contextmanager
def memory() -> Iterator[Sieve[int]]:
    yield MemorySieve()


@contextmanager
def disk() -> Iterator[Sieve[int]]:
    with tempfile.TemporaryDirectory() as directory:
        yield DiskSieve(Path(directory), run_size=64)


every_sieve = pytest.mark.parametrize("make", [memory, disk])
Make = Callable[[], Iterator[Sieve[int]]]

# Few keys, so that they repeat, and the ends of the range; zero is special inside.
keys = st.one_of(st.integers(1, 400), st.integers(2**64 - 50, 2**64 - 1), st.integers(2**32, 2**64 - 1))
batches = st.lists(st.lists(keys, max_size=120), max_size=12)


@every_sieve
@settings(max_examples=60, deadline=None)
@given(batches)
def test_each_key_is_returned_once_in_the_order_first_seen(make: Make, batches: list[list[int]]) -> None:
    with make() as sieve:
        known: set[int] = set()
        number = 0
        for batch in batches:
            items = list(range(number, number + len(batch)))
            number += len(batch)
            sieve.offer(batch, items)
            assert sieve.pending_offers == len(batch)
            expected = []
            for key, item in zip(batch, items, strict=True):
                if key not in known:
                    known.add(key)
                    expected.append(item)
            assert sieve.sift() == expected
            assert sieve.pending_offers == 0
            assert sieve.seen == len(known)


@every_sieve
def test_offers_are_collected_until_they_are_sifted(make: Make) -> None:
    with make() as sieve:
        sieve.offer([5, 6], [1, 2])
        sieve.offer([6, 7], [3, 4])
        assert sieve.pending_offers == 4
        assert sieve.sift() == [1, 2, 4]
        assert sieve.sift() == []


@every_sieve
def test_key_zero_is_an_ordinary_key(make: Make) -> None:
    with make() as sieve:
        sieve.offer([0, 9, 0], [1, 2, 3])
        assert sieve.sift() == [1, 2]
        sieve.offer([0], [4])
        assert sieve.sift() == []
