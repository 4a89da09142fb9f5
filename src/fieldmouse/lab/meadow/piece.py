"""Piece of a page, compressed once and used many times.

Deflate streams that end on a byte boundary can be concatenated. A page of 30 KB therefore consists of pieces
that are stored in both forms, and only the page's individual parts are compressed on request.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

from isal import isal_zlib

_GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_LAST_BLOCK = b"\x03\x00"
_STORED = struct.Struct("<BHH")
_TRAILER = struct.Struct("<II")


class Piece(NamedTuple):
    plain: bytes
    # raw, without a last block, ending on a byte boundary, without references to earlier data
    deflated: bytes


def ready(text: str) -> Piece:
    """Make a piece for all hosts; compressed well, because it is made once."""
    plain = text.encode()
    deflater = zlib.compressobj(6, zlib.DEFLATED, -15)
    return Piece(plain, deflater.compress(plain) + deflater.flush(zlib.Z_FULL_FLUSH))


def fresh(text: str) -> Piece:
    """Make a piece for one page or one host; compressed fast, because a client is waiting."""
    plain = text.encode()
    deflater = isal_zlib.compressobj(0, isal_zlib.DEFLATED, -15)
    return Piece(plain, deflater.compress(plain) + deflater.flush(isal_zlib.Z_FULL_FLUSH))


def stored(text: str) -> Piece:
    """Make a piece too short to be worth compressing; at most 64 KB."""
    plain = text.encode()
    return Piece(plain, _STORED.pack(0, len(plain), len(plain) ^ 0xFFFF) + plain)


def gzipped(pieces: list[Piece]) -> bytes:
    """Gzip member of all pieces concatenated.

    >>> import gzip
    >>> gzip.decompress(gzipped([ready("field"), fresh("mou"), stored("se")]))
    b'fieldmouse'
    """
    plain = plain_of(pieces)
    return b"".join(
        (
            _GZIP_HEAD,
            *[piece[1] for piece in pieces],
            _LAST_BLOCK,
            _TRAILER.pack(isal_zlib.crc32(plain), len(plain) & 0xFFFFFFFF),
        )
    )


def plain_of(pieces: list[Piece]) -> bytes:
    return b"".join([piece[0] for piece in pieces])
