"""What an answer means: from an HTTP response to an `Outcome`, purely."""

from __future__ import annotations

from fieldmouse.records import Failed, Link, Moved, Outcome, Page, Reason, Response, Unchanged
from fieldmouse.url import resolve
from fieldmouse.web.httpdate import parse_date, parse_seconds

_REDIRECTS = frozenset({301, 302, 303, 307, 308})


def outcome_of(link: Link, response: Response, *, most_redirects: int) -> Outcome:
    status, at = response.status, response.ended_at
    if 200 <= status < 300:
        return Page(link, response)
    if status == 304:
        if not (link.etag or link.last_modified):
            return Failed(link, Reason.BAD_HTTP, at, "status 304, but we hold no copy", response)
        return Unchanged(link, response)
    if status in _REDIRECTS:
        return _redirect(link, response, most_redirects)
    if status in (429, 503):
        wait = retry_after(response.header("retry-after"), at)
        return Failed(link, Reason.BUSY, at, f"status {status}", response, wait)
    if status >= 500:
        return Failed(link, Reason.SERVER_ERROR, at, f"status {status}", response)
    if status >= 400:
        return Failed(link, Reason.CLIENT_ERROR, at, f"status {status}", response)
    return Failed(link, Reason.BAD_HTTP, at, f"status {status}", response)


def _redirect(link: Link, response: Response, most: int) -> Moved | Failed:
    at, location = response.ended_at, response.header("location")
    # Locations are sent as raw bytes; browsers read them as UTF-8.
    target = resolve(location.encode("latin-1").decode("utf-8", "replace"), link.url)
    if not location or target is None:
        return Failed(link, Reason.BAD_REDIRECT, at, f"Location: {location[:200]!r}", response)
    if target == link.url or target in link.trail:
        return Failed(link, Reason.BAD_REDIRECT, at, f"in a circle, back to {target[:200]}", response)
    if link.redirects >= most:
        detail = f"{link.redirects} redirects before it"
        return Failed(link, Reason.TOO_MANY_REDIRECTS, at, detail, response)
    return Moved(link, response, target)


def retry_after(value: str, now: float) -> float:
    """Seconds to wait, from a number or a date; 0 when the header says nothing we understand.

    >>> retry_after("120", 0.0), retry_after("Thu, 01 Jan 1970 00:01:40 GMT", 40.0), retry_after("soon", 0.0)
    (120.0, 60.0, 0.0)
    """
    seconds = parse_seconds(value)
    if seconds is not None:
        return seconds
    date = parse_date(value, now)
    return 0.0 if date is None else max(0.0, date - now)
