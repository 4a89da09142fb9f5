"""Lookup of archived responses by WARC file and offset, including revisit records.

A revisit record is written when the payload is stored already; it has headers and no body. The CDXJ logs
name the record that has the body. They are read once, when the first revisit is looked up. Nothing is
locked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from fieldmouse.indexer import cdxj
from fieldmouse.indexer.archive import log_path
from fieldmouse.indexer.audit import log_lines
from fieldmouse.indexer.warcs import answer_of, members, read_record
from fieldmouse.indexer.wire import ShardState
from fieldmouse.records import Response
from fieldmouse.url import Url

_PIECE = 64 << 10  # bytes read at a time: most records are not longer
_REVISIT = f'"{cdxj.REVISIT}"'.encode()
_DIGEST = b'"digest":"'


class Library:
    """The archive in `directory` as of a checkpoint; `states` are its shards at that checkpoint."""

    def __init__(self, directory: Path, states: Sequence[ShardState]):
        self.directory, self._states = directory, states
        self._originals: dict[bytes, tuple[str, int]] | None = None

    def answer(self, warc: str, offset: int) -> Response:
        """Return the response stored at `offset` of file `warc`; its body is still content-encoded.

        Raises `OSError`, `Torn`, `ValueError` or `KeyError` if it cannot be read.
        """
        return read_answer(self.directory, warc, offset, self._original)

    def _original(self, digest: str) -> tuple[str, int]:
        if self._originals is None:
            self._originals = self._find_originals()
        return self._originals[digest.encode()]

    def lines_of(self, url: Url) -> Iterator[tuple[str, cdxj.Entry]]:
        """Yield timestamp and entry of every record of `url`, oldest first within a shard."""
        begins = cdxj.surt(url).encode() + b" "
        for line in self._lines():
            if line.startswith(begins):
                stamp, entry = cdxj.read_line(line)
                if entry.url == url:  # different URLs may share a SURT key
                    yield stamp, entry

    def _find_originals(self) -> dict[bytes, tuple[str, int]]:
        """Map the digest of each revisited payload to the file and offset of its record."""
        wanted = {_digest(line) for line in self._lines() if _REVISIT in line}
        places: dict[bytes, tuple[str, int]] = {}
        for line in self._lines() if wanted else ():
            if (digest := _digest(line)) in wanted and digest not in places and _REVISIT not in line:
                entry = cdxj.read_line(line)[1]
                places[digest] = (entry.filename, int(entry.offset))
        return places

    def _lines(self) -> Iterator[bytes]:
        for shard, state in enumerate(self._states):
            if state.cdxj_length:
                yield from log_lines(log_path(self.directory, shard), state.cdxj_length)


def read_answer(
    directory: Path, warc: str, offset: int, original: Callable[[str], tuple[str, int]]
) -> Response:
    """Return the stored response; `original` maps a digest to the file and offset of its payload."""
    path = directory / warc
    member = next(members(path, offset, path.stat().st_size, piece=_PIECE))
    record = read_record(member.content)
    answer = answer_of(record)
    if record.kind != "revisit":
        return answer
    place = original(record.fields["warc-payload-digest"][5:])
    return msgspec.structs.replace(answer, body=read_answer(directory, *place, original).body)


def _digest(line: bytes) -> bytes:
    """Extract the digest from a CDXJ line; much cheaper than decoding the line."""
    at = line.rindex(_DIGEST) + len(_DIGEST)
    return line[at : line.index(b'"', at)]
