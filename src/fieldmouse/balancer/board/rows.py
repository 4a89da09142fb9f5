"""A link as the board keeps it: without its host, without moments, and without what goes without saying.

It is kept under its host, and fields at its end that have nothing to say are left out.

A retry that may not be made before a moment waits for as long again where it comes to: no two
machines have the same clock, and a wait may be longer for that, never shorter.
"""

from __future__ import annotations

import msgspec
import zstandard
from msgspec.structs import astuple

from fieldmouse.records import Link
from fieldmouse.url import Host, Url

_encode = msgspec.msgpack.Encoder().encode
_urls = msgspec.msgpack.Decoder(list[str])
_USUAL = astuple(Link(Url("")))
_LONG = 128 << 10  # bytes, half of what `decoding` reads of a row
_FOUND = 5  # fields that say how a link was found; most links have nothing to say in the others


def to_row(link: Link, host: Host, now: float) -> bytes:
    """
    >>> link = Link(Url("http://a.test/b"), via="http://a.test/")
    >>> from fieldmouse.balancer.board.decoding import link_of
    >>> link_of(to_row(link, Host("http://a.test"), 0.0), Host("http://a.test"), 0.0) == link
    True
    """
    via = link.via[len(host) :] if link.via.startswith(host + "/") else link.via
    url = Url(link.url[len(host) :])
    if astuple(link)[_FOUND:] == _USUAL[_FOUND:]:
        return _encode((url, link.depth, via, link.kind, link.seen_at))
    wait = max(0.0, link.not_before - now) if link.not_before else 0.0
    bare = msgspec.structs.replace(link, url=url, via=via, not_before=wait)
    row = _without_tail(bare)
    if len(row) > _LONG:  # no reader takes it: how it was found is worth less than the URL
        row = _without_tail(msgspec.structs.replace(bare, via="", trail=(), etag="", last_modified=""))
    return row


def _without_tail(link: Link) -> bytes:
    fields = astuple(link)
    said = len(fields)
    while fields[said - 1] == _USUAL[said - 1]:
        said -= 1
    return _encode(fields[: max(said, _FOUND)])


def pack_urls(urls: list[str]) -> bytes:
    """URLs that were booked, for who must fetch them again."""
    return zstandard.ZstdCompressor().compress(_encode(urls))


def unpack_urls(packed: bytes) -> list[str]:
    """What this process has packed. What comes from a server is read by `decoding.urls_of`."""
    return _urls.decode(zstandard.ZstdDecompressor().decompress(packed))
