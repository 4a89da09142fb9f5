"""Rows and blocks: requests as the coordinator stores them.

A row is a request without its host, points in time, and default values. It is stored under its host, and
trailing fields that have their default value are left out. A retry that may not start before a point in
time is stored as a wait from now, because no two machines have the same clock; the wait may become longer
by that, never shorter.

A block has many rows, with their keys before them. The scripts build and read blocks, too (`rows.lua` has
the layout). They know the keys of a block, but not its rows, which are compressed here.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec
import zstandard
from msgspec.structs import astuple

from fieldmouse.cluster.coordinator import Row
from fieldmouse.cluster.decoding import PACKED, RAW, block_rows, decode_urls
from fieldmouse.types.request import Request
from fieldmouse.url import Host, Url, host_of, key_of, parse

_encode = msgspec.msgpack.Encoder().encode
_urls = msgspec.msgpack.Decoder(list[str])
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
    row = _without_tail(bare)
    if len(row) > _MOST_ROW:  # readers reject it: how the URL was found is worth less than the URL
        row = _without_tail(msgspec.structs.replace(bare, via="", trail=(), etag="", last_modified=""))
    return row


def _without_tail(link: Request) -> bytes:
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


MOST_UNCOMPRESSED_ROWS = 4
"""Blocks of at most this many rows are not compressed: it would not pay."""

MOST_BLOCK_ROWS = 128
"""Most rows in a block: larger blocks compress little better, and an agent takes whole blocks."""

_pack = zstandard.ZstdCompressor(3).compress
_count = struct.Struct("<I")
_entry = struct.Struct("<QI")
_SIGN, _WRAP = 1 << 63, 1 << 64


def signed_key(key: int) -> int:
    """Key as the server's integer sets store it: with a sign.

    >>> signed_key(2**64 - 1), signed_key(5)
    (-1, 5)
    """
    return key - _WRAP if key >= _SIGN else key


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
    return [key - _WRAP if key >= _SIGN else key for key in once], list(once.values())


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
    return [
        encode_block(rows[start : start + MOST_BLOCK_ROWS]) for start in range(0, len(rows), MOST_BLOCK_ROWS)
    ]


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
