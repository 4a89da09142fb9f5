"""Reader for archived responses and for the rows that were extracted from pages.

A revisit record is written when the payload is stored already; it has headers and no body. The CDXJ logs name
the record that has the body. They are read once, when the first revisit is looked up. Nothing is locked.

The rows of a page are one record in its WARC file. The page's outcome stores the offset of that record, so
reading one page's rows reads nothing else.
"""

from __future__ import annotations

from base64 import b32decode
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fieldmouse.archive import cdxj
from fieldmouse.archive.audit import log_lines
from fieldmouse.archive.dedup import DigestStore
from fieldmouse.archive.warc_reader import TornMember, read_members, read_record, stored_response
from fieldmouse.archive.warc_writer import WarcWriter, cdxj_log_path
from fieldmouse.errors import DamagedFile
from fieldmouse.storage.shard_state import ShardState
from fieldmouse.types.outcome import OutcomeRow, Response
from fieldmouse.types.request import Request
from fieldmouse.url import Url

_PIECE = 64 << 10  # bytes read at a time: most records are not longer
_REVISIT = f'"{cdxj.REVISIT}"'.encode()
_DIGEST = b'"digest":"'


class RecordReader:
    """The archive in `directory` as of a checkpoint; `states` are its shards at that checkpoint."""

    def __init__(self, directory: Path, states: Sequence[ShardState]):
        self.directory, self._states = directory, states
        self._originals: dict[bytes, tuple[str, int]] | None = None

    def read_response(self, warc: str, offset: int) -> Response:
        """Return the response stored at `offset` of file `warc`; its body is still content-encoded.

        Raises `OSError`, `TornMember`, `ValueError` or `KeyError` if it cannot be read.
        """
        return read_response(self.directory, warc, offset, self._original)

    def _original(self, digest: str) -> tuple[str, int]:
        if self._originals is None:
            self._originals = self._find_originals()
        return self._originals[digest.encode()]

    def cdxj_entries(self, url: Url) -> Iterator[tuple[str, cdxj.CdxjEntry]]:
        """Yield timestamp and entry of every record of `url`, oldest first within a shard."""
        begins = cdxj.surt(url).encode() + b" "
        for line in self._lines():
            if line.startswith(begins):
                stamp, entry = cdxj.parse_line(line)
                if entry.url == url:  # different URLs may share a SURT key
                    yield stamp, entry

    def _find_originals(self) -> dict[bytes, tuple[str, int]]:
        """Map the digest of each revisited payload to the file and offset of its record."""
        wanted = {_digest(line) for line in self._lines() if _REVISIT in line}
        places: dict[bytes, tuple[str, int]] = {}
        for line in self._lines() if wanted else ():
            if (digest := _digest(line)) in wanted and digest not in places and _REVISIT not in line:
                entry = cdxj.parse_line(line)[1]
                places[digest] = (entry.filename, int(entry.offset))
        return places

    def _lines(self) -> Iterator[bytes]:
        for shard, state in enumerate(self._states):
            if state.cdxj_length:
                yield from log_lines(cdxj_log_path(self.directory, shard), state.cdxj_length)


def read_response(
    directory: Path, warc: str, offset: int, original: Callable[[str], tuple[str, int]]
) -> Response:
    """Return the stored response; `original` maps a digest to the file and offset of its payload."""
    path = directory / warc
    member = next(read_members(path, offset, path.stat().st_size, piece=_PIECE))
    record = read_record(member.content)
    answer = stored_response(record)
    if record.kind != "revisit":
        return answer
    place = original(record.fields["warc-payload-digest"][5:])
    return msgspec.structs.replace(answer, body=read_response(directory, *place, original).body)


def _digest(line: bytes) -> bytes:
    """Extract the digest from a CDXJ line; much cheaper than decoding the line."""
    at = line.rindex(_DIGEST) + len(_DIGEST)
    return line[at : line.index(b'"', at)]


_ITEM_BYTES = 16 << 10  # bytes read at a time: most rows are shorter
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def read_page_rows(archive: Path, row: OutcomeRow) -> list[dict[str, Any]]:
    """The rows of one page, as `extract` returned them; raises `DamagedFile` if they cannot be read."""
    if not row.items:
        return []
    path = archive / row.warc
    try:
        record = read_record(
            next(read_members(path, row.items_at, path.stat().st_size, piece=_ITEM_BYTES)).content
        )
        rows = [_decode(line) for line in record.block.splitlines()]
        if record.url != row.url or len(rows) != row.items:
            raise ValueError("it holds other rows")
    except FileNotFoundError:
        raise DamagedFile(path, f"it is missing, and with it the rows of {row.url}") from None
    except (TornMember, OSError, ValueError, KeyError, msgspec.MsgspecError) as trouble:
        raise DamagedFile(path, f"the rows of {row.url} cannot be read ({trouble})") from trouble
    return rows


def read_rows(archive: Path, pages: Iterable[OutcomeRow]) -> Iterator[tuple[OutcomeRow, dict[str, Any]]]:
    """The rows of many pages, each with its page."""
    for row in pages:
        for item in read_page_rows(archive, row):
            yield row, item


class StoredVersions:
    def __init__(self, directory: Path, doubles: DigestStore, archive: WarcWriter):
        self._directory, self._doubles, self._archive = directory, doubles, archive

    def read_response(self, link: Request) -> Response | None:
        """The stored response that `link` refers to; None if it cannot be read."""
        try:
            return read_response(self._directory, link.warc, link.offset, self._original)
        except (OSError, TornMember, ValueError, KeyError, RecursionError):
            return None

    def _original(self, digest: str) -> tuple[str, int]:
        place = self._doubles.find_exact(b32decode(digest))
        located = self._archive.read_cdxj_line(place) if place is not None else None
        if located is None or located[1].digest != digest:
            raise KeyError(digest)
        return located[1].filename, int(located[1].offset)
