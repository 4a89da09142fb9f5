"""robots.txt parser (RFC 9309), path rules, and a bounded cache of parsed files.

`RobotsTxt` is the file parsed for our product token; `interpret_response` interprets the response to a
request for it, including redirects and errors; `cache_seconds` is the time for which the result may be
cached. All three are pure: the caller fetches, follows redirects and caches.

A line is a rule only if the RFC or Google's parser knows its keyword; all other lines are ignored, and so
do not separate the User-agent lines of a group. Lines are parsed as bytes, so a file in no valid encoding
can be read.

Among all rules that match, the one with the most octets wins, and Allow wins a tie. A rule begins with a
literal head, up to its first `*`. The heads are sorted, and each is linked to the longest other head that
is its prefix; so the heads that a path begins with are found by one bisection and a walk, independent of
the number of rules. Only the rules with these heads are tried, the longest first, each in one pass over
the path and without backtracking.

A file of half a megabyte may still have tens of thousands of rules with the head `/`. So the work for a
path is limited to `MAX_STEPS` steps; a path that needs more counts as excluded, since an untried rule may
forbid it.

Rules that no URL is long enough for are dropped: a matching path is at least as long as the parts of the
rule together. If rules were dropped, a path that is long enough for them counts as excluded, too.

At most `size` hosts are kept, in about `memory` bytes at most, and none for longer than its response may
be cached (a day, RFC 9309). Above the memory limit the longest file is evicted, so that no host can evict
all others.
"""

from __future__ import annotations

import asyncio
import math
import re
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable
from sys import getsizeof
from typing import ClassVar, NamedTuple

import msgspec

from fieldmouse.clock import Clock
from fieldmouse.http.decoding import decode_response
from fieldmouse.http.headers import decode_url_header, freshness_seconds
from fieldmouse.types.outcome import Failed, Response
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.url import Host, Url, resolve

MAX_STEPS = 2000  # steps for one path: about a millisecond
MAX_PATH = 8192  # octets of a path that rules are kept for
CHARACTERS_PER_STEP = 256  # characters that one step scans
TOO_EXPENSIVE = "rules too many or too long to look through"
_RULE, _PART = 300, 64  # bytes of memory of a rule, and of each part besides its letters

# A character and its %xx are the same to us, reserved or not, except for the slash. A literal star is written
# %2A, as the RFC advises authors of rules, and so is a literal dollar (%24) at the end of a rule. Elsewhere a
# dollar is literal.
_SAME = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~?=&:@!$'()+,;[]")
_is_plain = re.compile(r"[A-Za-z0-9\-._~/?=&:@!$'()+,;\[\]]*").fullmatch
_replace_octets = re.compile(r"%([0-9A-Fa-f]{2})|[^A-Za-z0-9\-._~/?=&:@!$'()+,;\[\]]", re.DOTALL).sub


def normalize_octets(text: str) -> str:
    r"""Normalize all spellings of the same octets; `text` has a character for each octet.

    >>> normalize_octets("/a%7eb%2f*\xff")
    '/a~b%2F%2A%FF'
    """
    return text if _is_plain(text) else _replace_octets(_normalize_octet, text)


def _normalize_octet(match: re.Match[str]) -> str:
    code = match[1]
    character = match[0] if code is None else chr(int(code, 16))
    return character if character in _SAME else f"%{ord(character):02X}"


