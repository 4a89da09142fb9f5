"""Errors of tantivy: checksums at the end of its files, and panics as Python exceptions."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from fieldmouse.errors import IndexFileDamaged


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Raise `IndexFileDamaged` instead of a panic; Ctrl-C and process exit pass unchanged."""
    try:
        yield
    except BaseException as error:
        if not _is_panic(error):
            raise
        raise IndexFileDamaged(f"a file of it is damaged ({' '.join(str(error).split())})") from error


def _is_panic(error: BaseException) -> bool:
    """Recognize a panic by name: every pyo3 extension module has its own class."""
    kind = type(error)
    return kind.__name__ == "PanicException" and kind.__module__ == "pyo3_runtime"


_FORMATS = range(4, 8)  # file formats that our tantivy can read; it ignores the rest of the version
_FOOTER = struct.Struct("<II")  # length of the JSON before it, and a magic number
_MAGIC = 1337
_PIECE = 1 << 20


def index_file_damage(path: Path, *, through: bool = True) -> str:
    """Description of the damage of an index file, or "". Unless `through`, only the footer is read."""
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


class TantivyVersion(msgspec.Struct):
    major: int
    minor: int
    patch: int
    index_format_version: int


class TantivyFooter(msgspec.Struct):
    """JSON footer, fields in the order in which they are written."""

    version: TantivyVersion
    crc: int


_decode = msgspec.json.Decoder(TantivyFooter).decode


def _read_footer(file: BinaryIO, size: int) -> tuple[int, int | None]:
    """Number of bytes before the footer, and their checksum; None if there is no valid footer."""
    if size <= _FOOTER.size:
        return 0, None
    file.seek(size - _FOOTER.size)
    length, magic = _FOOTER.unpack(file.read())
    body = size - _FOOTER.size - length
    if magic != _MAGIC or body < 0:
        return 0, None
    file.seek(body)
    try:
        footer = _decode(file.read(length))
    except msgspec.MsgspecError:
        return 0, None
    return body, footer.crc if footer.version.index_format_version in _FORMATS else None
