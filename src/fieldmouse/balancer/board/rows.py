"""A link as the board keeps it: without its host, without moments, and without what goes without saying.

It is kept under its host, and fields at its end that have nothing to say are left out.

A retry that may not be made before a moment waits for as long again where it comes to: no two
machines have the same clock, and a wait may be longer for that, never shorter.
"""

from __future__ import annotations

import msgspec
import zstandard
from msgspec.structs import astuple

from fieldmouse.errors import BoardError
from fieldmouse.records import Link
from fieldmouse.url import Host, Url

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Link).decode
_urls = msgspec.msgpack.Decoder(list[str])
_USUAL = astuple(Link(Url("")))
_FOUND = 5  # fields that say how a link was found; most links have nothing to say in the others


def to_row(link: Link, host: Host, now: float) -> bytes:
    """
    >>> link = Link(Url("http://a.test/b"), via="http://a.test/")
    >>> to_link(to_row(link, Host("http://a.test"), 0.0), Host("http://a.test"), 0.0) == link
    True
    """
    via = link.via[len(host) :] if link.via.startswith(host + "/") else link.via
    url = Url(link.url[len(host) :])
    if astuple(link)[_FOUND:] == _USUAL[_FOUND:]:
        return _encode((url, link.depth, via, link.kind, link.seen_at))
    wait = max(0.0, link.not_before - now) if link.not_before else 0.0
    fields = astuple(msgspec.structs.replace(link, url=url, via=via, not_before=wait))
    said = len(fields)
    while fields[said - 1] == _USUAL[said - 1]:
        said -= 1
    return _encode(fields[: max(said, _FOUND)])


def to_link(row: bytes, host: Host, now: float) -> Link:
    """The link; a BoardError if the row is none of this version's: the board keeps it for others."""
    try:
        link = _decode(row)
    except msgspec.MsgspecError as trouble:
        raise unread(host, trouble) from trouble
    via = host + link.via if link.via.startswith("/") else link.via
    wait = now + link.not_before if link.not_before else 0.0
    return msgspec.structs.replace(link, url=Url(host + link.url), via=via, not_before=wait)


def unread(host: Host, why: Exception) -> BoardError:
    return BoardError(
        f"what the board has of {host} cannot be read: {why}",
        "another version of fieldmouse has written it: run the same one on all machines",
    )


def pack_urls(urls: list[str]) -> bytes:
    """URLs that were booked, for who must fetch them again."""
    return zstandard.ZstdCompressor().compress(_encode(urls))


def unpack_urls(packed: bytes) -> list[str]:
    return _urls.decode(zstandard.ZstdDecompressor().decompress(packed))
