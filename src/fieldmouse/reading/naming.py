"""URLs and hosts as people name them."""

from __future__ import annotations

from collections.abc import Callable

from fieldmouse import url as urls
from fieldmouse.errors import UsageError
from fieldmouse.policy.traps import without_session
from fieldmouse.url import Url


def url_of(text: str) -> Url:
    known = urls.parse(text)
    if known is None:
        raise UsageError(f"`{text}` is no URL", "it begins with http:// or https://")
    return known


def names_of(text: str) -> list[Url]:
    """The names under which a page that somebody asks for may be stored, the likeliest first."""
    known = url_of(text)
    return list(dict.fromkeys((known, without_session(known))))


def living_at(host: str) -> Callable[[str], bool]:
    """Whether a URL is one of `host` or of a host below it."""
    from fieldmouse.indexer.query import authority_of, bare_host, names

    wanted = bare_host(host)
    return lambda url: wanted in names(authority_of(url))
