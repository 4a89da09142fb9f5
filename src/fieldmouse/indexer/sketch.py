"""Similarity sketch: 64 bits of a text, of which similar texts differ in few.

The features of a text are its distinct *shingles*: four words in a row. The similarity of two texts is the
Jaccard index of their sets of shingles. Each shingle is hashed; the hashes fall into 64 bins by their
highest bits, and one bit of the least hash in each bin is kept (one permutation hashing, with one bit
each: Li and others, 2011 and 2012). If two texts share J of their shingles, a bit differs with probability
(1 - J) / 2. A bin without a hash borrows the next one's, mixed again.

Two texts are similar if their sketches differ in at most `reach` bits. With fewer words, fewer shingles
determine a bit and the distance is more random. So short texts must be closer, and a very short one has no
sketch. docs/duplicates.md has measurements on real pages.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

VERSION = 2  # of the features; sketches of different versions are not comparable
NEAR = 4  # bits, between texts of usual length
ENOUGH = 16  # texts with fewer words have no sketch

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
    """Return the maximum distance in bits of similar texts with this number of words."""
    return NEAR if words >= 128 else 2 if words >= 64 else 0


def sketch(text: str) -> tuple[int, int]:
    """Return the sketch of a text and its number of words; sketch 0 if it has too few words.

    >>> sketch("too short")
    (0, 2)
    """
    hashes, words = _shingles(text)
    return (0 if hashes is None else _mark(hashes)), words


def _shingles(text: str) -> tuple[_Hashes | None, int]:
    """Return the hash of every four words in a row, and the number of words."""
    if not text.isascii():  # spaces in common use outside ASCII
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
    # Of a word its first sixteen bytes and its last eight are hashed, which is all of most words. By index:
    # `take` would first copy all of them, eight times the text.
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
    least = hashes.take(hashes.searchsorted(_EDGES), mode="wrap")  # the last hash is followed by the first
    own = least >> _S58 == _BINS
    bits = least >> _KEPT
    if b"\0" in own.tobytes():
        bits = np.where(own, bits, (least ^ _BINS * _C2) * _C3 >> _MIXED)
    return int.from_bytes(np.packbits((bits & _ONE).astype(np.bool_)).tobytes(), "big")
