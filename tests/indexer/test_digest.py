"""Digests: the simhash against its definition, and doubles that are found again."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.indexer.digest import Doubles, payload_digest, simhash, written

ALL = (1 << 64) - 1


def by_definition(text: bytes) -> tuple[int, int]:
    """The simhash computed slowly, from its description alone."""
    counts, words = [0] * 64, 0
    for found in re.finditer(rb"(?<![^\x00-\x20])[^\x00-\x20]", text):
        words += 1
        x = int.from_bytes((text + b" " * 8)[found.start() : found.start() + 8], "little")
        for factor in (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93):
            x = x * factor & ALL
            x ^= x >> 32
        for bit in range(64):
            counts[bit] += x >> bit & 1
    if words < 8:
        return 0, words
    return sum(1 << bit for bit in range(64) if counts[bit] > words // 2), words


@given(st.text("abc éx\n\t", max_size=300) | st.text(max_size=80))
def test_the_simhash_is_what_it_says(text: str) -> None:
    raw = text.encode("utf-8", "replace")
    assert simhash(raw) == by_definition(raw)


def test_a_long_text_carries_nothing_over() -> None:
    raw = b"same words again " * 2000
    assert simhash(raw) == by_definition(raw)


@given(st.integers(0, 2**32), st.integers(0, 299))
def test_one_changed_word_moves_few_bits(seed: int, at: int) -> None:
    chance = Random(seed)
    words = ["".join(chance.choices("abcdefgh", k=6)) for _ in range(300)]
    before = simhash(" ".join(words).encode())[0]
    words[at] = "changed"
    after = simhash(" ".join(words).encode())[0]
    assert (before ^ after).bit_count() <= 20  # half of all bits would be 32


@given(st.binary(max_size=100))
def test_digests_are_written_as_warc_has_them(payload: bytes) -> None:
    assert (
        written(payload_digest(payload))
        == "sha1:" + base64.b32encode(hashlib.sha1(payload).digest()).decode()
    )


def test_a_double_is_known_within_its_batch_and_for_good_once_it_counts(tmp_path: Path) -> None:
    doubles = Doubles(tmp_path)
    counts, undone = payload_digest(b"counts"), payload_digest(b"undone")
    doubles.note(1, counts, 0xABCDEF, 77)
    assert doubles.same(counts) == 77
    doubles.committed(1)
    doubles.note(2, undone, 0xFEDCBA, 78)
    assert doubles.same(undone) == 78
    doubles.close()
    again = Doubles(tmp_path)
    assert again.same(counts) == 77
    assert again.same(undone) is None
    again.close()


def test_the_first_of_several_doubles_is_the_one_named(tmp_path: Path) -> None:
    doubles = Doubles(tmp_path)
    digest = payload_digest(b"x")
    doubles.note(1, digest, 1, 10)
    doubles.note(1, digest, 1, 20)
    doubles.committed(1)
    doubles.note(2, digest, 1, 30)
    assert doubles.same(digest) in (10, 30)
    doubles.committed(2)
    assert doubles.same(digest) == 10
    doubles.close()


def test_neighbours_are_found_up_to_three_bits_away(tmp_path: Path) -> None:
    doubles = Doubles(tmp_path)
    mark = 0x0123456789ABCDEF
    doubles.note(1, b"d" * 20, mark, 5)
    assert doubles.near(mark) is None
    doubles.committed(1)
    assert doubles.near(mark) == 5
    assert doubles.near(mark ^ (1 << 3 | 1 << 20 | 1 << 40)) == 5
    assert doubles.near(mark ^ (1 << 3 | 1 << 4 | 1 << 5 | 1 << 6)) is None
    assert doubles.near(0) is None
    doubles.close()