class PathRule(NamedTuple):
    """An Allow or Disallow rule: the parts between stars, and whether the last one must end the path."""

    parts: tuple[str, ...]
    anchored: bool
    allow: bool
    length: int  # octets of the pattern: the most specific rule wins
    shortest: int  # octets of the shortest path that can match

    @classmethod
    def from_pattern(cls, pattern: str, allow: bool) -> PathRule | None:
        """Parse a pattern with a character for each octet; None if no path can match it."""
        if pattern[:1] not in ("/", "*"):
            return None
        anchored = pattern.endswith("$")
        written = pattern[:-1] if anchored else pattern
        if "*" not in written:
            head = normalize_octets(written)
            return cls((head,), anchored, allow, len(head) + anchored, len(head))
        parts = [normalize_octets(part) for part in written.split("*")]
        shortest = sum(map(len, parts))
        length = shortest + len(parts) - 1 + anchored
        # Adjacent stars are one star.
        parts = [parts[0], *filter(None, parts[1:-1]), parts[-1]]
        return cls(tuple(parts), anchored, allow, length, shortest)

    def __str__(self) -> str:
        return self._format_line("*".join(self.parts))

    def _format_line(self, pattern: str) -> str:
        """Return a line that parses to this rule; a dollar that is not an anchor may not end it."""
        if not self.anchored and pattern.endswith("$"):
            pattern = f"{pattern[:-1]}%24"
        return f"{'Allow' if self.allow else 'Disallow'}: {pattern}{'$' * self.anchored}"

    def to_line(self) -> str:
        """Return a line that parses to this rule, with adjacent stars, which count among its octets.

        >>> PathRule.from_pattern("/a***b$", False).to_line()
        'Disallow: /a***b$'
        """
        if len(self.parts) == 1:
            return str(self)
        more = self.length - self.shortest - self.anchored - (len(self.parts) - 1)
        return self._format_line(self.parts[0] + "*" * more + "".join("*" + part for part in self.parts[1:]))


def match_parts(parts: tuple[str, ...], anchored: bool, path: str, room: int) -> tuple[bool, int]:
    """Tell whether a path that begins with the first of `parts` matches all, and how many were tried.

    The leftmost match of each part is as good as any: it leaves the most text to the others. After `room`
    parts the search ends without a result, and `room` + 1 is returned as the number tried.
    """
    at = len(parts[0])
    last = len(parts) - 1
    for tried in range(1, last):
        if tried > room:
            return False, room + 1
        part = parts[tried]
        start = path.find(part, at)
        if start < 0:
            return False, tried
        at = start + len(part)
    return (path.endswith(parts[last], at) if anchored else path.find(parts[last], at) >= 0), last


