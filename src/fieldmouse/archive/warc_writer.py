"""WARC 1.1 writer of one shard, one gzip member per record, with its CDXJ index lines.

Each shard has its own series of files and appends to the newest. Records are buffered in memory and
written in large blocks. A checkpoint syncs the file and records its length, and recovery truncates the
file to that length, so no member is ever torn. A body that was received compressed is stored uncompressed
inside its member: compressing it twice would cost time and gain nothing.

The block of a response is the response as received, with one exception: the body is no longer chunked, so
`Transfer-Encoding` is kept under another name (as Common Crawl does) and `Content-Length` gives the
stored length.

One line per stored response: the reversed URL (SURT), the time, and the place of the
record. Each shard appends its lines to its own log as it writes. At the end of a
crawl all logs are sorted, in bounded memory, into one `index.cdxj` for replay tools.
"""

from __future__ import annotations

import heapq
import os
import re
import struct
import time
from collections.abc import Iterable
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from random import SystemRandom
from typing import NamedTuple

import msgspec
from isal import isal_zlib

from fieldmouse import __version__
from fieldmouse.config.rules_from_settings import PageProcessingConfig
from fieldmouse.errors import DamagedFile, storage_errors
from fieldmouse.http.headers import mime_essence
from fieldmouse.storage.checkpoint import ShardState
from fieldmouse.storage.log import Log, atomic_write, sync_directory
from fieldmouse.types.outcome import Response
from fieldmouse.types.request import Request

CHUNK = 16 << 20  # bytes sorted at a time
#: Used instead of a MIME type if the record only refers to an earlier one.
REVISIT = "warc/revisit"

_WWW = re.compile(r"www\d*\.")
_SESSION = re.compile(
    r"(?i)^(.*?)(?:(?:jsessionid=[0-9a-z]{32})|(?:phpsessid=[0-9a-z]{32})|(?:sid=[0-9a-z]{32})"
    r"|(?:aspsessionid[a-z]{8}=[a-z]{24})|(?:cfid=[^&]+&cftoken=[^&]+))(?:&(.*))?$"
)
_SAFE = re.compile(r"https?://[a-z0-9.-]+(?::\d+)?(?:/[a-z0-9._~-]+)+/?\Z").match


def cdxj_mime(answer: Response) -> str:
    """MIME type for the line of a response: that of its first Content-Type, as other tools write it."""
    return mime_essence(answer.header("content-type")) or "unk"


def surt(url: str) -> str:
    """SURT (sort-friendly form) of a normalized http(s) URL, as replay tools look it up.

    >>> surt("https://www.example.org:8443/A/?b=2&a=1")
    'org,example:8443)/a?a=1&b=2'
    """
    slash = url.index("/", 8)
    authority = url[url.index("/") + 2 : slash]
    path, mark, query = url[slash:].partition("?")
    if authority.startswith("["):
        name, _, port = authority[1:].partition("]")
        port = port[1:]
    else:
        name, _, port = authority.partition(":")
        match = _WWW.match(name)
        if match and "." in name[match.end() :]:
            name = name[match.end() :]
        name = ",".join(reversed(name.split(".")))
    if _SAFE(url) is None:
        path = re.sub(r";jsessionid=[0-9a-z]{32}", "", path.lower()).replace("%7e", "~")
        path = re.sub(r"//+", "/", path)
        if match := _SESSION.match(query):
            query = f"{match[1]}{match[2] or ''}".rstrip("&")
        query = "&".join(sorted(query.lower().split("&"))) if mark else ""
    if len(path) > 1 and path.endswith("/"):
        path = path[:-1]
    return f"{name}{':' + port if port else ''}){path}{'?' + query if query else ''}"


class CdxjEntry(msgspec.Struct, frozen=True):
    """JSON part of a line; all values are text, as pywb writes them."""

    url: str
    mime: str
    status: str
    digest: str
    length: str
    offset: str
    filename: str


_encode = msgspec.json.Encoder().encode


def format_cdxj_line(
    url: str, stamp: str, mime: str, status: int, digest: str, offset: int, length: int, filename: str
) -> bytes:
    """One line, ending in a newline. `stamp` is the record's date as 14 digits."""
    entry = CdxjEntry(url, mime, str(status), digest, str(length), str(offset), filename)
    return b"%b %b %b\n" % (surt(url).encode(), stamp.encode(), _encode(entry))


