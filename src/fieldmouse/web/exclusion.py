"""What a host's robots.txt allows us (RFC 9309).

`Exclusion` is the file read with our product token in mind; `judge` is what an
answer to the request for it means, redirects and errors included; `lifetime` is
how long that meaning may be kept. All three are pure: who fetches, follows and
remembers is the caller's business.

Reading and matching is `protego`'s work, with three things mended here first: a byte
order mark would hide the first line; a group for `field` would be taken for
one that begins the name `fieldmouse`, so User-agent lines are rewritten to say
just whether they mean us, before the file is read; and a Crawl-delay that is no finite
number would be passed over, when it asks for more quiet than any other.
"""

from __future__ import annotations

import re
from typing import ClassVar

import msgspec
from protego import Protego

from fieldmouse.records import Failed, Response
from fieldmouse.url import Url, resolve
from fieldmouse.web.encoding import decode

SIZE = 500 * 1024  # bytes read of a robots.txt; the least that RFC 9309 asks for, and plenty
HOPS = 5  # redirects followed for one
DAY = 24 * 3600.0
HOUR = 3600.0
SITEMAPS = 1000  # named by one file, before we stop counting

_US, _THEM = "us", "them"
_AGENT_LINE = re.compile(r"^([ \t]*user[- ]?agent[ \t]*[: \t])([^\n#]*)", re.IGNORECASE | re.MULTILINE)
_TOKEN = re.compile(r"[a-z_-]*", re.IGNORECASE)
_DELAY_LINE = re.compile(r"^([ \t]*crawl[- ]delay[ \t]*[: \t])([^\n#]*)", re.IGNORECASE | re.MULTILINE)


class Redirect(msgspec.Struct, frozen=True):
    """The file is said to be elsewhere; ask there, on behalf of the first host."""

    target: Url


class Unreachable(msgspec.Struct, frozen=True):
    """The host could not say: until it can, nothing of it may be fetched."""

    detail: str


class Exclusion:
    """One host's rules for us.

    >>> rules = Exclusion.parse(b"User-agent: *\\nDisallow: /private\\nCrawl-delay: 2", "fieldmouse")
    >>> rules.allows("/private/diary"), rules.allows("/"), rules.crawl_delay
    (False, True, 2.0)
    """

    EVERYTHING: ClassVar[Exclusion]
    NOTHING: ClassVar[Exclusion]

    __slots__ = ("_rules", "_verdict", "crawl_delay", "sitemaps", "text")

    def __init__(self, text: bytes, rules: Protego | None, verdict: bool):
        self.text = text
        self._rules, self._verdict = rules, verdict
        self.crawl_delay: float | None = None if rules is None else rules.crawl_delay(_US)
        self.sitemaps: tuple[str, ...] = ()
        if rules is not None:
            self.sitemaps = tuple(dict.fromkeys(rules.sitemaps))[:SITEMAPS]

    @classmethod
    def parse(cls, text: bytes, product: str) -> Exclusion:
        """Read a file for the robot whose product token is `product`.

        Half a second for the largest file and the worst case; a few 100 us for a usual one. So
        large files are better read in a thread.
        """
        if len(text) > SIZE:  # and no half line: half of `Disallow: /private` says something else
            text = text[: max(text.rfind(b"\n", 0, SIZE), text.rfind(b"\r", 0, SIZE)) + 1]
        lines = text.decode("utf-8", "replace").removeprefix("\ufeff").splitlines()
        rules = Protego.parse(_bounded(_address(lines, product.partition("/")[0].lower())))
        return cls(text, rules, True)

    def allows(self, path: str) -> bool:
        """May we fetch this path and query? `/robots.txt` itself always."""
        if self._rules is None:
            return self._verdict or path == "/robots.txt"
        # With a host in front, or `//elsewhere/` would be read as one.
        allowed: bool = self._rules.can_fetch(f"http://h{path}", _US)
        return allowed

    def to_bytes(self) -> bytes:
        """To be kept; `from_bytes` reads it again."""
        if self._rules is not None:
            return b"=" + self.text
        return b"+" if self._verdict else b"-"

    @classmethod
    def from_bytes(cls, kept: bytes, product: str) -> Exclusion:
        if kept[:1] == b"=":
            return cls.parse(kept[1:], product)
        return cls.EVERYTHING if kept == b"+" else cls.NOTHING


Exclusion.EVERYTHING = Exclusion(b"", None, True)
Exclusion.NOTHING = Exclusion(b"", None, False)


def judge(
    answer: Response | Failed, url: Url, product: str, hops: int = 0
) -> Exclusion | Redirect | Unreachable:
    """What the answer to the request for `url`, a robots.txt reached over `hops` redirects, means.

    4xx: there are no rules. 429 and 5xx: the host is in trouble, which is not the same. Too many
    redirects, or one that leads nowhere, count as no rules (RFC 9309, 2.3.1.2).
    """
    if isinstance(answer, Failed):
        return Unreachable(answer.detail or answer.reason.value)
    status = answer.status
    if 200 <= status < 300:
        decoded = decode(answer.body, answer.header("content-encoding"), limit=SIZE)
        return Exclusion.parse(decoded.body, product)
    if status in (301, 302, 303, 307, 308):
        target = resolve(answer.header("location"), url) if answer.header("location") else None
        return Exclusion.EVERYTHING if target is None or hops >= HOPS else Redirect(target)
    if 400 <= status < 500 and status != 429:
        return Exclusion.EVERYTHING
    return Unreachable(f"status {status}")


def lifetime(answer: Response | Failed) -> float:
    """Seconds after which robots.txt must be asked for again: a day, or less if the host says so.

    Never less than an hour: `max-age=0` would double our visits to the host.
    """
    if isinstance(answer, Failed):
        return HOUR
    control = answer.header("cache-control").lower()
    age = re.search(r"max-age\s*=\s*\"?(\d{1,9})", control)
    if "no-store" in control or "no-cache" in control:
        return HOUR
    if age is None:
        return DAY if answer.status < 500 and answer.status != 429 else HOUR
    return min(DAY, max(HOUR, float(age[1])))


def _address(lines: list[str], product: str) -> str:
    """The file with every User-agent line saying `us`, `*` or `them`."""

    def readdress(match: re.Match[str]) -> str:
        value = match[2].strip()
        if value == "*" or value.startswith(("* ", "*\t")):
            return f"{match[1]} *"
        token = _TOKEN.match(value)
        ours = token is not None and token[0].lower() == product
        return f"{match[1]} {_US if ours else _THEM}"

    return _AGENT_LINE.sub(readdress, "\n".join(lines))


def _bounded(text: str) -> str:
    """The file with a Crawl-delay of infinity (`inf`, 400 digits) as a large number."""

    def rewrite(match: re.Match[str]) -> str:
        try:
            endless = float(match[2]) == float("inf")
        except ValueError:
            endless = False
        return f"{match[1]} 1e308" if endless else match[0]

    return _DELAY_LINE.sub(rewrite, text)
