"""WHATWG URLs, and the host, path and site derived from them.

A `Url` is a normalised http(s) URL as text, without fragment, credentials or the trailing dot of a host
name. `parse` and `resolve` create it at the edge; inside it is trusted. From it come the `Host` (scheme
and authority, the unit of politeness), the path (matched by robots.txt) and the site (the registered
domain).
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
#: Scheme and authority, such as `https://example.org` or `http://127.0.0.1:8000`.
Host = NewType("Host", str)

#: A URL's keyed 64-bit hash, stored by the sieve instead of the text.
Key = NewType("Key", int)

#: The site of every loopback address and localhost name; see `site_of`.
LOOPBACK = "loopback"

_lib, _ffi = _ada.lib, _ada.ffi  # type: ignore[attr-defined]


def resolve(href: str, base: Url | str | None = None) -> Url | None:
    """The URL of `href` on the page `base`, or None if it cannot be fetched.

    >>> resolve("../b?x=1#top", "http://example.org/a/c")
    'http://example.org/b?x=1'
    >>> resolve("mailto:someone@example.org") is None
    True
    >>> resolve("http://example.org.:81/")
    'http://example.org:81/'
    """
    try:
        raw = href.encode()
    except UnicodeEncodeError:  # lone surrogates from broken pages
        return None
    if base is None:
        parsed = _lib.ada_parse(raw, len(raw))
    else:
        base_bytes = base.encode()
        parsed = _lib.ada_parse_with_base(raw, len(raw), base_bytes, len(base_bytes))
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
        normalised = _text(_lib.ada_get_href(parsed))
    finally:
        _lib.ada_free(parsed)
    slash = normalised.index("/", 8)
    if normalised[slash - 1] == "." or ".:" in normalised[:slash]:
        return _drop_trailing_dot(normalised, slash)
    return Url(normalised)


def _drop_trailing_dot(href: str, slash: int) -> Url:
    """Both spellings name the same host: one queue, one robots.txt, one key."""
    name, colon, port = href[:slash].partition("://")[2].partition(":")
    if name.endswith("..") or not name.endswith(".") or name == ".":
        return Url(href)
    return Url(f"{href[: href.index('/')]}//{name[:-1]}{colon}{port}{href[slash:]}")


def parse_seed(text: str) -> Url:
    """Parse a seed URL; UsageError with a suggestion if it is not one.

    >>> parse_seed(" https://example.org ")
    'https://example.org/'
    """
    url = parse(text)
    if url is None:
        near = f"https://{text.strip()}"
        plausible = "://" not in text and parse(near) is not None
        raise UsageError(
            f"`{text}` is no URL we can crawl",
            f"did you mean `{near}`?" if plausible else "a seed begins with http:// or https://",
        )
    return url


def parse(text: str) -> Url | None:
    """Parse a URL from a person or a file; white space around it is ignored.

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
    """Path and query: used in the request line and matched by robots.txt.

    >>> path_of(Url("http://example.org/a?b"))
    '/a?b'
    """
    return url[url.index("/", 8) :]


def hostname_of(host: Host) -> str:
    """The DNS name or address literal of a host, without scheme, port or brackets.

    >>> hostname_of(Host("http://[::1]:80"))
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

    All of loopback (127.0.0.0/8, ::1, localhost and names under it) is one site, since it has one owner.

    >>> site_of("news.example.co.uk"), site_of("93.184.216.34"), site_of("127.3.2.1")
    ('example.co.uk', '93.184.216.34', 'loopback')
    """
    if name == "localhost" or name.endswith(".localhost"):
        return LOOPBACK
    if ":" in name or name[-1:].isdigit():  # only these can be addresses; the check itself is slow
        try:
            return LOOPBACK if ipaddress.ip_address(name).is_loopback else name
        except ValueError:
            pass
    return _suffixes().privatesuffix(name) or name


@lru_cache(maxsize=1)
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()


def key_of(url: str, seed: int) -> Key:
    """The keyed hash of a URL; the seed is secret to the crawl, so that a collision cannot be constructed."""
    return Key(xxhash.xxh3_64_intdigest(url.encode(), seed))
