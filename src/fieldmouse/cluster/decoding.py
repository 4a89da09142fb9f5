"""Bounded decoding of everything that is read from the coordinator, and the rows in which it stores requests.

The server and the other agents are input from the network: a value may be damaged, hostile, or written by
another version. Such values are decoded only here. Every function checks types, lengths, counts, UTF-8 and
numeric ranges before it allocates, and raises `DamagedValue` and nothing else. Its callers quarantine the
one value and continue.

The limits are far above what this version writes. The Lua scripts have the same ones for values that they
read themselves.

A row is a request without its host, points in time, and default values. It is stored under its host, and
trailing fields that have their default value are left out. A retry that may not start before a point in
time is stored as a wait from now, because no two machines have the same clock; the wait may become longer
by that, never shorter.

A block has many rows, with their keys before them. The scripts build and read blocks, too (`rows.lua` has
the layout). They know the keys of a block, but not its rows, which are compressed here.
"""

from __future__ import annotations

import ipaddress
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from math import isfinite
from typing import Any, TypeVar

import msgspec
import zstandard
from msgspec.structs import astuple

from fieldmouse.cluster.coordinator import (
    DATA_FORMAT,
    AgentReport,
    CrawlSpec,
    DamagedField,
    HostPayload,
    Row,
    newer_format_error,
)
from fieldmouse.policy.balance.agent_choice import MOST_AGENTS, HostDelayEstimates
from fieldmouse.types.host_state import HostState
from fieldmouse.types.request import Request
from fieldmouse.url import Host, Url, host_of, key_of, parse

T = TypeVar("T")

#: Bytes of the rows of a block, unpacked.
MOST_BLOCK = 8 << 20
#: Rows in a block.
MOST_ROWS = 1 << 16
#: Bytes of a row: a URL with the headers and redirects that travel with it.
MOST_ROW = 256 << 10
#: Bytes of all rows of one reply, unpacked. Rows beyond it go back to the server.
MOST_REPLY_ROWS = 16 << 20
#: Bytes of a robots.txt, unpacked: the size that RFC 9309 requires every crawler to read.
MOST_ROBOTS_TXT = 500 << 10
#: Bytes of a host's state, and of the policy's data about it.
MOST_STATE = 64 << 10
#: Bytes of an agent's status figures.
MOST_STATUS = 16 << 10
#: Bytes of a crawl's settings and seeds, as JSON.
MOST_SPEC = 16 << 20
#: Bytes of the URLs of one batch of outcomes, unpacked.
MOST_BATCH_URLS = 16 << 20
#: Agents in one reply.
MOST_REPLY_AGENTS = 1 << 16
#: Counts: the largest integer that the scripts' numbers hold exactly.
MOST_NUMBER = 1 << 53
#: Durations and points in time: the settings allow a thousand years.
MOST_SECONDS = 1e11
RAW, PACKED, EXCLUDING = b"r", b"z", b"x"

_WRAP = 1 << 64
_NAME = re.compile(r"[ -~]{1,128}")  # name of an agent
_HOST = re.compile(r"https?://[!-~]{1,300}")
_URL = re.compile(r"[!-~]+")
_count = struct.Struct("<I")
_unpack = zstandard.ZstdDecompressor(max_window_size=1 << 25)


