"""robots.txt parser (RFC 9309).

`RobotsTxt` is the file parsed for our product token; `interpret_response` interprets the response to a
request for it, including redirects and errors; `cache_seconds` is the time for which the result may be
cached. All three are pure: the caller fetches, follows redirects and caches.

A line is a rule only if the RFC or Google's parser knows its keyword; all other lines are ignored, and so
do not separate the User-agent lines of a group. Lines are parsed as bytes, so a file in no valid encoding
can be read.
"""

from __future__ import annotations

import math
import re
from sys import getsizeof
from typing import ClassVar

import msgspec

from fieldmouse.http.decoding import decode_response
from fieldmouse.http.headers import decode_url_header, freshness_seconds
from fieldmouse.robotstxt.rules import MAX_STEPS, TOO_EXPENSIVE, PathRule, RuleSet, normalize_octets
from fieldmouse.types.outcome import Failed, Response
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.url import Url, resolve

MAX_SIZE = 500 * 1024  # bytes parsed of a robots.txt; the minimum of RFC 9309, and plenty
MAX_REDIRECTS = 5  # redirects followed for one robots.txt
DAY = 24 * 3600.0
HOUR = 3600.0
SLOW_SIZE = 16 * 1024  # bytes; a larger file takes noticeable time to parse
MAX_SITEMAPS = 1000  # maximum taken from one file
_SHOWN = 200  # characters of a rule in messages

# Bytes that editors and copying leave before a line: white space of all kinds, byte order marks and parts of
# them.
_BLANK = (
    rb"(?:[\0-\x20\x85\xa0]|\xc2[\x85\xa0]|\xe2\x80[\x80-\x8f\xa8-\xaf]|\xe3\x80\x80|\xef(?:\xbb\xbf?)?)*+"
)
# A line is a key, a colon and a value. As in Google's parser, blanks may replace the colon if the line has
# exactly two words, and a key counts by its prefix: `Disallowed`, `User-agents`. So do its usual
# misspellings.
_line = re.compile(
    _BLANK + rb"(?:(?P<agent>user[- ]?agent)|(?P<allow>allow)"
    rb"|(?P<disallow>disallow|dissallow|dissalow|disalow|diasllow|disallaw)"
    rb"|(?P<delay>crawl[- ]delay)|(?P<sitemap>sitemap|site-map))"
    rb"(?:[^:]*+:|[^: \t]*+[ \t]++(?=[^: \t]++[ \t]*+\Z))" + _BLANK,
    re.IGNORECASE | re.DOTALL,
).match
_token = re.compile(r"[a-z_-]*").match
_longer_token = re.compile(r"[^\s/;,()]*").match  # of product tokens with digits and dots
_number = re.compile(r"[0-9]*\.?[0-9]+").match


class RobotsTxtRedirect(msgspec.Struct, frozen=True):
    """The file is at another URL; fetch it there, on behalf of the first host."""

    target: Url


class RobotsTxtUnreachable(msgspec.Struct, frozen=True):
    """The host could not answer: until it does, none of its pages may be fetched."""

    detail: str