def parse_cdxj_line(raw: bytes) -> tuple[str, CdxjEntry]:
    """Timestamp and entry of one line."""
    _, stamp, rest = raw.split(b" ", 2)
    return stamp.decode(), msgspec.json.decode(rest, type=CdxjEntry)


def merge_cdxj_logs(logs: Iterable[Path], target: Path, chunk: int = CHUNK) -> int:
    """Sort the lines of all `logs` into `target` and return their number. Memory stays near `chunk` bytes."""
    runs: list[Path] = []
    try:
        for log in logs:
            with log.open("rb") as file:
                while lines := file.readlines(chunk):
                    lines.sort()
                    runs.append(target.with_name(f"{target.name}.run-{len(runs)}"))
                    with runs[-1].open("wb") as out:
                        out.writelines(lines)
                    del lines
        count = 0
        with ExitStack() as stack, atomic_write(target, ".fresh") as out:
            for merged_line in heapq.merge(*(stack.enter_context(run.open("rb")) for run in runs)):
                out.write(merged_line)
                count += 1
    finally:
        remove_merge_leftovers(target)
    return count


def remove_merge_leftovers(target: Path) -> None:
    """Delete the temporary files of an interrupted `merge_cdxj_logs`."""
    for name in ("run-*", "fresh"):
        for path in list(target.parent.glob(f"{target.name}.{name}")):
            path.unlink(missing_ok=True)


class PlainAppendLog(Log):
    """Log without frames, whose errors are a `StorageError`; bytes behind its length are cut at once."""

    def __init__(self, path: Path, length: int):
        with storage_errors(path):
            super().__init__(path, length)
            self.roll_back_to_checkpoint()

    def append(self, record: bytes) -> int:
        return self.append_framed(record)

    def flush(self) -> int:
        with storage_errors(self.path):
            return super().flush()

    def sync(self) -> None:
        self.flush()
        with storage_errors(self.path):
            super().sync()


MIN_REVISIT_BYTES = 256  # bytes of payload below which a revisit record is no smaller than the response itself
_GZIP = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"
_STORED = struct.Struct("<BHH")
_TRAILER = struct.Struct("<II")
_END = b"\r\n\r\n"
_CHUNKED = re.compile(rb"(?im)^(transfer-encoding[ \t\r]*:)")
_LENGTH = re.compile(rb"(?im)^content-length[ \t\r]*:[^\n]*\n(?:[ \t][^\n]*\n)*")
_SERIAL = re.compile(r"-(\d{5,})-(\d+)\.warc\.gz\Z")
SAME_PAYLOAD = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
NOT_MODIFIED = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
_HTTP, _FIELDS = "application/http;msgtype=", "application/warc-fields"
ROWS_MIME = "application/x-ndjson"  # one row per line

_bits = SystemRandom().getrandbits


def warc_files(directory: Path, shard: int) -> dict[int, Path]:
    """Return the WARC files of a shard by serial number."""
    matches = ((path, _SERIAL.search(path.name)) for path in directory.glob("*.warc.gz"))
    return {int(match[1]): path for path, match in matches if match and int(match[2]) == shard}


def shard_of(name: str) -> int:
    """Return the shard of a WARC file; -1 for a foreign name."""
    match = _SERIAL.search(name)
    return int(match[2]) if match else -1


class StoredRecord(NamedTuple):
    """Location of a stored response."""

    warc: str
    offset: int  # of its main record
    cdxj_place: int  # of its CDXJ line
    items_at: int  # offset of its rows


def verify_archive(directory: Path, shard: int, state: ShardState) -> None:
    """Raise `DamagedFile` unless the files of this shard reach as far as `state` says; changes nothing."""
    lengths = {directory / state.warc: state.warc_length, cdxj_log_path(directory, shard): state.cdxj_length}
    for path, length in lengths.items():
        if length:
            if not path.exists():
                raise DamagedFile(path, f"{length} bytes were written and synced, but it is missing")
            if (size := path.stat().st_size) < length:
                raise DamagedFile(path, f"{length} bytes were written and synced, {size} are there")