class DamagedValue(ValueError):
    """A value that this version never writes; `field` names it for people."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}")
        self.field, self.reason = field, why


# -- plain values


def check_bytes(value: Any, field: str, most: int) -> bytes:
    if not isinstance(value, bytes):
        raise DamagedValue(field, f"it is {_type_name(value)} instead of bytes")
    if len(value) > most:
        raise DamagedValue(field, f"it has {len(value):,} bytes, and {most:,} is the limit")
    return value


def decode_text(value: Any, field: str, most: int = 4096) -> str:
    try:
        return check_bytes(value, field, most).decode()
    except UnicodeDecodeError as trouble:
        raise DamagedValue(field, f"it is not UTF-8 ({trouble.reason} at byte {trouble.start})") from None


def decode_int(value: Any, field: str, least: int = 0, most: int = MOST_NUMBER) -> int:
    """Whole number, which a server sends as an integer or in decimal digits."""
    if isinstance(value, bytes) and len(value) <= 20 and re.fullmatch(rb"-?[0-9]+", value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise DamagedValue(field, f"it is {_type_name(value)} instead of a number")
    if not least <= value <= most:
        raise DamagedValue(field, f"it is {_format_number(value)}, and {least:,} to {most:,} is possible")
    return value


def decode_seconds(value: Any, field: str) -> float:
    """Duration, which a server sends in milliseconds. A negative one counts as 0."""
    return max(0, decode_int(value, field, -int(MOST_SECONDS * 1000), int(MOST_SECONDS * 1000))) / 1000


def decode_bool(value: Any, field: str) -> bool:
    return bool(decode_int(value, field, 0, 1))


def check_list(value: Any, field: str, most: int, exactly: int | None = None) -> list[Any]:
    if not isinstance(value, list):
        raise DamagedValue(field, f"it is {_type_name(value)} instead of a list")
    if len(value) > most or (exactly is not None and len(value) != exactly):
        raise DamagedValue(field, f"it has {len(value):,} items instead of {exactly or most:,}")
    return value


def decode_pairs(value: Any, field: str, most: int) -> Iterator[tuple[Any, Any]]:
    """Fields and values of a hash, as a server sends it."""
    flat = check_list(value, field, 2 * most)
    if len(flat) % 2:
        raise DamagedValue(field, "a field has no value")
    return zip(flat[::2], flat[1::2], strict=True)


def decode_host(value: Any, field: str = "host") -> Host:
    """Host as `url.host_of` writes it."""
    name = decode_text(value, field, 320)
    if not _HOST.fullmatch(name) or not _is_host(name):
        raise DamagedValue(field, f"`{name[:80]}` is no host")
    return Host(name)


@lru_cache(maxsize=1 << 14)
def _is_host(name: str) -> bool:
    url = parse(f"{name}/")
    return url is not None and host_of(url) == name


def decode_agent_name(value: Any, field: str = "agent") -> str:
    name = decode_text(value, field, 128)
    if not _NAME.fullmatch(name):
        raise DamagedValue(field, f"{name[:80]!r} is no name of an agent")
    return name


def _type_name(value: Any) -> str:
    return {"NoneType": "missing", "bytes": "text", "int": "a number", "list": "a list"}.get(
        type(value).__name__, type(value).__name__
    )


def _format_number(value: int) -> str:
    return f"{value:,}" if -(10**20) < value < 10**20 else "a number of many digits"


def decompress(value: Any, field: str, most: int) -> bytes:
    """Content of a zstd frame that states its size, which must be at most `most` bytes.

    All our writers state it. A frame that claims more, or states nothing, is rejected before
    decompression.
    """
    frame = check_bytes(value, field, most + 1024)
    try:
        claimed = zstandard.get_frame_parameters(frame).content_size
        if claimed > most:
            size = "does not say its size" if claimed == zstandard.CONTENTSIZE_UNKNOWN else f"has {claimed:,}"
            raise DamagedValue(field, f"the packed value {size}, and {most:,} bytes is the limit")
        return _unpack.decompress(frame)
    except zstandard.ZstdError as trouble:
        raise DamagedValue(field, f"it cannot be unpacked ({trouble})") from None


def _decode_checked(decode: Callable[[bytes], T], value: bytes, field: str) -> T:
    """Decode with msgspec, whose own limits end in these errors."""
    try:
        return decode(value)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as trouble:
        why = "it is nested too deeply" if isinstance(trouble, RecursionError) else str(trouble)[:200]
        raise DamagedValue(field, why) from None


def _check_number(value: float, field: str, least: float = 0.0, most: float = MOST_SECONDS) -> None:
    if not isfinite(value) or not least <= value <= most:
        raise DamagedValue(field, f"it is {value:g}, and {least:g} to {most:g} is possible")


def _check_numbers(value: msgspec.Struct, what: str, names: Sequence[str], most: float = MOST_SECONDS) -> None:
    for name in names:
        _check_number(getattr(value, name), f"{what} ({name})", 0.0, most)


def _check_length(value: str | bytes | Sequence[object], field: str, most: int) -> None:
    if len(value) > most:
        raise DamagedValue(field, f"its length is {len(value):,}, and {most:,} is the limit")


# -- rows


def block_keys(value: Any) -> list[int]:
    """Keys in a block of rows without the excluded ones; does not read the rows."""
    keys, excluded, _, _ = _read_block_header(check_bytes(value, "rows", MOST_BLOCK))
    return [key for key in keys if key not in excluded]


def block_rows(value: Any) -> list[Row]:
    """Rows of a block, in order, without the excluded ones (`lua/rows.lua` has the layout)."""
    blob = check_bytes(value, "rows", MOST_BLOCK)
    keys, excluded, kind, start = _read_block_header(blob)
    body = decompress(blob[start:], "rows", MOST_BLOCK) if kind == PACKED else blob[start:]
    rows: list[Row] = []
    at = 0
    for key in keys:
        if at + 4 > len(body):
            raise DamagedValue("rows", f"there are fewer than {len(keys):,}")
        (length,) = _count.unpack_from(body, at)
        at += 4
        if length > MOST_ROW or at + length > len(body):
            raise DamagedValue("rows", f"one claims {length:,} bytes")
        if key not in excluded:
            rows.append((key, body[at : at + length]))
        at += length
    if at != len(body):
        raise DamagedValue("rows", f"there are more than {len(keys):,}")
    return rows


def _read_block_header(blob: bytes) -> tuple[tuple[int, ...], frozenset[int], bytes, int]:
    """Keys of a block, the excluded keys, its kind, and the offset of its rows."""
    at, excluded = 0, frozenset[int]()
    if blob[:1] == EXCLUDING:
        keys, at = _read_keys_at(blob, 5)
        excluded = frozenset(keys)
    kind = blob[at : at + 1]
    if kind not in (RAW, PACKED) or not kind:
        raise DamagedValue("rows", "it is no block of rows")
    keys, at = _read_keys_at(blob, at + 1)
    return keys, excluded, kind, at


def _read_keys_at(blob: bytes, at: int) -> tuple[tuple[int, ...], int]:
    if at + 4 > len(blob):
        raise DamagedValue("rows", "it is cut short")
    (many,) = _count.unpack_from(blob, at)
    end = at + 4 + 8 * many
    if many > MOST_ROWS or end > len(blob):
        raise DamagedValue("rows", f"it claims {many:,} rows, and has {len(blob):,} bytes")
    return struct.unpack_from(f"<{many}Q", blob, at + 4), end


_link = msgspec.msgpack.Decoder(Request)


def decode_row(row: bytes, host: Host, now: float) -> Request:
    """Row of a host as a request (see `encode_row`): a URL of that host that can be fetched."""
    link = _decode_checked(_link.decode, check_bytes(row, "row", MOST_ROW), "row")
    if not link.url.startswith("/") or not _URL.fullmatch(link.url):
        raise DamagedValue("row", f"`{link.url[:80]}` is no path of a URL")
    url = Url(host + link.url)
    if (read := parse(url)) is None or host_of(read) != host:
        raise DamagedValue("row", f"`{url[:200]}` is no URL of {host}")
    _check_numbers(link, "row", ("depth", "redirects", "tries", "drops", "offset"), MOST_NUMBER)
    _check_numbers(link, "row", ("seen_at", "not_before"))
    if not 0 <= link.simhash < _WRAP:
        raise DamagedValue("row (simhash)", "it is out of range")
    _check_length(link.trail, "row (trail)", 256)
    via = host + link.via if link.via.startswith("/") else link.via
    wait = now + link.not_before if link.not_before else 0.0
    return msgspec.structs.replace(link, url=url, via=via, not_before=wait)


_urls = msgspec.msgpack.Decoder(list[str])


def decode_urls(packed: Any) -> list[str]:
    """URLs as packed by `pack_urls`."""
    return _decode_checked(_urls.decode, decompress(packed, "URLs", MOST_BATCH_URLS), "URLs")


# -- state of a host


_state = msgspec.msgpack.Decoder(HostState)


def decode_host_state(value: Any) -> HostState:
    """State that an agent noted for the next holder of a host; the default if it is empty."""
    if not value:
        return HostState()
    state = _decode_checked(_state.decode, check_bytes(value, "state", MOST_STATE), "state")
    if state.address:
        try:
            ipaddress.ip_address(state.address)
        except ValueError:
            raise DamagedValue("state (address)", f"`{state.address[:60]}` is no address") from None
    _check_numbers(state, "state", ("ready_at", "address_ready_at", "crawl_delay"))
    _check_numbers(state, "state", ("failures", "pages", "put_off"), MOST_NUMBER)
    _check_length(state.unreached, "state (unreached)", 1024)
    for note in state.unreached:
        _check_number(note.until, "state (unreached)")
    return state


_trips = msgspec.msgpack.Decoder(HostDelayEstimates)


def check_policy_data(value: Any) -> bytes:
    """Data of a balance policy about a host, unchanged if that policy can read it."""
    if not value:
        return b""
    row = _decode_checked(_trips.decode, check_bytes(value, "learned", MOST_STATE), "learned")
    if not len(row.agents) == len(row.mean) == len(row.variance) <= MOST_AGENTS:
        raise DamagedValue("learned", "its lists differ in length, or are too long")
    if len({*row.agents}) != len(row.agents):
        raise DamagedValue("learned", "an agent is in it twice")
    least = 1e-12 if row.kind == "trips" else 0.0  # their logarithm is taken
    for number in row.mean:
        _check_number(number, "learned (mean)", least, 1e12)
    for number in row.variance:
        _check_number(number, "learned (variance)", 0.0, 1e15)
    for number in (row.usual, row.visits, row.complaints):
        _check_number(number, "learned", 0.0, 1e12)
    return bytes(value)


def decode_robots_txt(value: Any) -> bytes:
    """Robots.txt as packed by `compress_text`; an empty one stays empty."""
    return decompress(value, "robots.txt", MOST_ROBOTS_TXT) if value != b"" else b""


def decode_host_payload(host_payload: HostPayload) -> tuple[HostState, bytes, list[DamagedField]]:
    """State of a host, the policy's data about it, and those of the two that are damaged and left out."""
    damaged: list[DamagedField] = []
    state = decode_or_report(decode_host_state, host_payload.state, HostState(), "st", damaged)
    learned = decode_or_report(check_policy_data, host_payload.policy_data, b"", "le", damaged)
    return state, learned, damaged


