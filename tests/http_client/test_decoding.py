"""Tests of encoded bodies: valid, broken, mislabelled and explosive. The oracles are the encoders of other
libraries."""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Callable
from typing import Any, SupportsIndex

import brotli
import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from fieldmouse.http.decoding import (
    ALWAYS_ALLOWED,
    FIRST_PIECE,
    MAX_GZIP_MEMBERS,
    DecodedBody,
    decode_body,
    decode_response,
)
from fieldmouse.types.outcome import Response
from fieldmouse.types.reason import OutcomeReason


def bare_deflate(body: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-15)
    return stream.compress(body) + stream.flush()


def zstd_stream(body: bytes) -> bytes:
    """Compress as a server that does not know the size: no content size in the frame."""
    stream = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    return stream.compress(body) + stream.flush()


PACKERS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("gzip", gzip.compress),
    ("x-gzip", gzip.compress),
    ("GZIP", lambda body: gzip.compress(body[:9]) + gzip.compress(body[9:])),
    ("deflate", zlib.compress),
    ("deflate", bare_deflate),
    ("br", brotli.compress),
    ("zstd", zstandard.compress),
    ("zstd", zstd_stream),
    ("zstd", lambda body: zstandard.compress(body[:9]) + zstd_stream(body[9:])),
    ("identity", bytes),
]
BROKEN = [packer for packer in PACKERS if packer[0] in ("gzip", "deflate", "br", "zstd")]
packers = st.sampled_from(PACKERS)
bodies = st.one_of(st.binary(min_size=1, max_size=2000), st.text(min_size=1).map(lambda text: text.encode() * 200))


@given(bodies, st.lists(packers, max_size=4))
def test_encoded_bodies_are_decoded(body: bytes, layers: list[tuple[str, Callable[[bytes], bytes]]]) -> None:
    packed = body
    for _, pack in layers:
        packed = pack(packed)
    assert decode_body(packed, ", ".join(name for name, _ in layers)).body == body
    assert decode_body(packed, ",".join(name for name, _ in layers)).reason is None


@example(bytes(10) + b"\1\0\0\0\1\0\1\0\2" + bytes(8), ("zstd", zstandard.compress), 0.25)
@given(bodies, st.sampled_from(BROKEN), st.floats(0, 1, exclude_max=True))
def test_truncated_body_is_reported_and_its_beginning_kept(
    body: bytes, packer: tuple[str, Callable[[bytes], bytes]], where: float
) -> None:
    name, pack = packer
    packed = pack(body)
    # Below four bytes nothing distinguishes an encoded body from any other; and a zstd body of two frames may
    # be cut between them, where nothing detectable is missing.
    cut = max(4, int(where * len(packed)))
    if cut >= len(packed):
        return
    found = decode_body(packed[:cut], name)
    assert found.reason is OutcomeReason.BAD_ENCODING or (name, found.body) == ("zstd", body[:9])
    assert body.startswith(found.body)


@given(bodies, st.sampled_from(BROKEN), st.data())
def test_damaged_body_never_raises(
    body: bytes, packer: tuple[str, Callable[[bytes], bytes]], data: st.DataObject
) -> None:
    name, pack = packer
    packed = bytearray(pack(body))
    for place in data.draw(st.lists(st.integers(0, len(packed) - 1), max_size=4)):
        packed[place] = data.draw(st.integers(0, 255))
    found = decode_body(bytes(packed), name)
    assert found.reason in (None, OutcomeReason.BAD_ENCODING, OutcomeReason.DECOMPRESSION_BOMB)


@given(st.binary(), st.sampled_from(["gzip", "deflate", "br", "zstd", "gzip, br", "br, zstd", "deflate,gzip"]))
def test_arbitrary_bytes_never_raise(body: bytes, coding: str) -> None:
    decode_body(body, coding)


TEXT = b" ".join(b"word%d" % number for number in random.Random(7).choices(range(10_000), k=60_000))
DETECTED = [packer for packer in BROKEN if packer[1] is not bare_deflate]  # which has no checksum


@pytest.mark.parametrize(("name", "pack"), DETECTED[:4])
def test_most_output_before_the_damage_is_kept(name: str, pack: Callable[[bytes], bytes]) -> None:
    packed = bytearray(pack(TEXT))
    middle = len(packed) // 2
    packed[middle : middle + 40] = b"\xff" * 40
    found = decode_body(bytes(packed), name)
    same = next((at for at, (a, b) in enumerate(zip(found.body, TEXT, strict=False)) if a != b), len(found.body))
    assert found.reason is OutcomeReason.BAD_ENCODING
    assert same > len(TEXT) // 4


@pytest.mark.parametrize(("name", "pack"), BROKEN[:5])
def test_bomb_is_reported_and_decoded_only_up_to_the_limit(name: str, pack: Callable[[bytes], bytes]) -> None:
    packed = pack(bytes(10 * ALWAYS_ALLOWED))
    found = decode_body(packed, name, limit=2 * ALWAYS_ALLOWED, ratio=10**9)
    assert (found.reason, found.body) == (OutcomeReason.DECOMPRESSION_BOMB, bytes(2 * ALWAYS_ALLOWED))
    by_ratio = decode_body(packed, name, limit=10**9, ratio=10)
    assert (by_ratio.reason, len(by_ratio.body)) == (
        OutcomeReason.DECOMPRESSION_BOMB,
        max(ALWAYS_ALLOWED, 10 * len(packed)),
    )
    within = decode_body(packed, name, limit=10 * ALWAYS_ALLOWED, ratio=10**9)
    assert (within.reason, len(within.body)) == (None, 10 * ALWAYS_ALLOWED)