class WarcWriter:
    """One shard's WARC series and its CDXJ log."""

    def __init__(self, directory: Path, shard: int, config: PageProcessingConfig, state: ShardState):
        """Truncate the shard's files to `state` and continue from there."""
        self._directory, self._shard, self._config = directory, shard, config
        self._cdxj = PlainAppendLog(cdxj_log_path(directory, shard), state.cdxj_length)
        self._read_handles: dict[int, int] = {}  # CDXJ logs opened for reading, by shard
        self._serial, self._name = state.serial, state.warc
        for serial, path in warc_files(directory, shard).items():
            if serial > state.serial:
                path.unlink()
        self._warc: PlainAppendLog | None = None
        if state.warc:
            self._warc = PlainAppendLog(directory / state.warc, state.warc_length)
        self._last_id = _bits(128)

    # -- records

    def write_response(
        self,
        link: Request,
        response: Response,
        *,
        payload: bytes,
        digest: str,
        earlier: tuple[str, str] | None = None,
        fields: bytes = b"",
        items: bytes = b"",
    ) -> StoredRecord:
        """Write request, response and metadata; with `earlier` (URL and timestamp) a revisit of that record.

        `items` are the rows extracted from the page, if any. They become a second metadata record.
        """
        warc = self._current_file()
        url = link.url
        date, stamp = _format_dates(int(response.started_at))
        address = f"WARC-IP-Address: {response.address}\r\n" if response.address else ""
        common = f"{address}WARC-Target-URI: {url}\r\nWARC-Date: {date}\r\n"
        record_id = self._record_id()
        kind, extra = "response", ""
        # An unsolicited 304 (the request had no condition) does not refer to any earlier record.
        if response.status == 304 and not payload and (link.etag or link.last_modified):
            kind = "revisit"
            extra = f"WARC-Profile: {NOT_MODIFIED}\r\nWARC-Refers-To-Target-URI: {url}\r\n"
        elif earlier is not None:
            kind = "revisit"
            extra = (
                f"WARC-Profile: {SAME_PAYLOAD}\r\nWARC-Refers-To-Target-URI: {earlier[0]}\r\n"
                f"WARC-Refers-To-Date: {_date_of_timestamp(earlier[1])}\r\n"
            )
        if response.truncated:
            extra += f"WARC-Truncated: {response.truncated}\r\n"
        head = _head_without_chunking(response, len(payload))
        body = payload if kind == "response" else b""
        offset = warc.length
        headers = f"{common}{extra}WARC-Payload-Digest: {digest}"
        packed = any(response.all_headers("content-encoding"))
        warc.append(_encode_record(kind, record_id, headers, f"{_HTTP}response", head, body, packed=packed))
        length = warc.length - offset
        paired = f"{common}WARC-Concurrent-To: {record_id}"
        warc.append(_encode_record("request", self._record_id(), paired, f"{_HTTP}request", response.request))
        metadata = _metadata(link, response) + fields
        warc.append(_encode_record("metadata", self._record_id(), paired, _FIELDS, metadata))
        items_at = warc.length if items else 0
        if items:
            warc.append(_encode_record("metadata", self._record_id(), paired, ROWS_MIME, items))
        cdxj_offset = self._cdxj.length
        seen_as = cdxj_mime(response) if kind == "response" else REVISIT
        self._cdxj.append(
            format_cdxj_line(url, stamp, seen_as, response.status, digest[5:], offset, length, self._name)
        )
        return StoredRecord(self._name, offset, self._shard << 48 | cdxj_offset, items_at)

    def _record_id(self) -> str:
        """New UUID (version 4 in form): a random start, then steps through the whole 128-bit space."""
        self._last_id = (self._last_id + 0x9E3779B97F4A7C15F39CC0605CEDC835) & (1 << 128) - 1
        text = f"{self._last_id:032x}"
        return f"<urn:uuid:{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}>"

    # -- files

    def _current_file(self) -> PlainAppendLog:
        if self._warc is not None and self._warc.length < self._config.warc_size:
            return self._warc
        if self._warc is not None:
            self._warc.sync()
            self._warc.close()
        self._serial += 1
        date, stamp = _format_dates(int(time.time()))
        self._name = f"{self._config.warc_prefix}-{stamp}-{self._serial:05}-{self._shard}.warc.gz"
        self._warc = PlainAppendLog(self._directory / self._name, 0)
        lines = [
            f"software: fieldmouse/{__version__}",
            "format: WARC File Format 1.1",
            "conformsTo: http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/",
            f"http-header-user-agent: {self._config.user_agent}",
        ]
        if self._config.contact:
            lines.append(f"operator: {self._config.contact}")
        headers = f"WARC-Date: {date}\r\nWARC-Filename: {self._name}"
        block = "".join(line + "\r\n" for line in lines).encode()
        self._warc.append(_encode_record("warcinfo", self._record_id(), headers, _FIELDS, block))
        return self._warc

    def sync(self) -> None:
        """Wait until everything written so far has reached the disk."""
        if self._warc is not None:
            self._warc.sync()
        self._cdxj.sync()
        with storage_errors(self._directory):
            sync_directory(self._directory)

    @property
    def file_positions(self) -> tuple[int, str, int, int]:
        """Serial, name and length of the WARC file, and length of the CDXJ log."""
        return self._serial, self._name, self._warc.length if self._warc else 0, self._cdxj.length

    def read_cdxj_line(self, place: int) -> tuple[str, CdxjEntry] | None:
        """Timestamp and entry of the CDXJ line at `place`; None if there is no valid line."""
        shard, offset = place >> 48, place & (1 << 48) - 1
        path = cdxj_log_path(self._directory, shard)
        with storage_errors(path):
            if shard == self._shard:
                self._cdxj.flush()
            if shard not in self._read_handles:
                if not path.exists():
                    return None
                self._read_handles[shard] = os.open(path, os.O_RDONLY)
            raw = os.pread(self._read_handles[shard], 4096, offset)
            if b"\n" not in raw:
                raw = os.pread(self._read_handles[shard], 1 << 17, offset)
        try:
            return parse_cdxj_line(raw[: raw.index(b"\n")])
        except (ValueError, msgspec.DecodeError):
            return None

    def close(self) -> None:
        with ExitStack() as stack:  # all are closed, even if the last write to one of them fails
            for handle in self._read_handles.values():
                stack.callback(os.close, handle)
            stack.callback(self._cdxj.close)
            if self._warc is not None:
                stack.callback(self._warc.close)