class RuleSet:
    """The rules for one crawler, prepared for matching.

    >>> book = RuleSet([PathRule.from_pattern("/a", False), PathRule.from_pattern("/a/*.html", True)])
    >>> str(book.deciding_rule("/a/b")[0]), str(book.deciding_rule("/a/b.html")[0])
    ('Disallow: /a', 'Allow: /a/*.html')
    """

    __slots__ = ("_behind", "_dropped", "_heads", "_within", "size")

    def __init__(self, rules: Iterable[PathRule | None]):
        distinct = {rule for rule in rules if rule is not None}
        kept = sorted(
            (rule for rule in distinct if rule.shortest <= MAX_PATH), key=lambda rule: (-rule.length, not rule.allow)
        )
        self._dropped = len(kept) < len(distinct)
        behind: dict[str, list[PathRule]] = {}
        for rule in kept:
            behind.setdefault(rule.parts[0], []).append(rule)
        # Approximate bytes of memory.
        self.size = sum(_RULE + _PART * len(rule.parts) + rule.shortest for rule in kept)
        self._heads = sorted(behind)
        self._behind = [tuple(behind[head]) for head in self._heads]
        self._within: list[int] = []  # the longest other head that is a prefix of this one, or -1
        for place, head in enumerate(self._heads):
            outer = place - 1
            while outer >= 0 and not head.startswith(self._heads[outer]):
                outer = self._within[outer]
            self._within.append(outer)

    def rule_lines(self) -> list[str] | None:
        """Return the rules as lines of a robots.txt; None if some were dropped as too long."""
        return None if self._dropped else [rule.to_line() for rules in self._behind for rule in rules]

    def deciding_rule(self, path: str, work: int = MAX_STEPS) -> tuple[PathRule | None, int]:
        """Return the rule that decides about a path, or None, and the number of steps used.

        More than `work` steps mean that the search was ended without a result.
        """
        if self._dropped and len(path) > MAX_PATH:
            return None, work + 1
        heads, within = self._heads, self._within
        place = bisect_right(heads, path) - 1
        best: PathRule | None = None
        most, steps, size = -1, 1, len(path)
        stride = 1 + size // CHARACTERS_PER_STEP
        while place >= 0 and steps <= work:
            steps += 1
            if path.startswith(heads[place]):
                for rule in self._behind[place]:
                    parts, anchored, allow, length, shortest = rule
                    if length < most or (length == most and not allow):
                        break
                    if shortest > size:
                        hit = False
                        steps += 1
                    elif len(parts) == 1:
                        hit = not anchored or shortest == size
                        steps += 1
                    else:
                        hit, tried = match_parts(parts, anchored, path, (work - steps) // stride)
                        steps += stride * tried
                    if hit:
                        best, most = rule, length
                        break
                    if steps > work:
                        break
            place = within[place]
        return best, steps


MAX_SIZE = 500 * 1024  # bytes parsed of a robots.txt; the minimum of RFC 9309, and plenty
MAX_REDIRECTS = 5  # redirects followed for one robots.txt
DAY = 24 * 3600.0
HOUR = 3600.0
SLOW_SIZE = 16 * 1024  # bytes; a larger file takes noticeable time to parse
MAX_SITEMAPS = 1000  # maximum taken from one file
_SHOWN = 200  # characters of a rule in messages

# Bytes that editors and copying leave before a line: white space of all kinds, byte order marks and parts of
# them.
_BLANK = rb"(?:[\0-\x20\x85\xa0]|\xc2[\x85\xa0]|\xe2\x80[\x80-\x8f\xa8-\xaf]|\xe3\x80\x80|\xef(?:\xbb\xbf?)?)*+"
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
        return _parse_lines(text, product.partition("/")[0].strip().lower())

    def to_bytes(self) -> bytes:
        r"""Return an equivalent robots.txt for all crawlers; b"" if it would have to omit a rule.

        >>> RobotsTxt.parse(b"User-agent: *\nDisallow: /private", "fieldmouse").to_bytes()
        b'User-agent: *\nDisallow: /private\n'
        """
        rules = self._book.rule_lines()
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


class _RuleGroup:
    """The rules and the delay for us, or for all crawlers."""

    def __init__(self) -> None:
        self.rules: list[PathRule | None] = []
        self.delay: float | None = None


def _parse_lines(text: bytes, product: str) -> RobotsTxt:
    ours, everybodys = _RuleGroup(), _RuleGroup()
    are_we_named = names_may_follow = False
    current: set[_RuleGroup] = set()  # those that the lines of the current group apply to
    sitemaps: dict[str, None] = {}
    for line in text.splitlines():  # of bytes: only CR, LF or CRLF end a line
        line = line.partition(b"#")[0]
        match = _line(line)
        if match is None:
            continue
        kind, value = match.lastgroup, line[match.end() :]
        if kind == "agent":
            if not names_may_follow:
                current, names_may_follow = set(), True
            name = value.decode("latin-1").strip().lower()
            if name == "*" or name.startswith(("* ", "*\t")):
                current.add(everybodys)
            elif any(match is not None and match[0] == product for match in (_token(name), _longer_token(name))):
                are_we_named = True
                current.add(ours)
        elif kind == "sitemap":
            if len(sitemaps) < MAX_SITEMAPS and (url := _strip_whitespace(value).decode("utf-8", "replace")):
                sitemaps[url] = None
        elif kind == "delay":
            seconds = _parse_delay(_strip_whitespace(value).decode("latin-1"))
            if seconds is not None:
                for group in current:
                    group.delay = max(seconds, group.delay or 0.0)  # the longest of several counts
        else:
            names_may_follow = False
            rules = _parse_path_rules(value, kind == "allow") if current else []
            for group in current:
                group.rules += rules
    chosen = ours if are_we_named else everybodys
    return RobotsTxt(RuleSet(chosen.rules), chosen.delay, tuple(sitemaps))


def _parse_path_rules(value: bytes, allow: bool) -> list[PathRule | None]:
    pattern = _strip_whitespace(value).decode("latin-1")
    rules = [PathRule.from_pattern(pattern, allow)]
    directory, slash, page = pattern.rpartition("/")
    if allow and slash and page.startswith("index.htm"):
        # As in Google's parser: a rule that allows the index page allows the directory.
        rules.append(PathRule.from_pattern(f"{directory}/$", allow))
    return rules


def _strip_whitespace(value: bytes) -> bytes:
    """Strip white space from both ends, including that of Unicode."""
    if value.isascii():
        return value.strip()
    return value.decode("utf-8", "surrogateescape").strip().encode("utf-8", "surrogateescape")


def _parse_delay(text: str) -> float | None:
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


def _memory_size(rules: RobotsTxt | bytes) -> int:
    return len(rules) if isinstance(rules, bytes) else rules.size


class RobotsTxtCache:
    """A bounded cache of parsed robots.txt files."""

    def __init__(self, clock: Clock, *, product: str, size: int = 20_000, memory: int = 160 << 20):
        self._clock, self._product, self._size, self._memory = clock, product, size, memory
        self._held = 0
        # Rules, or a text that has not been parsed yet, and when they expire.
        self._known: OrderedDict[Host, tuple[RobotsTxt | bytes, float]] = OrderedDict()

    def get(self, host: Host) -> RobotsTxt | None:
        """Rules of a host. `get_without_blocking` does not block: use it for a long robots.txt from another agent."""
        rules = self._unexpired(host)
        if isinstance(rules, bytes):
            return self._store_parsed(host, rules, RobotsTxt.parse(rules, self._product))
        return rules

    async def get_without_blocking(self, host: Host) -> RobotsTxt | None:
        """The rules; a long robots.txt from another agent is parsed in a thread on first use."""
        rules = self._unexpired(host)
        if isinstance(rules, bytes):
            parsed = await asyncio.to_thread(RobotsTxt.parse, rules, self._product)
            return self._store_parsed(host, rules, parsed)
        return rules

    def _unexpired(self, host: Host) -> RobotsTxt | bytes | None:
        entry = self._known.get(host)
        if entry is None:
            return None
        rules, until = entry
        if self._clock.now() >= until:
            self._remove(host)
            return None
        self._known.move_to_end(host)
        return rules

    def _store_parsed(self, host: Host, text: bytes, rules: RobotsTxt) -> RobotsTxt:
        """Store the parsed text, unless newer rules arrived during the parsing."""
        now, entry = self._clock.now(), self._known.get(host)
        if entry is not None and entry[0] is text and entry[1] > now:
            self.put(host, rules, entry[1] - now)
        elif entry is not None and isinstance(entry[0], RobotsTxt):
            return entry[0]
        return rules

    def export_host(self, host: Host) -> tuple[bytes, float]:
        """The robots.txt of a host that moves to another crawl, and the time until which it is valid."""
        rules = self._unexpired(host)
        if rules is None:
            return b"", 0.0
        return rules if isinstance(rules, bytes) else rules.to_bytes(), self._known[host][1]

    def import_host(self, host: Host, text: bytes, seconds: float) -> None:
        """Store the robots.txt that `export_host` gave a host, valid for `seconds`.

        Many hosts arrive at once: a long text is parsed on first use.
        """
        if text and seconds > 0:
            self.put(host, text if len(text) > SLOW_SIZE else RobotsTxt.parse(text, self._product), seconds)

    def put(self, host: Host, rules: RobotsTxt | bytes, seconds: float) -> None:
        if host in self._known:
            self._remove(host)
        self._known[host] = (rules, self._clock.now() + seconds)
        self._held += _memory_size(rules)
        while len(self._known) > self._size:
            self._remove(next(iter(self._known)))
        while self._held > self._memory and len(self._known) > 1:
            self._remove(max(self._known, key=lambda known: _memory_size(self._known[known][0])))

    def _remove(self, host: Host) -> None:
        self._held -= _memory_size(self._known.pop(host)[0])

    async def parse_response(
        self, answer: Response | Failed, url: Url, hops: int
    ) -> RobotsTxt | RobotsTxtRedirect | RobotsTxtUnreachable:
        """Interpret the response to a request for robots.txt; a long one is parsed in a thread."""
        if isinstance(answer, Response) and is_slow_to_parse(answer):
            return await asyncio.to_thread(interpret_response, answer, url, self._product, hops)
        return interpret_response(answer, url, self._product, hops)