class RobotsTxt:
    r"""Rules of one host for our crawler.

    >>> rules = RobotsTxt.parse(b"User-agent: *\nDisallow: /private\nCrawl-delay: 2", "fieldmouse")
    >>> rules.allows("/private/diary"), rules.allows("/"), rules.crawl_delay
    (False, True, 2.0)
    """

    ALLOW_ALL: ClassVar[RobotsTxt]
    DENY_ALL: ClassVar[RobotsTxt]

    __slots__ = ("_book", "crawl_delay", "sitemaps")

    def __init__(self, book: RuleSet, crawl_delay: float | None = None, sitemaps: tuple[str, ...] = ()):
        self._book, self.crawl_delay, self.sitemaps = book, crawl_delay, sitemaps

    @property
    def size(self) -> int:
        """Approximate memory of its rules and sitemaps in bytes."""
        return self._book.size + sum(map(getsizeof, self.sitemaps))

    @classmethod
    def parse(cls, text: bytes, product: str, *, cut: bool = False) -> RobotsTxt:
        """Parse a file for the crawler whose product token is `product`.

        If the file was `cut`, a last line without an end is dropped: half of `Disallow: /private` means
        something else. The largest file takes about 0.1 s, a usual one less than a millisecond; parse
        large ones in a thread.
        """
        if text[:2] in (b"\xff\xfe", b"\xfe\xff"):
            text = text.decode("utf-16", "replace").encode()
        if cut:
            text = text[: max(text.rfind(b"\n"), text.rfind(b"\r")) + 1]
        return _Reader(product.partition("/")[0].strip().lower()).read(text)

    def to_bytes(self) -> bytes:
        r"""Return an equivalent robots.txt for all crawlers; b"" if it would have to omit a rule.

        >>> RobotsTxt.parse(b"User-agent: *\nDisallow: /private", "fieldmouse").to_bytes()
        b'User-agent: *\nDisallow: /private\n'
        """
        rules = self._book.lines()
        if rules is None:
            return b""
        delay = [] if self.crawl_delay is None else [f"Crawl-delay: {self.crawl_delay}"]
        sitemaps = [f"Sitemap: {url}" for url in self.sitemaps]
        return "".join(f"{line}\n" for line in ("User-agent: *", *rules, *delay, *sitemaps)).encode()

    def allows(self, path: str) -> bool:
        """Tell whether we may fetch this path and query; `/robots.txt` itself always."""
        return self.forbidding_rule(path) is None

    def forbidding_rule(self, path: str) -> str | None:
        """Return the rule that forbids this path and query as text for users, or None if none does."""
        if not path.isascii():
            path = path.encode("utf-8", "surrogatepass").decode("latin-1")
        rule, steps = self._book.deciding_rule(normalize_octets(path))
        if steps > MAX_STEPS:
            forbidden = TOO_EXPENSIVE
        elif rule is None or rule.allow:
            return None
        else:
            forbidden = str(rule)[:_SHOWN]
        return None if path == "/robots.txt" else forbidden


RobotsTxt.ALLOW_ALL = RobotsTxt(RuleSet([]))
RobotsTxt.DENY_ALL = RobotsTxt(RuleSet([PathRule.parse("/", allow=False)]))


class _Reader:
    """Line parser that keeps the rules for us and for all crawlers."""

    def __init__(self, product: str):
        self._product = product
        self._ours: list[PathRule | None] | None = None  # None until a group names us
        self._everybodys: list[PathRule | None] = []
        self._our_delay: float | None = None
        self._everybodys_delay: float | None = None

    def read(self, text: bytes) -> RobotsTxt:
        for_us = for_all = False  # whether the current group applies to us, to all
        names_may_follow = False
        sitemaps: dict[str, None] = {}
        for line in text.splitlines():  # of bytes: only CR, LF or CRLF end a line
            line = line.partition(b"#")[0]
            match = _line(line)
            if match is None:
                continue
            kind, value = match.lastgroup, line[match.end() :]
            if kind == "agent":
                if not names_may_follow:
                    for_us = for_all = False
                    names_may_follow = True
                name = value.decode("latin-1").strip().lower()
                if name == "*" or name.startswith(("* ", "*\t")):
                    for_all = True
                elif self._means_us(name):
                    for_us = True
                    self._ours = self._ours or []
            elif kind == "sitemap":
                if len(sitemaps) < MAX_SITEMAPS and (url := _stripped(value).decode("utf-8", "replace")):
                    sitemaps[url] = None
            elif kind == "delay":
                self._note_delay(value, for_us, for_all)
            else:
                names_may_follow = False
                if for_us or for_all:
                    self._note(value, kind == "allow", for_us, for_all)
        if self._ours is not None:
            return RobotsTxt(RuleSet(self._ours), self._our_delay, tuple(sitemaps))
        return RobotsTxt(RuleSet(self._everybodys), self._everybodys_delay, tuple(sitemaps))

    def _means_us(self, name: str) -> bool:
        tokens = (_token(name), _longer_token(name))
        return any(match is not None and match[0] == self._product for match in tokens)

    def _note(self, value: bytes, allow: bool, for_us: bool, for_all: bool) -> None:
        pattern = _stripped(value).decode("latin-1")
        rules = [PathRule.parse(pattern, allow)]
        directory, slash, page = pattern.rpartition("/")
        if allow and slash and page.startswith("index.htm"):
            # As in Google's parser: a rule that allows the index page allows the directory.
            rules.append(PathRule.parse(f"{directory}/$", allow))
        if for_us and self._ours is not None:
            self._ours += rules
        if for_all:
            self._everybodys += rules

    def _note_delay(self, value: bytes, for_us: bool, for_all: bool) -> None:
        """Set the delay of the current group; the longest of several counts."""
        seconds = _seconds(_stripped(value).decode("latin-1"))
        if seconds is None:
            return
        if for_us:
            self._our_delay = max(seconds, self._our_delay or 0.0)
        if for_all:
            self._everybodys_delay = max(seconds, self._everybodys_delay or 0.0)