def decode_or_report(decode: Callable[[Any], T], value: Any, default: T, field: str, damaged: list[DamagedField]) -> T:
    """Decode a field of a host; the default if it is unreadable, which is added to `damaged`."""
    try:
        return decode(value)
    except DamagedValue as trouble:
        damaged.append(DamagedField(field, str(trouble)))
        return default


# -- agents and crawls


_agent_status = msgspec.msgpack.Decoder(AgentReport)


def decode_agent_status(value: Any) -> AgentReport:
    """Status figures of an agent."""
    return _decode_status_cached(check_bytes(value, "advert", MOST_STATUS))


@lru_cache(maxsize=256)
def _decode_status_cached(value: bytes) -> AgentReport:
    agent_status = _decode_checked(_agent_status.decode, value, "advert")
    _check_numbers(agent_status, "advert", ("backlog", "speed", "rss_mb", "pages_per_second", "load"), 1e15)
    _check_number(agent_status.price, "advert (price)", -1e6, 1e6)
    _check_numbers(agent_status, "advert", ("pages", "robots", "polls"), MOST_NUMBER)
    _check_length(agent_status.machine, "advert (machine)", 512)
    _check_length(agent_status.directory, "advert (directory)", 8192)
    return agent_status


class _FormatOnly(msgspec.Struct, frozen=True):
    format: int = 1
    made_by: str = ""


