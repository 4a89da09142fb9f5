"""Reader of the archive: WARC records, responses, extracted rows, and the check of WARC files against CDXJ lines.

Every record is one gzip member with its own checksum, so a file is read member by member and damage is
located by the offset of its member. The CDXJ line of a record can be computed exactly, which is used to
check CDXJ logs and to rebuild them.

A revisit record is written when the payload is stored already; it has headers and no body. The CDXJ logs name
the record that has the body. They are read once, when the first revisit is looked up. Nothing is locked.

The rows of a page are one record in its WARC file. The page's outcome stores the offset of that record, so
reading one page's rows reads nothing else.

A shard writes a record and its line together, so records and lines must agree in
order. `audit_record_heads` reads only the head of each record that a line names. `audit_all_bytes` reads
every byte and determines which of the two is wrong where they differ.
"""

from __future__ import annotations

import os
import re
import zlib
from base64 import b32decode
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from fieldmouse.archive import warc_writer
from fieldmouse.archive.duplicate_detection import DigestStore, format_digest, payload_digest
from fieldmouse.archive.warc_writer import WarcWriter, cdxj_log_path
from fieldmouse.errors import DamagedFile
from fieldmouse.http import headers
from fieldmouse.storage.checkpoint import ShardState
from fieldmouse.types.outcome import OutcomeRow, Response
from fieldmouse.types.request import Request
from fieldmouse.url import Url

#: Start of each of our members: deflate, no flags, no time.
MEMBER_MAGIC = b"\x1f\x8b\x08\x00\x00\x00\x00\x00"
_HEADER = 10  # bytes
_LAST_BYTES = frozenset(b"%c%c" % (effort, system) for effort in (0, 2, 4) for system in (3, 255))
_PIECE = 1 << 20
_PEEK = 2048  # bytes read for the head of a record
_LONGEST_HEAD = 1 << 20
_END = b"\r\n\r\n"
#: Record types with a line in the CDXJ.
INDEXED_TYPES = frozenset(("response", "revisit"))


class UnreadableMember(Exception):
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


def read_members(path: Path, start: int, end: int, *, piece: int = _PIECE) -> Iterator[GzipMember]:
    """Yield the members from `start` to `end`, which must fit exactly; raises `UnreadableMember` if not.

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
                        raise UnreadableMember(at, "it ends within a record")
                if first and not (held.startswith(MEMBER_MAGIC) and held[8:10] in _LAST_BYTES):
                    raise UnreadableMember(at, "no record begins there")
                first = False
                size += len(held)
                try:
                    parts.append(stream.decompress(held))
                except zlib.error as error:
                    raise UnreadableMember(at, f"it cannot be decompressed ({error})") from None
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
            raise UnreadableMember(offset, f"it cannot be decompressed ({error})") from None
        top = content.find(_END)
        if top >= 0 and (content.find(b"\n\r\n", top + 4) >= 0 or content.find(b"\n\n", top + 4) >= 0):
            break
        if not piece or stream.eof or len(content) > _LONGEST_HEAD:
            break
    return WarcRecord(*_read_head(content))


def response_in_record(record: WarcRecord) -> Response:
    """Return the response in a response or revisit record."""
    top, body = headers.split_head(record.block)
    try:
        fields = headers.parse_head(top)
    except headers.InvalidHead as error:
        raise ValueError(f"the response in the record is not HTTP ({error})") from None
    address, truncated = (record.fields.get(name, "") for name in ("warc-ip-address", "warc-truncated"))
    return Response(fields.status, top, body, b"", address, 0.0, 0.0, 0.0, fields.headers, truncated)


def cdxj_line(record: WarcRecord, offset: int, length: int, filename: str) -> bytes:
    """Return the CDXJ line of a response or revisit record."""
    answer = response_in_record(record)
    seen_as = warc_writer.cdxj_mime(answer) if record.kind == "response" else warc_writer.REVISIT
    stamp = re.sub(r"[^0-9]", "", record.fields["warc-date"])
    digest = record.fields["warc-payload-digest"]
    return warc_writer.format_cdxj_line(record.url, stamp, seen_as, answer.status, digest[5:], offset, length, filename)


_DECODE_ERRORS = (ValueError, KeyError, UnicodeDecodeError, msgspec.MsgspecError)


class WarcDamage(msgspec.Struct, frozen=True):
    """Unreadable place in a WARC file; offset -1 if the whole file is missing."""

    file: str
    offset: int
    what: str


class ShardAudit(msgspec.Struct):
    """Damage found in one shard's archive."""

    records: int = 0  # intact responses
    size: int = 0  # committed WARC bytes
    wounds: list[WarcDamage] = []
    cdxj: str = ""  # description of the damage of the CDXJ log, "" if none
    unreadable: list[str] = []  # URLs of damaged records, as far as the log names them


