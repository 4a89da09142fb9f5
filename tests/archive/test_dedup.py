"""Tests of digests and of duplicate detection."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.archive.duplicate_detection import DigestStore, format_digest, payload_digest, verify_digests
from fieldmouse.errors import DamagedFile


@given(st.binary(max_size=100))
def test_digests_have_the_notation_of_warc(payload: bytes) -> None:
    assert format_digest(payload_digest(payload)) == "sha1:" + base64.b32encode(hashlib.sha1(payload).digest()).decode()


def test_duplicate_is_found_within_its_batch_and_after_the_commit(tmp_path: Path) -> None:
    doubles = DigestStore(tmp_path)
    counts, undone = payload_digest(b"counts"), payload_digest(b"undone")
    doubles.remember_page(1, counts, 0xABCDEF, 77)
    assert doubles.find_exact(counts) == 77
    doubles.write_committed(1)
    doubles.remember_page(2, undone, 0xFEDCBA, 78)
    assert doubles.find_exact(undone) == 78
    doubles.close()
    again = DigestStore(tmp_path)
    assert again.find_exact(counts) == 77
    assert again.find_exact(undone) is None
    again.close()


def test_first_of_several_duplicates_is_returned(tmp_path: Path) -> None:
    doubles = DigestStore(tmp_path)
    digest = payload_digest(b"x")
    doubles.remember_page(1, digest, 1, 10)
    doubles.remember_page(1, digest, 1, 20)
    doubles.write_committed(1)
    doubles.remember_page(2, digest, 1, 30)
    assert doubles.find_exact(digest) in (10, 30)
    doubles.write_committed(2)
    assert doubles.find_exact(digest) == 10
    doubles.close()


def test_near_duplicates_are_found_within_the_distance_before_and_after_commit(tmp_path: Path) -> None:
    doubles = DigestStore(tmp_path)
    mark = 0x0123456789ABCDEF
    doubles.remember_page(1, b"d" * 20, mark, 5)
    for _ in range(2):
        assert doubles.find_similar(mark, 0) == 5
        assert doubles.find_similar(mark ^ (1 << 3 | 1 << 20 | 1 << 40), 3) == 5
        assert doubles.find_similar(mark ^ (1 << 3 | 1 << 20 | 1 << 40), 2) is None
        assert doubles.find_similar(mark ^ 0b1111, 4) == 5
        assert doubles.find_similar(mark ^ 0b11111, 4) is None
        assert doubles.find_similar(0, 4) is None
        doubles.write_committed(1)
    doubles.close()
    again = DigestStore(tmp_path)
    assert again.find_similar(mark, 0) == 5
    again.close()


def test_undone_batch_leaves_no_near_duplicates(tmp_path: Path) -> None:
    doubles = DigestStore(tmp_path)
    doubles.remember_page(1, b"d" * 20, 0x0123456789ABCDEF, 5)
    doubles.close()
    again = DigestStore(tmp_path)
    assert again.find_similar(0x0123456789ABCDEF, 4) is None
    again.close()


def test_simhashes_of_another_version_are_deleted(tmp_path: Path) -> None:
    doubles = DigestStore(tmp_path)
    doubles.remember_page(1, b"d" * 20, 0x0123456789ABCDEF, 5)
    doubles.write_committed(1)
    doubles.close()
    DigestStore.delete_sketches_of_other_algorithm(tmp_path)
    assert (tmp_path / "simhashes").exists(), "it is of our version"
    size = (tmp_path / "simhashes").stat().st_size
    for other in (b"\1", b""):  # an older version, and a table without a version
        with (tmp_path / "simhashes").open("r+b") as file:
            file.truncate(size - 8)
            file.seek(size - 8)
            file.write(other)
        DigestStore.delete_sketches_of_other_algorithm(tmp_path)
        again = DigestStore(tmp_path)
        assert again.find_similar(0x0123456789ABCDEF, 4) is None
        assert again.find_exact(b"d" * 20) == 5
        again.close()


def test_damaged_free_list_is_detected_before_any_write(tmp_path: Path) -> None:
    """Reading does not need the free list; only a test write, which is never committed, notices."""
    doubles = DigestStore(tmp_path)
    for batch in range(1, 30):
        for number in range(40):
            doubles.remember_page(batch, hashlib.sha1(b"%d %d" % (batch, number)).digest(), 0, number)
        doubles.write_committed(batch)
    doubles.close()
    path = tmp_path / "digests.lmdb"
    verify_digests(tmp_path)
    whole = path.read_bytes()
    seen = 0
    for page in range(2, len(whole) // 4096):
        spoiled = bytearray(whole)
        spoiled[page * 4096 + 10] ^= 0xFF  # type of the page
        path.write_bytes(spoiled)
        try:
            verify_digests(tmp_path)
        except DamagedFile:
            seen += 1
        assert path.read_bytes() == spoiled, "it was only tried"
    assert seen >= 2, "the free list's page and the root at least"
