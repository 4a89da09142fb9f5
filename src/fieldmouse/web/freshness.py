"""Freshness lifetime of a response from its cache headers (RFC 9111, 4.2).

`max-age` has priority over Expires, the first of several values counts, an invalid value means stale, and
the time spent in caches (Age, or by its Date) is subtracted. We are a private cache: `s-maxage` is
ignored.
"""

from __future__ import annotations

import re

from fieldmouse.records import Response
from fieldmouse.web.httpdate import parse_date, parse_seconds

# Commas inside quotes do not separate.
_listed_directives = re.compile(r"(?:[^,\"]|\"(?:[^\"\\]|\\.)*+\"?)++", re.DOTALL).findall


def fresh_for(answer: Response) -> float | None:
    """Return seconds from the arrival of the response; 0 if it is stale already, None without information.

    >>> headers = (("cache-control", "max-age=60"), ("age", "20"))
    >>> fresh_for(Response(200, b"", b"", b"", "", 0.0, 0.0, 0.0, headers))
    40.0
    """
    control = directives(_joined(answer, "cache-control"))
    if "no-store" in control or control.get("no-cache") == "":
        return 0.0
    date = parse_date(answer.header("date"), answer.ended_at)
    if "max-age" in control:
        lifetime = parse_seconds(control["max-age"]) or 0.0
    elif any(name == "expires" for name, _ in answer.headers):
        expires = parse_date(answer.header("expires"), answer.ended_at)
        lifetime = 0.0 if expires is None else expires - (answer.ended_at if date is None else date)
    else:
        return None
    age = parse_seconds(answer.header("age").partition(",")[0]) or 0.0
    if date is not None:
        age = max(age, answer.ended_at - date)
    return max(0.0, lifetime - age)


def directives(control: str) -> dict[str, str]:
    """Parse Cache-Control: names in lower case, the first of each name; "" for no value.

    >>> directives('no-cache="max-age=1", X-Max-Age=2, MAX-AGE="3"')
    {'no-cache': 'max-age=1', 'x-max-age': '2', 'max-age': '3'}
    """
    values: dict[str, str] = {}
    for part in _listed_directives(control):
        name, _, value = part.partition("=")
        values.setdefault(name.strip().lower(), value.strip().strip('"').strip())
    return values


def _joined(answer: Response, name: str) -> str:
    """Join all header lines of a name: they are one list (RFC 9110, 5.3)."""
    return ", ".join(value for key, value in answer.headers if key == name)