def expected_warc_files(directory: Path, shard: int, state: ShardState) -> Iterator[tuple[str, Path | None, int]]:
    """Name, path and committed length of each WARC file that the shard should have, oldest first."""
    paths = warc_writer.warc_files(directory, shard)
    for serial in range(1, state.serial + 1):
        path = paths.get(serial)
        if serial == state.serial:
            path = directory / state.warc
            yield state.warc, path if path.is_file() else None, state.warc_length
        elif path is None:
            yield f"the WARC file number {serial:05} of shard {shard}", None, 0
        else:
            yield path.name, path, path.stat().st_size


def read_cdxj_lines(path: Path, length: int) -> Iterator[bytes]:
    """Lines of a CDXJ log up to `length`; the last one may be cut off if the log is damaged."""
    with path.open("rb") as file:
        left = length
        while left > 0 and (line := file.readline(left)):
            left -= len(line)
            yield line


def audit_record_heads(directory: Path, shard: int, state: ShardState) -> ShardAudit:
    """Check the lines and the heads of the records; on any inconsistency run `audit_all_bytes`."""
    report = ShardAudit()
    handles: dict[str, int] = {}
    last: dict[str, int] = {}  # by file: offset of the record that the newest line names
    try:
        for name, path, length in expected_warc_files(directory, shard, state):
            if path is None or path.stat().st_size < length:
                return audit_all_bytes(directory, shard, state)
            handles[name] = os.open(path, os.O_RDONLY)
            report.size += length
        log = cdxj_log_path(directory, shard)
        if state.cdxj_length and (not log.is_file() or log.stat().st_size < state.cdxj_length):
            return audit_all_bytes(directory, shard, state)
        for line in read_cdxj_lines(log, state.cdxj_length):
            try:
                _, entry = warc_writer.parse_cdxj_line(line)
                handle, offset, size = handles[entry.filename], int(entry.offset), int(entry.length)
                same = cdxj_line(read_record_head(handle, offset, size), offset, size, entry.filename) == line
                follows = os.pread(handle, len(MEMBER_MAGIC), offset + size) == MEMBER_MAGIC
            except (*_DECODE_ERRORS, UnreadableMember):
                return audit_all_bytes(directory, shard, state)
            if not same or not follows or offset < last.get(entry.filename, 0):
                return audit_all_bytes(directory, shard, state)
            last[entry.filename] = offset
            report.records += 1
        for name, path, length in expected_warc_files(directory, shard, state):
            assert path is not None
            try:
                if length:
                    next(read_members(path, 0, length))
                for _ in read_members(path, last.get(name, 0), length):
                    pass
            except UnreadableMember:
                return audit_all_bytes(directory, shard, state)
        return report
    except OSError as trouble:
        report.wounds.append(WarcDamage(Path(str(trouble.filename)).name, -1, trouble.strerror or str(trouble)))
        return report
    finally:
        for handle in handles.values():
            os.close(handle)


def audit_all_bytes(directory: Path, shard: int, state: ShardState) -> ShardAudit:
    """Read every member of every file with checksum and digest, and compare the log's lines with them."""
    report = ShardAudit(wounds=[], unreadable=[])
    log = cdxj_log_path(directory, shard)
    size = log.stat().st_size if log.is_file() else 0
    lines: Iterator[bytes] = iter(())
    if not log.is_file() and state.cdxj_length:
        report.cdxj = "it is missing"
    elif size < state.cdxj_length:
        report.cdxj = f"{state.cdxj_length} bytes were written and synced, {size} are there"
    elif state.cdxj_length:
        lines = read_cdxj_lines(log, state.cdxj_length)
    for offset, expected, name in intact_responses(directory, shard, state, report):
        if report.cdxj:
            continue
        line = next(lines, b"")
        while line != expected:
            place = _record_place_of_line(line)
            if place is None or place == (name, offset) or not report.wounds:
                report.cdxj = f"the line of the record at byte {offset} of `{name}` does not match it"
                break
            report.unreadable.append(_url_of_line(line))
            line = next(lines, b"")
    if not report.cdxj:
        for line in lines:
            if report.wounds and _record_place_of_line(line) is not None:
                report.unreadable.append(_url_of_line(line))
            else:
                report.cdxj = "it has lines without a record"
                break
    return report


def intact_responses(
    directory: Path, shard: int, state: ShardState, report: ShardAudit | None = None
) -> Iterator[tuple[int, bytes, str]]:
    """Offset, CDXJ line and file of each intact response; damage is added to `report`."""
    report = report or ShardAudit()
    for name, path, length in expected_warc_files(directory, shard, state):
        if path is None:
            report.wounds.append(WarcDamage(name, -1, "it is missing"))
            continue
        size = path.stat().st_size
        end = min(size, length)
        report.size += length
        at: int | None = 0
        while at is not None and at < end:
            try:
                for member in read_members(path, at, end):
                    at = member.offset
                    record = read_record(member.content)
                    if record.kind == "response":
                        digest = format_digest(payload_digest(headers.split_head(record.block)[1]))
                        if digest != record.fields.get("warc-payload-digest"):
                            raise ValueError("the payload does not match its digest")
                    if record.kind in INDEXED_TYPES:
                        line = cdxj_line(record, member.offset, member.length, name)
                        report.records += 1
                        yield member.offset, line, name
                    at = member.offset + member.length
            except UnreadableMember as torn:
                report.wounds.append(WarcDamage(name, torn.offset, torn.reason))
                at = find_next_member(path, torn.offset + 1, end)
            except _DECODE_ERRORS as wrong:
                report.wounds.append(WarcDamage(name, at, str(wrong)))
                at = find_next_member(path, at + 1, end)
        if size < length:
            report.wounds.append(WarcDamage(name, size, f"{length} bytes were written and synced, {size} are there"))


