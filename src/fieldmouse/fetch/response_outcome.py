"""Pure mapping from an HTTP response to an `Outcome`."""

from __future__ import annotations

from fieldmouse.http.headers import decode_url_header, parse_date, parse_seconds
from fieldmouse.types.outcome import Failed, Moved, Outcome, Page, Response, Unchanged
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.request import Request
from fieldmouse.url import resolve

_REDIRECTS = frozenset({301, 302, 303, 307, 308})

_SHOWN = 60  # characters of a header shown to people


def outcome_of(link: Request, response: Response, *, most_redirects: int) -> Outcome:
    status, at = response.status, response.ended_at
    if 200 <= status < 300:
        return Page(link, response)
    if status == 304:
        if not (link.etag or link.last_modified):
            return Failed(link, OutcomeReason.BAD_HTTP, at, "status 304, but we hold no copy", response)
        return Unchanged(link, response)
    if status in _REDIRECTS:
        return _redirect_outcome(link, response, most_redirects)
    if status in (429, 503):
        return Failed(link, OutcomeReason.RETRY_LATER, at, f"status {status}", response, requested_wait(response))
    if status >= 500:
        return Failed(link, OutcomeReason.SERVER_ERROR, at, f"status {status}", response)
    if status >= 400:
        return Failed(link, OutcomeReason.CLIENT_ERROR, at, f"status {status}", response)
    return Failed(link, OutcomeReason.BAD_HTTP, at, f"status {status}", response)


def _redirect_outcome(link: Request, response: Response, most: int) -> Moved | Failed:
    at, location = response.ended_at, response.header("location")
    target = resolve(decode_url_header(location), link.url)
    if not location or target is None:
        return Failed(link, OutcomeReason.BAD_REDIRECT, at, f"Location: {location[:200]!r}", response)
    if target == link.url or target in link.trail:
        return Failed(link, OutcomeReason.BAD_REDIRECT, at, f"in a circle, back to {target[:200]}", response)
    if link.redirects >= most:
        detail = f"{link.redirects} redirects before it"
        return Failed(link, OutcomeReason.TOO_MANY_REDIRECTS, at, detail, response)
    return Moved(link, response, target)


def requested_wait(response: Response) -> float:
    """Seconds that a response asks us to wait; 0 if it does not ask.

    A date counts from the server's own clock if the response shows it: a difference of hours between its
    clock and ours is not a wait. Of several values the longest counts.
    """
    date = parse_date(response.header("date"), response.ended_at)
    now = response.ended_at if date is None else date
    asked = (value for name, value in response.headers if name == "retry-after")
    return max((parse_retry_after(value, now) for value in asked), default=0.0)


def describe_failure(failed: Failed) -> str:
    return f"{failed.reason.value}: {failed.detail}" if failed.detail else failed.reason.value


def describe_requested_wait(response: Response | None) -> str:
    """The request to wait in a response, for people; "" if there is none.

    >>> answer = Response(429, b"", b"", b"", "", 0.0, 0.0, 0.0, (("retry-after", "120"),))
    >>> describe_requested_wait(answer)
    'status 429, Retry-After: 120'
    """
    if response is None or not requested_wait(response):
        return ""
    asked = " and ".join(value.strip()[:_SHOWN] for name, value in response.headers if name == "retry-after")
    return f"status {response.status}, Retry-After: {asked[: 2 * _SHOWN]}"


def parse_retry_after(value: str, now: float) -> float:
    """Seconds to wait, from a number or a date; 0 if the header is not understood.

    >>> parse_retry_after("120", 0.0), parse_retry_after("soon", 0.0)
    (120.0, 0.0)
    >>> parse_retry_after("Thu, 01 Jan 1970 00:01:40 GMT", 40.0)
    60.0
    """
    seconds = parse_seconds(value)
    if seconds is not None:
        return seconds
    date = parse_date(value, now)
    return 0.0 if date is None else max(0.0, date - now)
