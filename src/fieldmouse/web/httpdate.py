"""Parser of HTTP dates (RFC 9110, 5.6.7) and numbers of seconds (5.6.1, RFC 9111, 1.2.2).

Three forms of date are in use, all in GMT. A year with two digits depends on the present: one that seems
more than 50 years ahead is in the past. A wrong or missing day of the week and a numeric zone are
accepted.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

MOST_SECONDS = 2.0**31  # larger numbers of seconds are reduced to this

_MONTHS = {name: n for n, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)}
_TIME = r"(?P<hour>\d{1,2}):(?P<minute>\d{2}):(?P<second>\d{2})"
_DATES = (
    # Sun, 06 Nov 1994 08:49:37 GMT and Sunday, 06-Nov-94 08:49:37 GMT
    re.compile(
        r"(?:[a-z]+,?\s*)?(?P<day>\d{1,2})[ -](?P<month>[a-z]{3})[ -](?P<year>\d{4}|\d{2})\s+"
        + _TIME
        + r"(?:\s*(?:GMT|UTC?|Z|(?P<zone>[+-]\d{4})))?",
        re.ASCII | re.IGNORECASE,
    ),
    # Sun Nov  6 08:49:37 1994
    re.compile(
        rf"[a-z]+\s+(?P<month>[a-z]{{3}})\s+(?P<day>\d{{1,2}})\s+{_TIME}\s+(?P<year>\d{{4}})(?P<zone>\Z)",
        re.ASCII | re.IGNORECASE,
    ),
)
_LONGEST = 64  # characters of a date; the longest sane one has 33
_number = re.compile(r"([0-9]+)(?:\.[0-9]*)?", re.ASCII).fullmatch


def parse_date(text: str, now: float) -> float | None:
    """Return seconds since 1970, or None if it is not a date; `now` resolves years of two digits.

    >>> [parse_date(text, 0.0) for text in ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun Nov  6 08:49:37 1994")]
    [784111777.0, 784111777.0]
    >>> parse_date("Sunday, 06-Nov-94 08:49:37 GMT", now=1.8e9)
    784111777.0
    """
    text = text.strip()
    if len(text) > _LONGEST:
        return None
    match = next((candidate for form in _DATES if (candidate := form.fullmatch(text))), None)
    if match is None:
        return None
    day, hour, minute, second = (int(match[part]) for part in ("day", "hour", "minute", "second"))
    month, year, zone = _MONTHS.get(match["month"].lower(), 0), int(match["year"]), match["zone"]
    try:
        if len(match["year"]) == 2:
            year = _century(year, now)
        # A leap second is the first second of the next minute.
        leap = second == 60
        date = datetime(year, month, day, hour, minute, second - leap, tzinfo=UTC) + timedelta(seconds=leap)
        seconds = date.timestamp()
    except (ValueError, OverflowError):
        return None
    if zone:
        seconds -= (int(zone[:3]) * 60 + int(zone[0] + zone[3:])) * 60
    return seconds


def _century(year: int, now: float) -> int:
    this_year = datetime.fromtimestamp(now, UTC).year
    full = this_year - this_year % 100 + year
    # The latest year with these digits that is at most 50 years ahead.
    while full > this_year + 50:
        full -= 100
    while full + 100 <= this_year + 50:
        full += 100
    return full


def parse_seconds(text: str) -> float | None:
    """Return a number of seconds, regardless of its number of digits, or None if it is not a number.

    >>> parse_seconds("00000000120"), parse_seconds("-1"), parse_seconds("9" * 400)
    (120.0, None, 2147483648.0)
    """
    match = _number(text.strip())
    if match is None:
        return None
    digits = match[1].lstrip("0")
    return min(MOST_SECONDS, float(digits or "0")) if len(digits) <= 10 else MOST_SECONDS