def test_nested_bomb_is_limited_too() -> None:
    packed = gzip.compress(gzip.compress(bytes(40 * ALWAYS_ALLOWED)))
    found = decode_body(packed, "gzip, gzip", limit=4 * ALWAYS_ALLOWED)
    assert found.reason is OutcomeReason.DECOMPRESSION_BOMB
    assert len(found.body) <= 4 * ALWAYS_ALLOWED


def test_hundred_codings_are_refused() -> None:
    assert decode_body(b"x", ", ".join(["gzip"] * 100)).reason is OutcomeReason.BAD_ENCODING


@pytest.mark.parametrize("coding", ["", "utf-8", "none", "text/html", ",", "compress"])
def test_unknown_coding_is_ignored(coding: str) -> None:
    assert decode_body(b"<html>", coding) == decode_body(b"<html>", "")


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_plain_body_declared_as_encoded_is_returned_unchanged(coding: str) -> None:
    found = decode_body(b"<html>plain</html>", coding)
    assert (found.body, found.reason) == (b"<html>plain</html>", OutcomeReason.BAD_ENCODING)


def test_padding_after_a_gzip_body_is_ignored() -> None:
    assert decode_body(gzip.compress(b"page") + b"\0" * 10, "gzip") == decode_body(b"page", "")


def test_a_zstd_window_larger_than_the_web_allows_is_refused() -> None:
    packer = zstandard.ZstdCompressor(
        compression_params=zstandard.ZstdCompressionParameters(window_log=27, write_content_size=False)
    )
    stream = packer.compressobj()
    packed = stream.compress(TEXT) + stream.flush()
    assert decode_body(packed, "zstd").reason is OutcomeReason.BAD_ENCODING


class Watched(bytes):
    """Bytes that count how many of them were copied."""

    handed = 0

    def __getitem__(self, place: SupportsIndex | slice) -> Any:
        piece = super().__getitem__(place)
        self.handed += len(piece) if isinstance(piece, bytes) else 1
        return piece


@pytest.mark.parametrize("size", [0, 10, 5000, 20_000])
def test_each_gzip_member_is_copied_about_once(size: int) -> None:
    member = gzip.compress(random.Random(size).randbytes(size))
    body = Watched(member * 100)
    assert decode_body(body, "gzip").body == gzip.decompress(body)
    assert body.handed <= 4 * len(body) + 100 * 3 * FIRST_PIECE
    broken = decode_body(body[: len(member) * 60] + member[: 12 + size // 2], "gzip")
    assert broken.reason is OutcomeReason.BAD_ENCODING
    assert broken.body.startswith(gzip.decompress(member * 60))


def test_gzip_members_beyond_the_limit_are_not_read() -> None:
    body = Watched(gzip.compress(b"x") + gzip.compress(b"") * 3 * MAX_GZIP_MEMBERS)
    decoded = decode_body(body, "gzip")
    assert (decoded.body, decoded.reason) == (b"x", OutcomeReason.BAD_ENCODING)
    assert decoded.detail == f"more than {MAX_GZIP_MEMBERS:,} gzip members"
    assert body.handed <= len(body) + MAX_GZIP_MEMBERS * 3 * FIRST_PIECE


def twice(body: bytes) -> bytes:
    return gzip.compress(gzip.compress(body))


@pytest.mark.parametrize(
    ("lines", "wire"),
    [
        ([], b"mice"),
        ([""], b"mice"),
        (["gzip"], gzip.compress(b"mice")),
        (["", "gzip"], gzip.compress(b"mice")),
        (["gzip", ""], gzip.compress(b"mice")),
        (["gzip", "gzip"], twice(b"mice")),
        (["gzip, gzip"], twice(b"mice")),
        (["deflate", "gzip"], gzip.compress(zlib.compress(b"mice"))),
        (["deflate, gzip"], gzip.compress(zlib.compress(b"mice"))),
        (["gzip", "deflate"], zlib.compress(gzip.compress(b"mice"))),
        (["br", "identity", "gzip"], gzip.compress(brotli.compress(b"mice"))),
        (["br,", ", gzip"], gzip.compress(brotli.compress(b"mice"))),
        (["utf-8", "gzip"], gzip.compress(b"mice")),
        (["gzip", "none"], gzip.compress(b"mice")),
        (["X-GZIP", "Deflate"], zlib.compress(gzip.compress(b"mice"))),
        (["gzip", "br", "gzip"], gzip.compress(brotli.compress(gzip.compress(b"mice")))),
    ],
    ids=lambda value: repr(value) if isinstance(value, list) else "",  # gzip writes the time into its head
)
def test_several_content_encoding_lines_are_one_list(lines: list[str], wire: bytes) -> None:
    headers = (("content-encoding", line) for line in lines)
    answer = Response(200, b"", wire, b"", "", 0.0, 0.0, 0.0, tuple(headers))
    assert decode_response(answer) == DecodedBody(b"mice")


def test_gzip_declared_twice_and_applied_once_is_decoded_once() -> None:
    headers = (("content-encoding", "gzip"), ("content-encoding", "gzip"))
    answer = Response(200, b"", gzip.compress(b"mice"), b"", "", 0.0, 0.0, 0.0, headers)
    assert decode_response(answer) == DecodedBody(b"mice", OutcomeReason.BAD_ENCODING, "says gzip but is not")
