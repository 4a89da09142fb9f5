"""Crawler traps: signs that a URL belongs to an endless set of useless pages.

Endless calendars, paths that repeat because of a broken relative link, session ids that give every visit
its own URLs. Each check is cheap and looks at the URL alone; each has a name, so that a refusal can be
explained. A trap that shows none of these signs is limited by depth and by pages per host.
"""

from __future__ import annotations

import re
from collections import Counter

import msgspec

from fieldmouse.url import Url

SECONDS_PER_YEAR = 31_556_952.0


class TrapRules(msgspec.Struct, frozen=True, kw_only=True):
    """Limits for URLs; 0 (or False) turns a check off."""

    url_length: int = 2000
    segments: int = 20  # path segments
    repeats: int = 4  # repetitions of one segment
    parameters: int = 20
    session_ids: bool = True
    years_ahead: int = 2  # years from now beyond which a calendar page is a trap
    years_back: int = 150


NO_TRAP_RULES = TrapRules(url_length=0, segments=0, repeats=0, parameters=0, session_ids=False, years_ahead=0)

# Most URLs are short, with few segments, no parameters and no long number. They need no closer look.
_PLAIN = re.compile(r"https?://[^/?;]{1,80}(?:/(?!(?:19|2\d)\d\d/)[^/?;]{0,60}){1,3}").fullmatch

_SESSION = re.compile(
    r"(?i)(?:[;?&](?:jsessionid|phpsessid|aspsessionid\w*|cftoken|zenid|oscsid)=[^&;?/]*"
    r"|[;?&](?:s|sid|sess|session|sessionid|session_id)=(?=[^&;?/]*\d)[0-9a-z]{16,}(?![^&;?/]))"
)
_CALENDAR = re.compile(
    r"(?i)/(\d{4})[/-](?:0?[1-9]|1[0-2])(?=[/.?-]|$)"
    r"|[?&;](?:y|yr|year|date|day|month|week|cal|calendar|from|start|d|m)=(\d{4})(?=[-/&;]|$)"
)


def is_plain(url: Url, rules: TrapRules) -> bool:
    """Whether a quick check shows that the URL is no trap and has no session id.

    >>> is_plain(Url("http://example.org/news/today.html"), TrapRules())
    True
    """
    return _PLAIN(url) is not None and len(url) <= (rules.url_length or len(url))


def detect_trap(url: Url, rules: TrapRules, now: float) -> str | None:
    """Sign of a trap in this URL, in words, or None. `now` is epoch seconds.

    >>> detect_trap(Url("http://example.org/a/b/a/b/a/b/a/b/"), TrapRules(), now=0.0)
    'the path repeats itself'
    """
    if is_plain(url, rules):
        return None
    if rules.url_length and len(url) > rules.url_length:
        return "the URL is too long"
    path, _, query = url[url.index("/", 8) :].partition("?")
    steps = [step for step in path.split("/") if step]
    if rules.segments and len(steps) > rules.segments:
        return "the path is too deep"
    if rules.repeats and len(steps) >= rules.repeats and _repeats(steps, rules.repeats):
        return "the path repeats itself"
    if query and rules.parameters and query.count("&") + query.count(";") >= rules.parameters:
        return "too many parameters"
    if rules.session_ids and _SESSION.search(url):
        return "a session id"
    if rules.years_ahead and (found := _CALENDAR.search(url, 8)):
        year = int(found[1] or found[2])
        this = 1970 + int(now // SECONDS_PER_YEAR)
        # Four digits that were never a year, or will not be soon, are some other number. An endless
        # calendar is left at its near edge, so its far pages are not missed.
        if 1583 <= year < 2200 and not this - rules.years_back <= year <= this + rules.years_ahead:
            return "a calendar page far from today"
    return None


def _repeats(steps: list[str], times: int) -> bool:
    # A cycle of several segments shows in the count of each of them.
    return Counter(steps).most_common(1)[0][1] >= times


def strip_session_id(url: Url) -> Url:
    """URL without its session ids.

    >>> strip_session_id(Url("http://example.org/a;jsessionid=12AB?x=1"))
    'http://example.org/a?x=1'
    """
    if not _SESSION.search(url):
        return url
    bare = _SESSION.sub(lambda found: "?" if found[0].startswith("?") else "", url)
    bare = bare.replace("?&", "?")
    return Url(bare[:-1] if bare.endswith("?") else bare)