def _record_place_of_line(line: bytes) -> tuple[str, int] | None:
    try:
        _, entry = warc_writer.parse_cdxj_line(line)
        return entry.filename, int(entry.offset)
    except _DECODE_ERRORS:
        return None


def _url_of_line(line: bytes) -> str:
    return warc_writer.parse_cdxj_line(line)[1].url


_RECORD_PIECE = 64 << 10  # bytes read at a time: most records are not longer
_REVISIT = f'"{warc_writer.REVISIT}"'.encode()
_DIGEST = b'"digest":"'


class ArchiveReader:
    """The archive in `directory` as of a checkpoint; `states` are its shards at that checkpoint."""

    def __init__(self, directory: Path, states: Sequence[ShardState]):
        self.directory, self._states = directory, states

    def read_response(self, warc: str, offset: int) -> Response:
        """Return the response stored at `offset` of file `warc`; its body is still content-encoded.

        Raises `OSError`, `UnreadableMember`, `ValueError` or `KeyError` if it cannot be read.
        """
        return read_response(self.directory, warc, offset, lambda digest: self._original_places[digest.encode()])

    def cdxj_entries_of_url(self, url: Url) -> Iterator[tuple[str, warc_writer.CdxjEntry]]:
        """Yield timestamp and entry of every record of `url`, oldest first within a shard."""
        begins = warc_writer.surt(url).encode() + b" "
        for line in self._all_cdxj_lines():
            if line.startswith(begins):
                stamp, entry = warc_writer.parse_cdxj_line(line)
                if entry.url == url:  # different URLs may share a SURT key
                    yield stamp, entry

    @cached_property
    def _original_places(self) -> dict[bytes, tuple[str, int]]:
        """Map the digest of each revisited payload to the file and offset of its record."""
        wanted = {_digest_of_line(line) for line in self._all_cdxj_lines() if _REVISIT in line}
        places: dict[bytes, tuple[str, int]] = {}
        for line in self._all_cdxj_lines() if wanted else ():
            if (digest := _digest_of_line(line)) in wanted and digest not in places and _REVISIT not in line:
                entry = warc_writer.parse_cdxj_line(line)[1]
                places[digest] = (entry.filename, int(entry.offset))
        return places

    def _all_cdxj_lines(self) -> Iterator[bytes]:
        for shard, state in enumerate(self._states):
            if state.cdxj_length:
                yield from read_cdxj_lines(cdxj_log_path(self.directory, shard), state.cdxj_length)


def read_response(directory: Path, warc: str, offset: int, original: Callable[[str], tuple[str, int]]) -> Response:
    """Return the stored response; `original` maps a digest to the file and offset of its payload."""
    path = directory / warc
    member = next(read_members(path, offset, path.stat().st_size, piece=_RECORD_PIECE))
    record = read_record(member.content)
    answer = response_in_record(record)
    if record.kind != "revisit":
        return answer
    place = original(record.fields["warc-payload-digest"][5:])
    return msgspec.structs.replace(answer, body=read_response(directory, *place, original).body)


def _digest_of_line(line: bytes) -> bytes:
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
        record = read_record(next(read_members(path, row.items_at, path.stat().st_size, piece=_ITEM_BYTES)).content)
        rows = [_decode(line) for line in record.block.splitlines()]
        if record.url != row.url or len(rows) != row.items:
            raise ValueError("it holds other rows")
    except FileNotFoundError:
        raise DamagedFile(path, f"it is missing, and with it the rows of {row.url}") from None
    except (UnreadableMember, OSError, ValueError, KeyError, msgspec.MsgspecError) as trouble:
        raise DamagedFile(path, f"the rows of {row.url} cannot be read ({trouble})") from trouble
    return rows


class ArchivedVersionReader:
    """Stored responses of a running crawl, read for comparison with newly fetched ones."""

    def __init__(self, directory: Path, doubles: DigestStore, archive: WarcWriter):
        self._directory, self._doubles, self._archive = directory, doubles, archive

    def read_response(self, link: Request) -> Response | None:
        """The stored response that `link` refers to; None if it cannot be read."""
        try:
            return read_response(self._directory, link.warc, link.offset, self._original_place)
        except (OSError, UnreadableMember, ValueError, KeyError, RecursionError):
            return None

    def _original_place(self, digest: str) -> tuple[str, int]:
        place = self._doubles.find_exact(b32decode(digest))
        located = self._archive.read_cdxj_line(place) if place is not None else None
        if located is None or located[1].digest != digest:
            raise KeyError(digest)
        return located[1].filename, int(located[1].offset)