_format = msgspec.json.Decoder(_FormatOnly)
_spec = msgspec.json.Decoder(CrawlSpec)


def decode_crawl_spec(value: Any, label: str) -> CrawlSpec:
    """Specification of a crawl as stored on the server of that label.

    The format is checked first: a newer one may differ in everything else.
    """
    encoded = check_bytes(value, "charter", MOST_SPEC)
    header = _decode_checked(_format.decode, encoded, "charter")
    if DATA_FORMAT < header.format < MOST_NUMBER:
        raise newer_format_error(label, header.format, header.made_by[:100])
    spec = _decode_checked(_spec.decode, encoded, "charter")
    if not 0 <= spec.key_seed < 1 << 63 or not 0 <= spec.place < 1 << 16:
        raise DamagedValue("charter", "a number is out of range")
    for seed in spec.seeds:
        if parse(seed) is None:
            raise DamagedValue("charter", f"`{seed[:200]}` is no URL")
    if not all(text.isprintable() for text in (*spec.servers, spec.made_by)):
        raise DamagedValue("charter", "a text is not printable")
    for server in spec.servers:
        _check_length(server, "charter (servers)", 1024)
    return spec


_encode = msgspec.msgpack.Encoder().encode
_DEFAULTS = astuple(Request(Url("")))
_MOST_ROW = 128 << 10  # bytes, half of the longest row that `decoding` reads
_LEADING_FIELDS = 5  # they say how a request was found; the others usually have their defaults


def encode_row(link: Request, host: Host, now: float) -> bytes:
    """
    >>> link = Request(Url("http://a.test/b"), via="http://a.test/")
    >>> from fieldmouse.cluster.decoding import decode_row
    >>> decode_row(encode_row(link, Host("http://a.test"), 0.0), Host("http://a.test"), 0.0) == link
    True
    """
    via = link.via[len(host) :] if link.via.startswith(host + "/") else link.via
    url = Url(link.url[len(host) :])
    if astuple(link)[_LEADING_FIELDS:] == _DEFAULTS[_LEADING_FIELDS:]:
        return _encode((url, link.depth, via, link.kind, link.seen_at))
    wait = max(0.0, link.not_before - now) if link.not_before else 0.0
    bare = msgspec.structs.replace(link, url=url, via=via, not_before=wait)
    row = _encode_without_defaults(bare)
    if len(row) > _MOST_ROW:  # readers reject it: how the URL was found is worth less than the URL
        row = _encode_without_defaults(msgspec.structs.replace(bare, via="", trail=(), etag="", last_modified=""))
    return row