def _stripped(value: bytes) -> bytes:
    """Strip white space from both ends, including that of Unicode."""
    if value.isascii():
        return value.strip()
    return value.decode("utf-8", "surrogateescape").strip().encode("utf-8", "surrogateescape")


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        match = _number(text)  # `10s`, `10 seconds`
        if match is None:
            return None
        seconds = float(match[0])
    return None if math.isnan(seconds) or seconds < 0 else min(seconds, 1e308)


def is_slow_to_parse(answer: Response) -> bool:
    """Tell whether `interpret_response` would block the event loop too long; the body may be compressed."""
    if len(answer.body) > SLOW_SIZE:
        return True
    return decode_response(answer, limit=SLOW_SIZE).reason is OutcomeReason.DECOMPRESSION_BOMB


def interpret_response(
    answer: Response | Failed, url: Url, product: str, hops: int = 0
) -> RobotsTxt | RobotsTxtRedirect | RobotsTxtUnreachable:
    """Interpret the response to the request for `url`, a robots.txt reached over `hops` redirects.

    4xx: there are no rules. 429 and 5xx: the host has problems, so everything is forbidden. Too many
    redirects, or an invalid one, count as no rules (RFC 9309, 2.3.1.2).
    """
    if isinstance(answer, Failed):
        return RobotsTxtUnreachable(answer.detail or answer.reason.value)
    status = answer.status
    if 200 <= status < 300:
        if answer.truncated not in ("", "length"):
            return RobotsTxtUnreachable("robots.txt was not received in time")
        # The fetcher has cut the body already, if so configured; compressed bodies are cut here.
        limit = max(MAX_SIZE, len(answer.body))
        decoded = decode_response(answer, limit=limit)
        cut = bool(answer.truncated) or (decoded.reason is not None and decoded.body != answer.body)
        return RobotsTxt.parse(decoded.body, product, cut=cut)
    if status in (301, 302, 303, 307, 308):
        location = decode_url_header(answer.header("location"))
        target = resolve(location, url) if location else None
        return RobotsTxt.ALLOW_ALL if target is None or hops >= MAX_REDIRECTS else RobotsTxtRedirect(target)
    if 400 <= status < 500 and status != 429:
        return RobotsTxt.ALLOW_ALL
    return RobotsTxtUnreachable(f"status {status}")


def cache_seconds(answer: Response | Failed) -> float:
    """Return seconds until robots.txt must be fetched again: a day, or less if the host says so.

    At least an hour: `max-age=0` would double our visits to the host.
    """
    if isinstance(answer, Failed) or answer.status >= 500 or answer.status == 429:
        return HOUR
    fresh = freshness_seconds(answer)
    return DAY if fresh is None else min(DAY, max(HOUR, fresh))
