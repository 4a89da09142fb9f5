"""URLs as the web means them, and the three names we derive from them.

A `Url` is a WHATWG-normalised http(s) address without fragment or credentials, and
without the dot that may end a host's name, written as text. It becomes one at the door
(`parse`, `resolve`) and is trusted inside. From it: the `Host` (scheme and authority,
what politeness is owed to), the path (what robots.txt speaks of) and the site (the
registered domain).
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import NewType

import xxhash
from ada_url import ada_adapter as _ada
from publicsuffixlist import PublicSuffixList

from fieldmouse.errors import UsageError

Url = NewType("Url", str)
Host = NewType("Host", str)
"""Scheme and authority, such as `https://example.org` or `http://127.0.0.1:8000`."""

Key = NewType("Key", int)
"""A URL's keyed 64-bit hash: what the sieve remembers instead of the text."""

LOOPBACK = "loopback"
"""The site of every loopback address and localhost name; see `site_of`."""

_lib, _ffi = _ada.lib, _ada.ffi  # type: ignore[attr-defined]


def resolve(href: str, base: Url | str | None = None) -> Url | None:
    """The URL that `href` means on the page `base`, or None if it is not one we can fetch.

    >>> resolve("../b?x=1#top", "http://example.org/a/c")
    'http://example.org/b?x=1'
    >>> resolve("mailto:someone@example.org") is None
    True
    >>> resolve("http://example.org.:81/")
    'http://example.org:81/'
    """
    try:
        given = href.encode()
    except UnicodeEncodeError:  # lone surrogates out of broken pages
        return None
    if base is None:
        parsed = _lib.ada_parse(given, len(given))
    else:
        ground = base.encode()
        parsed = _lib.ada_parse_with_base(given, len(given), ground, len(ground))
    try:
        if not _lib.ada_is_valid(parsed):
            return None
        scheme = _text(_lib.ada_get_protocol(parsed))
        if scheme not in ("http:", "https:"):
            return None
        if _lib.ada_has_credentials(parsed):
            _lib.ada_set_username(parsed, b"", 0)
            _lib.ada_set_password(parsed, b"", 0)
        _lib.ada_clear_hash(parsed)
        written = _text(_lib.ada_get_href(parsed))
    finally:
        _lib.ada_free(parsed)
    slash = written.index("/", 8)
    if written[slash - 1] == "." or ".:" in written[:slash]:
        return _without_dot(written, slash)
    return Url(written)


def _without_dot(written: str, slash: int) -> Url:
    """A name with a dot at its end is the same host as without: one queue, one robots.txt, one key."""
    name, colon, port = written[:slash].partition("://")[2].partition(":")
    if name.endswith("..") or not name.endswith(".") or name == ".":
        return Url(written)
    return Url(f"{written[: written.index('/')]}//{name[:-1]}{colon}{port}{written[slash:]}")


def seed(text: str) -> Url:
    """The URL that somebody wants to begin with; UsageError, with the likely meaning, if it is none.

    >>> seed(" https://example.org ")
    'https://example.org/'
    """
    found = parse(text)
    if found is None:
        near = f"https://{text.strip()}"
        could = "://" not in text and parse(near) is not None
        raise UsageError(
            f"`{text}` is no URL we can crawl",
            f"did you mean `{near}`?" if could else "a seed begins with http:// or https://",
        )
    return found


def parse(text: str) -> Url | None:
    """The URL a person or a file wrote; white space around it is forgiven.

    >>> parse(" HTTP://Example.ORG:80/a/../b#c ")
    'http://example.org/b'
    """
    return resolve(text.strip())


def _text(view: object) -> str:
    raw: bytes = _ffi.unpack(view.data, view.length)  # type: ignore[attr-defined]
    return raw.decode()


def host_of(url: Url) -> Host:
    """
    >>> host_of(Url("http://example.org:81/a?b"))
    'http://example.org:81'
    """
    return Host(url[: url.index("/", 8)])


def path_of(url: Url) -> str:
    """Path and query: what goes into the request line and what robots.txt matches.

    >>> path_of(Url("http://example.org/a?b"))
    '/a?b'
    """
    return url[url.index("/", 8) :]


def name_of(host: Host) -> str:
    """The DNS name or address literal of a host, without scheme, port or brackets.

    >>> name_of(Host("http://[::1]:80"))
    '::1'
    """
    authority = host[host.index("/") + 2 :]
    if authority.startswith("["):
        return authority[1 : authority.index("]")]
    return authority.partition(":")[0]


def port_of(host: Host) -> int:
    """
    >>> port_of(Host("https://example.org")), port_of(Host("http://[::1]:81"))
    (443, 81)
    """
    tail = host[host.index("/") + 2 :].rpartition("]")[2]
    _, colon, port = tail.rpartition(":")
    if colon and port:
        return int(port)
    return 443 if host.startswith("https") else 80


@lru_cache(maxsize=1 << 14)
def site_of(name: str) -> str:
    """The registered domain of a DNS name; an address is its own site.

    All of loopback (127.0.0.0/8, ::1, localhost and names under it) is one site,
    since whoever crawls it owns all of it.

    >>> site_of("news.example.co.uk"), site_of("93.184.216.34"), site_of("127.3.2.1")
    ('example.co.uk', '93.184.216.34', 'loopback')
    """
    if name == "localhost" or name.endswith(".localhost"):
        return LOOPBACK
    if ":" in name or name[-1:].isdigit():  # nothing else can be an address, and to ask takes longest
        try:
            return LOOPBACK if ipaddress.ip_address(name).is_loopback else name
        except ValueError:
            pass
    return _suffixes().privatesuffix(name) or name


@lru_cache(maxsize=1)
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()


def key_of(url: str, seed: int) -> Key:
    """The keyed hash of a URL; the seed is the crawl's own secret, so nobody can aim at a collision."""
    return Key(xxhash.xxh3_64_intdigest(url.encode(), seed))
