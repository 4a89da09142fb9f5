"""Reader of the archive: gzip members, WARC records, their responses and CDXJ lines.

Every record is one gzip member with its own checksum, so a file is read member by member and damage is
located by the offset of its member. The CDXJ line of a record can be computed exactly, which is used to
check CDXJ logs and to rebuild them.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator
from hashlib import sha1
from pathlib import Path

import msgspec

from fieldmouse.archive import cdxj
from fieldmouse.archive.dedup import format_digest
from fieldmouse.http import headers
from fieldmouse.types.outcome import Response

MEMBER_MAGIC = b"\x1f\x8b\x08\x00\x00\x00\x00\x00"
"""Start of each of our members: deflate, no flags, no time."""
_HEADER = 10  # bytes
_LAST_BYTES = frozenset(b"%c%c" % (effort, system) for effort in (0, 2, 4) for system in (3, 255))
_PIECE = 1 << 20
_PEEK = 2048  # bytes read for the head of a record
_LONGEST_HEAD = 1 << 20
_END = b"\r\n\r\n"
_SERIES = re.compile(r"-(\d{5,})-(\d+)\.warc\.gz\Z")
INDEXED_TYPES = frozenset(("response", "revisit"))
"""Record types with a line in the CDXJ."""


class TornMember(Exception):
    """The member at `offset` cannot be read."""

    def __init__(self, offset: int, what: str):
        super().__init__(what)
        self.offset, self.reason = offset, what


class WarcRecord(msgspec.Struct, frozen=True):
    """A WARC record: its named fields in lower case, and its block."""

    fields: dict[str, str]
    block: bytes

    @property
    def kind(self) -> str:
        return self.fields.get("warc-type", "")

    @property
    def url(self) -> str:
        return self.fields.get("warc-target-uri", "")


class GzipMember(msgspec.Struct, frozen=True):
    """A gzip member: position and content."""

    offset: int
    length: int
    content: bytes


def warc_files(directory: Path, shard: int) -> dict[int, Path]:
    """Return the WARC files of a shard by serial number."""
    files = {}
    for path in directory.glob("*.warc.gz"):
        match = _SERIES.search(path.name)
        if match and int(match[2]) == shard:
            files[int(match[1])] = path
    return dict(sorted(files.items()))


def shard_of(name: str) -> int:
    """Return the shard of a WARC file; -1 for a foreign name."""
    match = _SERIES.search(name)
    return int(match[2]) if match else -1


def read_members(path: Path, start: int, end: int, *, piece: int = _PIECE) -> Iterator[GzipMember]:
    """Yield the members from `start` to `end`, which must fit exactly; raises `TornMember` if not.

    `piece` is the number of bytes read at a time: few if only one member is wanted.
    """
    with path.open("rb") as file:
        file.seek(start)
        at, left, held = start, end - start, b""
        while left or held:
            stream, parts, size = zlib.decompressobj(31), list[bytes](), 0
            first = True
            while not stream.eof:
                if not held or (first and len(held) < _HEADER):
                    more = file.read(min(left, piece))
                    left -= len(more)
                    held += more
                    if not more:
                        raise TornMember(at, "it ends within a record")
                if first and not (held.startswith(MEMBER_MAGIC) and held[8:10] in _LAST_BYTES):
                    raise TornMember(at, "no record begins there")
                first = False
                size += len(held)
                try:
                    parts.append(stream.decompress(held))
                except zlib.error as error:
                    raise TornMember(at, f"it cannot be decompressed ({error})") from None
                held = stream.unused_data
            size -= len(held)
            yield GzipMember(at, size, b"".join(parts))
            at += size


def find_next_member(path: Path, start: int, end: int) -> int | None:
    """Return the offset of the next record behind a damaged one, or None."""
    with path.open("rb") as file:
        at, held = start, b""
        file.seek(start)
        while at < end:
            more = file.read(min(_PIECE, end - at - len(held)))
            held += more
            place = held.find(MEMBER_MAGIC)
            if place >= 0:
                at += place
                file.seek(at)
                try:
                    if zlib.decompressobj(31).decompress(file.read(_PEEK), 5) == b"WARC/":
                        return at
                except zlib.error:
                    pass
                at += 1
                file.seek(at)
                held = b""
            elif not more:
                return None
            else:
                at += len(held) - len(MEMBER_MAGIC) + 1
                held = held[-len(MEMBER_MAGIC) + 1 :]
    return None


def read_record(content: bytes) -> WarcRecord:
    """Parse a whole member; raises `ValueError` if it is not a WARC record as written by fieldmouse."""
    fields, block = _read_head(content)
    if int(fields["content-length"]) != len(block) - len(_END) or not block.endswith(_END):
        raise ValueError("the length of the record is wrong")
    return WarcRecord(fields, block[: -len(_END)])


def _read_head(content: bytes) -> tuple[dict[str, str], bytes]:
    top, end, block = content.partition(_END)
    first, *lines = top.decode("utf-8").split("\r\n")
    if not end or first != "WARC/1.1":
        raise ValueError("it is not a WARC record")
    fields = {}
    for line in lines:
        name, colon, value = line.partition(": ")
        if not colon:
            raise ValueError("a field of the record has no value")
        fields[name.lower()] = value
    if not {"warc-type", "content-length"} <= fields.keys():
        raise ValueError("the record has no type or no length")
    return fields, block


def read_record_head(handle: int, offset: int, length: int) -> WarcRecord:
    """Read the record at `offset` up to the head of its response: enough for its CDXJ line, and cheap."""
    stream = zlib.decompressobj(31)
    content, at = b"", offset
    while True:
        piece = os.pread(handle, min(_PEEK, offset + length - at), at)
        at += len(piece)
        try:
            content += stream.decompress(piece, _LONGEST_HEAD)
        except zlib.error as error:
            raise TornMember(offset, f"it cannot be decompressed ({error})") from None
        top = content.find(_END)
        if top >= 0 and (content.find(b"\n\r\n", top + 4) >= 0 or content.find(b"\n\n", top + 4) >= 0):
            break
        if not piece or stream.eof or len(content) > _LONGEST_HEAD:
            break
    return WarcRecord(*_read_head(content))


def stored_response(record: WarcRecord) -> Response:
    """Return the response in a response or revisit record."""
    top, body = headers.split_head(record.block)
    try:
        fields = headers.parse_head(top)
    except headers.BadHead as error:
        raise ValueError(f"the response in the record is not HTTP ({error})") from None
    address, truncated = (record.fields.get(name, "") for name in ("warc-ip-address", "warc-truncated"))
    return Response(fields.status, top, body, b"", address, 0.0, 0.0, 0.0, fields.headers, truncated)


def cdxj_line(record: WarcRecord, offset: int, length: int, filename: str) -> bytes:
    """Return the CDXJ line of a response or revisit record."""
    answer = stored_response(record)
    seen_as = cdxj.cdxj_mime(answer) if record.kind == "response" else cdxj.REVISIT
    stamp = re.sub(r"[^0-9]", "", record.fields["warc-date"])
    digest = record.fields["warc-payload-digest"]
    return cdxj.format_line(record.url, stamp, seen_as, answer.status, digest[5:], offset, length, filename)


def digest_matches(record: WarcRecord) -> bool:
    """Tell whether the payload of a response matches its digest."""
    if record.kind != "response":
        return True
    _, body = headers.split_head(record.block)
    return format_digest(sha1(body, usedforsecurity=False).digest()) == record.fields.get(
        "warc-payload-digest"
    )
