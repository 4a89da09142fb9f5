"""Blocks of rows as the coordinator stores them, with the keys before the rows.

The scripts build and read blocks, too (`lua/rows.lua` has the layout). They know the keys of a block, but
not its rows, which are packed here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

import zstandard

from fieldmouse.balancer.board.contract import Row
from fieldmouse.balancer.board.decoding import PACKED, RAW, rows_in

SMALL = 4
"""Blocks of at most this many rows are not compressed: it would not pay."""

LARGE = 128
"""Most rows in a block: larger blocks compress little better, and an agent takes whole blocks."""

_pack = zstandard.ZstdCompressor(3).compress
_count = struct.Struct("<I")
_entry = struct.Struct("<QI")
_SIGN, _WRAP = 1 << 63, 1 << 64


def decimal(key: int) -> int:
    """Key as the server's integer sets store it: with a sign.

    >>> decimal(2**64 - 1), decimal(5)
    (-1, 5)
    """
    return key - _WRAP if key >= _SIGN else key


def entries(rows: Iterable[Row]) -> tuple[list[int], list[bytes]]:
    r"""Input of the script that makes blocks: keys as signed integers, and each row with its key and length.

    Only the first row of each key is kept.

    >>> entries([(258, b"ab"), (258, b"c")])
    ([258], [b'\x02\x01\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00ab'])
    """
    once: dict[int, bytes] = {}
    for key, row in rows:
        if key not in once:
            once[key] = _entry.pack(key, len(row)) + row
    return [key - _WRAP if key >= _SIGN else key for key in once], list(once.values())


def block(rows: Sequence[Row]) -> bytes:
    """Build a block of these rows.

    >>> rows_in(block([(7, b"seven"), (8, b"eight")]))
    [(7, b'seven'), (8, b'eight')]
    """
    keys = struct.pack(f"<{len(rows)}Q", *(key for key, _ in rows))
    body = b"".join(_count.pack(len(row)) + row for _, row in rows)
    head = _count.pack(len(rows)) + keys
    return RAW + head + body if len(rows) <= SMALL else PACKED + head + _pack(body)


def packed(blobs: Sequence[bytes]) -> list[bytes]:
    """Repack the same rows in the same order into blocks of the largest size.

    Raises `DamagedValue` if one of them is no block, or has rows that no block may have.
    """
    rows = [row for blob in blobs for row in rows_in(blob)]
    return [block(rows[start : start + LARGE]) for start in range(0, len(rows), LARGE)]


def packed_text(text: bytes) -> bytes:
    """Compress a robots.txt; an empty one stays empty."""
    return _pack(text) if text else b""
