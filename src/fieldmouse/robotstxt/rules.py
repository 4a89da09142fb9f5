"""Path rules of a robots.txt and their matching (RFC 9309, 2.2.2 and 2.2.3).

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
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

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
    return text if _is_plain(text) else _replace_octets(_normalized, text)


def _normalized(match: re.Match[str]) -> str:
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
    def parse(cls, pattern: str, allow: bool) -> PathRule | None:
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
        return self._line("*".join(self.parts))

    def _line(self, pattern: str) -> str:
        """Return a line that parses to this rule; a dollar that is not an anchor may not end it."""
        if not self.anchored and pattern.endswith("$"):
            pattern = f"{pattern[:-1]}%24"
        return f"{'Allow' if self.allow else 'Disallow'}: {pattern}{'$' * self.anchored}"

    def to_line(self) -> str:
        """Return a line that parses to this rule, with adjacent stars, which count among its octets.

        >>> PathRule.parse("/a***b$", False).to_line()
        'Disallow: /a***b$'
        """
        if len(self.parts) == 1:
            return str(self)
        more = self.length - self.shortest - self.anchored - (len(self.parts) - 1)
        return self._line(self.parts[0] + "*" * more + "".join("*" + part for part in self.parts[1:]))


def parts_match(parts: tuple[str, ...], anchored: bool, path: str, room: int) -> tuple[bool, int]:
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

    >>> book = RuleSet([PathRule.parse("/a", False), PathRule.parse("/a/*.html", True)])
    >>> str(book.deciding_rule("/a/b")[0]), str(book.deciding_rule("/a/b.html")[0])
    ('Disallow: /a', 'Allow: /a/*.html')
    """

    __slots__ = ("_behind", "_dropped", "_heads", "_within", "size")

    def __init__(self, rules: Iterable[PathRule | None]):
        distinct = {rule for rule in rules if rule is not None}
        kept = sorted(
            (rule for rule in distinct if rule.shortest <= MAX_PATH),
            key=lambda rule: (-rule.length, not rule.allow),
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

    def lines(self) -> list[str] | None:
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
                        hit, tried = parts_match(parts, anchored, path, (work - steps) // stride)
                        steps += stride * tried
                    if hit:
                        best, most = rule, length
                        break
                    if steps > work:
                        break
            place = within[place]
        return best, steps
