"""Request as the coordinator stores it: without its host, points in time, and default values.

It is stored under its host. Trailing fields that have their default value are left out.

A retry that may not start before a point in time is stored as a wait from now, because no two machines
have the same clock. The wait may become longer by that, never shorter.
"""

from __future__ import annotations

import msgspec
import zstandard
from msgspec.structs import astuple

from fieldmouse.records import Link
from fieldmouse.url import Host, Url

_encode = msgspec.msgpack.Encoder().encode
_urls = msgspec.msgpack.Decoder(list[str])
_DEFAULTS = astuple(Link(Url("")))
_MOST_ROW = 128 << 10  # bytes, half of the longest row that `decoding` reads
_LEADING_FIELDS = 5  # they say how a request was found; the others usually have their defaults


def to_row(link: Link, host: Host, now: float) -> bytes:
    """
    >>> link = Link(Url("http://a.test/b"), via="http://a.test/")
    >>> from fieldmouse.balancer.board.decoding import link_of
    >>> link_of(to_row(link, Host("http://a.test"), 0.0), Host("http://a.test"), 0.0) == link
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


def _without_tail(link: Link) -> bytes:
    fields = astuple(link)
    length = len(fields)
    while fields[length - 1] == _DEFAULTS[length - 1]:
        length -= 1
    return _encode(fields[: max(length, _LEADING_FIELDS)])


def pack_urls(urls: list[str]) -> bytes:
    """Pack acknowledged URLs, for the agent that must fetch them again."""
    return zstandard.ZstdCompressor().compress(_encode(urls))


def unpack_urls(packed: bytes) -> list[str]:
    """Unpack URLs that this process packed. URLs from a server are read by `decoding.urls_of`."""
    return _urls.decode(zstandard.ZstdDecompressor().decompress(packed))