def cdxj_log_path(directory: Path, shard: int) -> Path:
    return directory / f"shard-{shard}.cdxj"


def _encode_record(
    kind: str, record_id: str, headers: str, mime: str, block: bytes, body: bytes = b"", packed: bool = False
) -> bytes:
    """One record as one gzip member; its content is `block` followed by `body`, which may be `packed`."""
    top = (
        f"WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Record-ID: {record_id}\r\n{headers}\r\n"
        f"Content-Type: {mime}\r\nContent-Length: {len(block) + len(body)}\r\n\r\n"
    ).encode() + block
    if not packed or not body:
        return isal_zlib.compress(top + body + _END, 1, 31)
    return _partly_compressed_member(top, body + _END)


def _partly_compressed_member(squeezed: bytes, stored: bytes) -> bytes:
    """Gzip member whose first part is compressed and whose second part is stored without compression."""
    stream = isal_zlib.compressobj(1, isal_zlib.DEFLATED, -15)
    parts = [_GZIP, stream.compress(squeezed), stream.flush(isal_zlib.Z_SYNC_FLUSH)]
    size = len(stored)
    for start in range(0, size, 65535):
        piece = stored[start : start + 65535]
        last = start + 65535 >= size
        parts += (_STORED.pack(last, len(piece), len(piece) ^ 0xFFFF), piece)
    check = isal_zlib.crc32(stored, isal_zlib.crc32(squeezed))
    parts.append(_TRAILER.pack(check, (len(squeezed) + size) & 0xFFFFFFFF))
    return b"".join(parts)


def _head_without_chunking(response: Response, size: int) -> bytes:
    """The response head, adjusted for a body that is no longer chunked."""
    head = response.head
    if response.all_headers("transfer-encoding"):
        head = _LENGTH.sub(b"", head)
        head = _CHUNKED.sub(rb"X-Crawler-\1", head)
        head = head.rstrip(b"\r\n") + b"\r\nContent-Length: %d\r\n\r\n" % size
    return head


def _metadata(link: Request, response: Response) -> bytes:
    spent = int((response.ended_at - response.started_at) * 1000)
    via = f"via: {link.via}\r\n" if link.via else ""
    return f"{via}hopsFromSeed: {link.depth}\r\nfetchTimeMs: {spent}\r\n".encode()


@lru_cache(maxsize=64)
def _format_dates(second: int) -> tuple[str, str]:
    moment = time.gmtime(second)
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", moment), time.strftime("%Y%m%d%H%M%S", moment)


def _date_of_timestamp(stamp: str) -> str:
    """The date of a timestamp of 14 digits."""
    return f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:8]}T{stamp[8:10]}:{stamp[10:12]}:{stamp[12:14]}Z"