def _encode_without_defaults(link: Request) -> bytes:
    fields = astuple(link)
    length = len(fields)
    while fields[length - 1] == _DEFAULTS[length - 1]:
        length -= 1
    return _encode(fields[: max(length, _LEADING_FIELDS)])


def pack_urls(urls: list[str]) -> bytes:
    """Pack acknowledged URLs, for the agent that must fetch them again."""
    return zstandard.ZstdCompressor().compress(_encode(urls))


def unpack_urls(packed: bytes) -> list[str]:
    """Unpack URLs that this process packed. URLs from a server are read by `decoding.decode_urls`."""
    return _urls.decode(zstandard.ZstdDecompressor().decompress(packed))


#: Blocks of at most this many rows are not compressed: it would not pay.
MOST_UNCOMPRESSED_ROWS = 4

#: Most rows in a block: larger blocks compress little better, and an agent takes whole blocks.
MOST_BLOCK_ROWS = 128

_pack = zstandard.ZstdCompressor(3).compress
_entry = struct.Struct("<QI")


def signed_key(key: int) -> int:
    """Key as the server's integer sets store it: with a sign.

    >>> signed_key(2**64 - 1), signed_key(5)
    (-1, 5)
    """
    return key - _WRAP if key >= 1 << 63 else key


def block_entries(rows: Iterable[Row]) -> tuple[list[int], list[bytes]]:
    r"""Input of the script that makes blocks: keys as signed integers, and each row with its key and length.

    Only the first row of each key is kept.

    >>> block_entries([(258, b"ab"), (258, b"c")])
    ([258], [b'\x02\x01\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00ab'])
    """
    once: dict[int, bytes] = {}
    for key, row in rows:
        if key not in once:
            once[key] = _entry.pack(key, len(row)) + row
    return [key - _WRAP if key >= 1 << 63 else key for key in once], list(once.values())


def encode_block(rows: Sequence[Row]) -> bytes:
    """Build a block of these rows.

    >>> block_rows(encode_block([(7, b"seven"), (8, b"eight")]))
    [(7, b'seven'), (8, b'eight')]
    """
    keys = struct.pack(f"<{len(rows)}Q", *(key for key, _ in rows))
    body = b"".join(_count.pack(len(row)) + row for _, row in rows)
    head = _count.pack(len(rows)) + keys
    return RAW + head + body if len(rows) <= MOST_UNCOMPRESSED_ROWS else PACKED + head + _pack(body)


def repack_blocks(blobs: Sequence[bytes]) -> list[bytes]:
    """Repack the same rows in the same order into blocks of the largest size.

    Raises `DamagedValue` if one of them is no block, or has rows that no block may have.
    """
    rows = [row for blob in blobs for row in block_rows(blob)]
    return [encode_block(rows[start : start + MOST_BLOCK_ROWS]) for start in range(0, len(rows), MOST_BLOCK_ROWS)]


def compress_text(text: bytes) -> bytes:
    """Compress a robots.txt; an empty one stays empty."""
    return _pack(text) if text else b""


class UrlsToRefetch:
    """The URLs of a batch that are sent out again: rows by host, and the kinds of their outcomes.

    Left out are URLs that did not count (an empty `counted` means that all counted), and URLs that their
    agent retried since: each key as often as `retried` has it, which is lowered by that. How a URL was
    found is lost with the agent; only the URL is known. Raises `ValueError` if `urls` are no URLs with
    kinds.
    """

    def __init__(
        self, urls: bytes, counted: Sequence[bool], kinds: Sequence[str], retried: Counter[int], key_seed: int
    ):
        self.hosts: dict[Host, tuple[list[Row], list[str]]] = {}
        self.retried_keys: list[int] = []  # keys that were retried
        texts = decode_urls(urls)
        for text, counts, kind in zip(texts, counted or [True] * len(texts), kinds, strict=True):
            if (url := parse(text)) is None:
                continue  # not fetchable
            key = key_of(url, key_seed)
            if counts and retried[key] > 0:
                retried[key] -= 1
                self.retried_keys.append(key)
            elif counts:
                host = host_of(url)
                rows, host_kinds = self.hosts.setdefault(host, ([], []))
                rows.append((key, encode_row(Request(url), host, 0.0)))
                host_kinds.append(kind)
