"""Parsing of URLs and hosts given by users."""

from __future__ import annotations

from collections.abc import Callable

from fieldmouse import url as urls
from fieldmouse.errors import UsageError
from fieldmouse.policy.traps import without_session
from fieldmouse.url import Url


def url_of(text: str) -> Url:
    url = urls.parse(text)
    if url is None:
        raise UsageError(f"`{text}` is no URL", "it begins with http:// or https://")
    return url


def names_of(text: str) -> list[Url]:
    """URLs under which the page may be stored (as given, and without a session id), most likely first."""
    url = url_of(text)
    return list(dict.fromkeys((url, without_session(url))))


def living_at(host: str) -> Callable[[str], bool]:
    """Predicate: whether a URL belongs to `host` or one of its subdomains."""
    from fieldmouse.indexer.query import authority_of, bare_host, names

    wanted = bare_host(host)
    return lambda url: wanted in names(authority_of(url))
