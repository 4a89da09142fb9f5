"""A text in 64 bits, so that texts which share most of their words differ in few of them.

The features of a text are its distinct *shingles*: four words in a row. How much two
texts share is the Jaccard index of their sets of shingles. Each shingle is hashed;
the hashes fall into 64 bins by their highest bits, and of the least hash in each bin
one bit is kept (one permutation hashing, with one bit each: Li and others, 2011 and
2012). Where two texts agree in a share J of their shingles a bit differs with
probability (1 - J) / 2. A bin without a hash borrows the next one's, mixed anew.

Two texts are near each other if their marks differ in at most `reach` bits. The fewer
words, the fewer shingles stand behind a bit and the more the distance is left to chance,
so a short text must come nearer, and a very short one has no mark at all.
docs/duplicates.md says how well that does on real pages.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

VERSION = 2  # of the features: marks of another version say nothing about these
NEAR = 4  # bits, between texts of usual length
ENOUGH = 16  # words below which a mark says nothing

_Hashes = NDArray[np.uint64]

_C1, _C2, _C3, _C4 = (
    np.uint64(factor)
    for factor in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5)
)
_S29, _S32, _S58 = np.uint64(29), np.uint64(32), np.uint64(58)
_KEPT, _MIXED, _ONE = np.uint64(7), np.uint64(40), np.uint64(1)
_FIRST_BYTES = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)
_BINS = np.arange(64, dtype=np.uint64)
_EDGES = _BINS << _S58
_BEFORE, _BEHIND = b" " * 8, b" " * 16


def reach(words: int) -> int:
    """In how many bits the marks of near texts may differ, one of which has so many words."""
    return NEAR if words >= 128 else 2 if words >= 64 else 0


def sketch(text: str) -> tuple[int, int]:
    """The mark of a text and its number of words; mark 0 when there are too few words to tell.

    >>> sketch("too short")
    (0, 2)
    """
    hashes, words = _shingles(text)
    return (0 if hashes is None else _mark(hashes)), words


def _shingles(text: str) -> tuple[_Hashes | None, int]:
    """The hash of every four words in a row, and the number of words."""
    if not text.isascii():  # the spaces that people use, besides those of ASCII
        text = text.replace("\xa0", " ").replace("\u3000", " ")
    raw = text.encode("utf-8", "replace")
    size = len(raw)
    padded = _BEFORE + raw + _BEHIND
    blank = np.frombuffer(padded, np.uint8) <= 32
    edges = (blank[: size + 8] != blank[1 : size + 9]).nonzero()[0] + 1
    starts, ends = edges[0::2], edges[1::2]
    words = len(starts)
    if words < ENOUGH:
        return None, words
    # Of a word: its first sixteen bytes and its last eight, which is all of it but for monsters.
    # By index: `take` would first make a copy of all of them, eight times the text.
    eight: _Hashes = np.ndarray((size + 16,), "<u8", padded, strides=(1,))
    length = ends - starts
    inside = _FIRST_BYTES.take(length, mode="clip")
    word = (eight[starts] & inside) * _C1
    word ^= word >> _S29
    word += eight[starts + 8] & _FIRST_BYTES.take(length - 8, mode="clip")
    word *= _C2
    word ^= word >> _S29
    word += eight[np.maximum(ends - 8, starts)] & inside
    word *= _C3
    word ^= word >> _S32
    shingle: _Hashes = word[:-3] * _C1
    shingle += word[1:-2] * _C2
    shingle += word[2:-1] * _C3
    shingle += word[3:] * _C4
    shingle ^= shingle >> _S29
    shingle *= _C3
    shingle ^= shingle >> _S32
    return shingle, words


def _mark(hashes: _Hashes) -> int:
    hashes.sort()
    least = hashes.take(hashes.searchsorted(_EDGES), mode="wrap")  # behind the last hash comes the first
    own = least >> _S58 == _BINS
    bits = least >> _KEPT
    if b"\0" in own.tobytes():
        bits = np.where(own, bits, (least ^ _BINS * _C2) * _C3 >> _MIXED)
    return int.from_bytes(np.packbits((bits & _ONE).astype(np.bool_)).tobytes(), "big")
