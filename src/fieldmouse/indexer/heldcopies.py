"""Access to the stored version of a page, in the archive that the worker is writing.

A revisit record is resolved to the record with the same payload through the digests, which all
workers share. Requested records are durable: the link that names them came from a checkpoint.
"""

from __future__ import annotations

from base64 import b32decode
from pathlib import Path

from fieldmouse.indexer.archive import Archive
from fieldmouse.indexer.digest import Doubles
from fieldmouse.indexer.library import read_answer
from fieldmouse.indexer.warcs import Torn
from fieldmouse.records import Link, Response


class HeldCopies:
    def __init__(self, directory: Path, doubles: Doubles, archive: Archive):
        self._directory, self._doubles, self._archive = directory, doubles, archive

    def answer(self, link: Link) -> Response | None:
        """The stored response that `link` refers to; None if it cannot be read."""
        try:
            return read_answer(self._directory, link.warc, link.offset, self._original)
        except (OSError, Torn, ValueError, KeyError, RecursionError):
            return None

    def _original(self, digest: str) -> tuple[str, int]:
        place = self._doubles.same(b32decode(digest))
        located = self._archive.look_up(place) if place is not None else None
        if located is None or located[1].digest != digest:
            raise KeyError(digest)
        return located[1].filename, int(located[1].offset)
