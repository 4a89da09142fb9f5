"""The checksum that tantivy writes behind each of its files, and whether the file still matches it."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import BinaryIO

_FOOTER = struct.Struct("<II")  # bytes of JSON before it, and a mark
_MARK = 1337
_PIECE = 1 << 20


def flaw_of(path: Path, *, through: bool = True) -> str:
    """What is wrong with one file of an index; "" if nothing. Unless `through`, only its end is read."""
    with path.open("rb") as file:
        body, wanted = _read_footer(file, path.stat().st_size)
        if wanted is None:
            return f"`{path.name}` has lost its end"
        if not through:
            return ""
        file.seek(0)
        check = 0
        while body and (piece := file.read(min(body, _PIECE))):
            check, body = zlib.crc32(piece, check), body - len(piece)
    return "" if check == wanted else f"`{path.name}` does not match its checksum"


def _read_footer(file: BinaryIO, size: int) -> tuple[int, int | None]:
    """How many bytes come before the footer, and their checksum; None if there is no footer."""
    if size <= _FOOTER.size:
        return 0, None
    file.seek(size - _FOOTER.size)
    told, mark = _FOOTER.unpack(file.read())
    body = size - _FOOTER.size - told
    if mark != _MARK or body < 0:
        return 0, None
    file.seek(body)
    try:
        return body, int(json.loads(file.read(told))["crc"])
    except (ValueError, KeyError, TypeError):
        return 0, None
