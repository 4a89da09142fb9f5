"""Parsing of URLs, hosts and points in time given by users."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from fieldmouse import url as urls
from fieldmouse.config import values
from fieldmouse.errors import UsageError
from fieldmouse.policy.scope import strip_session_id
from fieldmouse.url import Url


def to_epoch(since: float | datetime | timedelta | None) -> float:
    """Epoch seconds. A timedelta counts back from now, a datetime without a zone is UTC, None is 0."""
    if since is None:
        return 0.0
    if isinstance(since, timedelta):
        return time.time() - since.total_seconds()
    if isinstance(since, datetime):
        return (since if since.tzinfo else since.replace(tzinfo=UTC)).timestamp()
    return since


def parse_time(text: str, now: float) -> float:
    """Parse an age ("1d"), a day or a time of day into epoch seconds. UTC unless the text names a zone.

    >>> parse_time("1d", 86400.0), parse_time("1970-01-02", 0.0), parse_time("1970-01-01T00:00:05Z", 0.0)
    (0.0, 86400.0, 5.0)
    """
    text = text.strip()
    try:
        if re.match(r"\d{4}-\d\d", text):
            return to_epoch(datetime.fromisoformat(text))
        return now - values.seconds(text)
    except (ValueError, OverflowError):
        raise UsageError(
            f"`{text}` is no moment", "say how long ago (1d, 12h), a day (2026-11-16), or 2026-11-16T08:30"
        ) from None


def parse_url(text: str) -> Url:
    url = urls.parse(text)
    if url is None:
        raise UsageError(f"`{text}` is no URL", "it begins with http:// or https://")
    return url


def possible_urls(text: str) -> list[Url]:
    """URLs under which the page may be stored (as given, and without a session id), most likely first."""
    url = parse_url(text)
    return list(dict.fromkeys((url, strip_session_id(url))))


def host_filter(host: str | None) -> Callable[[str], bool]:
    """Predicate: whether a URL belongs to `host` or one of its subdomains; None allows all."""
    if host is None:
        return lambda url: True
    from fieldmouse.search.query_parser import authority_of, normalize_host, searchable_host_names

    wanted = normalize_host(host)
    return lambda url: wanted in searchable_host_names(authority_of(url))
