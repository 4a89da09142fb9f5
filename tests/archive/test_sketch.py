"""Tests of the sketch against its definition, and against the share of common shingles."""

from __future__ import annotations

import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.archive.duplicate_detection import MIN_WORDS, NEAR_BITS, compute_sketch

ALL = (1 << 64) - 1
C1, C2, C3, C4 = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5


def mixed(x: int, factor: int, shift: int) -> int:
    x = x * factor & ALL
    return x ^ x >> shift


def number(piece: bytes) -> int:
    return int.from_bytes(piece, "little")


def word_hash(word: bytes) -> int:
    x = mixed(number(word[:8]), C1, 29)
    x = mixed(x + number(word[8:16]), C2, 29)
    return mixed(x + number(word[-8:]), C3, 32)


def by_definition(text: str) -> tuple[int, int]:
    """Compute the sketch slowly, from its description alone."""
    raw = text.replace("\xa0", " ").replace("\u3000", " ").encode("utf-8", "replace")
    words = [word_hash(found[0]) for found in re.finditer(rb"[^\x00-\x20]+", raw)]
    if len(words) < MIN_WORDS:
        return 0, len(words)
    hashes = set()
    for a, b, c, d in zip(words, words[1:], words[2:], words[3:], strict=False):
        x = a * C1 + b * C2 + c * C3 + d * C4 & ALL
        hashes.add(mixed(x ^ x >> 29, C3, 32))
    mark = 0
    for place in range(64):
        own = [x for x in hashes if x >> 58 == place]
        if own:
            bit = min(own) >> 7 & 1
        else:
            beyond = [x for x in hashes if x >> 58 > place]
            borrowed = min(beyond or hashes) ^ place * C2 & ALL
            bit = (borrowed * C3 & ALL) >> 40 & 1
        mark = mark << 1 | bit
    return mark, len(words)


@given(st.text("abcdefgh éx\n\t\xa0\u3000", max_size=400) | st.text(max_size=80))
def test_sketch_follows_its_definition(text: str) -> None:
    assert compute_sketch(text) == by_definition(text)


@given(st.integers(0, 2**32))
def test_repetitions_and_spacing_do_not_matter(seed: int) -> None:
    chance = Random(seed)
    words = ["".join(chance.choices("abcdefgh", k=chance.randint(1, 30))) for _ in range(50)]
    once = compute_sketch(" ".join(words + words))[0]
    assert compute_sketch("\n\n".join(words + words + words))[0] == once
    assert compute_sketch("\xa0 ".join(words + words))[0] == once


def distance(length: int, changed: int, chance: Random) -> int:
    """Return the bits between a text and one that differs in at most every fourth shingle, on average J
    apart."""
    words = ["".join(chance.choices("abcdefghijklmnop", k=7)) for _ in range(length)]
    other = list(words)
    for at in chance.sample(range(length), changed):
        other[at] = "".join(chance.choices("qrstuvwxyz", k=7))
    return (compute_sketch(" ".join(words))[0] ^ compute_sketch(" ".join(other))[0]).bit_count()


@pytest.mark.parametrize(("length", "changed"), [(1000, 10), (1000, 100), (400, 4), (400, 20)])
def test_bits_differ_with_the_predicted_probability(length: int, changed: int) -> None:
    """A bit differs with probability (1 - J) / 2; a changed word changes four shingles of each text."""
    chance = Random(20)
    rounds = 60
    gone = 4 * changed * (1 - 1.5 * changed / length)  # some changed words share shingles
    jaccard = (length - gone) / (length + gone)
    mean = sum(distance(length, changed, chance) for _ in range(rounds)) / rounds
    expected = 64 * (1 - jaccard) / 2
    assert mean == pytest.approx(expected, abs=4 * (expected / rounds) ** 0.5 + 0.1 * expected)


def test_different_texts_are_far_apart() -> None:
    chance = Random(3)
    marks = [compute_sketch(" ".join(str(chance.randrange(10**6)) for _ in range(200)))[0] for _ in range(200)]
    nearest = min((a ^ b).bit_count() for i, a in enumerate(marks) for b in marks[:i])
    assert nearest > NEAR_BITS + 4


def test_long_words_with_equal_ends_differ() -> None:
    def page(name: str) -> int:
        return compute_sketch(" ".join(f"{name}_{n} is documented under {name} here" for n in range(30)))[0]

    assert (page("CMAKE_VS_SDK_LIBRARY_DIRECTORIES") ^ page("CMAKE_VS_SDK_EXCLUDE_DIRECTORIES")).bit_count() > 16
