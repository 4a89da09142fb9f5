"""Append-only file with buffered writes."""

from __future__ import annotations

import os
from pathlib import Path

from fieldmouse.errors import Damaged, storing

_BUFFER = 1 << 18


class Tail:
    """Appends to a file from a known length; bytes behind it are cut."""

    def __init__(self, path: Path, length: int):
        self._path = path
        with storing(path):
            self.handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            size = os.fstat(self.handle).st_size
            if size < length:
                raise Damaged(path, f"{length} bytes were written and synced, {size} are there")
            os.ftruncate(self.handle, length)
            os.lseek(self.handle, length, os.SEEK_SET)
        self.length = length
        self._parts: list[bytes] = []
        self._held = 0

    def append(self, piece: bytes) -> None:
        self._parts.append(piece)
        self.length += len(piece)
        self._held += len(piece)
        if self._held >= _BUFFER:
            self.flush()

    def flush(self) -> None:
        if self._parts:
            whole = memoryview(b"".join(self._parts))
            self._parts.clear()
            self._held = 0
            with storing(self._path):
                while whole:
                    whole = whole[os.write(self.handle, whole) :]

    def sync(self) -> None:
        self.flush()
        with storing(self._path):
            os.fdatasync(self.handle)

    def close(self) -> None:
        try:
            self.flush()
        finally:
            os.close(self.handle)
