"""Block-level diff of two versions of a page.

Both versions are lists of blocks. They are aligned by blocks that occur once in each (patience
diff). The result is readable, and the time grows hardly faster than the page, whatever its
content. The gaps are aligned once more by *templates*: blocks in which dates, numbers and
tokens are masked.

A difference has a *place* that is recognizable at the next comparison, when both versions are
different ones: the template of a block in which only masked words differ, or, for a few words, the
templates of the blocks around them. A longer text, or a text that moves, has no place (0).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

import xxhash

T = TypeVar("T", str, int)

FEW = 24  # maximum words between two blocks that may be noise; more is text written by a person
ROUNDS = 16  # maximum depth of the alignment between common blocks
TABLE = 400  # cells
ORDER = 1  # the place of blocks that were only moved
_EDGE = "\0"  # stands for the page's start and end, where there is no neighbouring block

_token = re.compile(r"\b[^\W\d]*+\d\w*+")
_dated = re.compile(
    r"\b(?:(?:Jan|Febr?|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec|Mon|Tues?|Wed|Thur?s?|Fri|Sat|Sun)\b\.?+|"
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December|Monday|Tuesday|"
    r"Wednesday|Thursday|Friday|Saturday|Sunday|[ap]m|[AP]M|UTC|GMT|[Yy]esterday|[Tt]oday)\b|[ap]\.m\.)"
)
_run = re.compile(r"0(?:[\s.,:;/+'()-]*+0)++")
_ago = re.compile(r"\b(?:0|an?) (?:second|minute|hour|day|week|month|year|min|sec|hr)s?\b", re.IGNORECASE)


class Differing(NamedTuple):
    """Number of words removed and added at one place."""

    place: int  # 0 if not recognizable at the next comparison
    words: int


class Comparison(NamedTuple):
    differing: list[Differing]
    words: int  # of both versions together

    def share(self, noise: frozenset[int] = frozenset()) -> float:
        """Share of the words that differ; places in `noise` do not count."""
        told = sum(one.words for one in self.differing if one.place not in noise)
        return min(1.0, told / self.words) if self.words else 0.0


class Step(NamedTuple):
    """Segment of two versions: equal in both, or the old and the new blocks."""

    old: list[str]
    new: list[str]

    @property
    def same(self) -> bool:
        return self.old == self.new


class Hunk(NamedTuple):
    """Removed and added blocks between two unchanged ones."""

    place: int  # 0 if not recognizable at the next comparison
    old: list[str]
    new: list[str]
    before: str = ""  # the preceding block in both versions; "" if there is none
    after: str = ""


def template(block: str) -> str:
    """Mask the parts of a block that change at every fetch: dates, numbers and tokens.

    >>> template("Served Mon, 16 Nov 2026 12:31:05 by web7 (3f9a21c)"), template("5 minutes ago")
    ('Served 0 by 0)', '0 ago')
    """
    block = _dated.sub("0", _token.sub("0", block))
    return _ago.sub("0", _run.sub("0", block))


def compare(old: Sequence[str], new: Sequence[str]) -> Comparison:
    """Places at which `new` differs from `old`, with the number of words."""
    found: dict[int, int] = {}
    for hunk in hunks(old, new):
        words = _length(hunk.old) + _length(hunk.new) if hunk.place == ORDER else _words(hunk.old, hunk.new)
        found[hunk.place] = found.get(hunk.place, 0) + words
    differing = [Differing(place, words) for place, words in found.items()]
    return Comparison(differing, _length(old) + _length(new))


def hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[Hunk]:
    """All differences, in page order."""
    if old == new:
        return
    gaps = list(_between(align(old, new), len(old), len(new)))
    # A block removed at one place and added at another has only been moved.
    moved = Counter(old[i] for i1, i2, _, _ in gaps for i in range(i1, i2))
    moved &= Counter(new[j] for _, _, j1, j2 in gaps for j in range(j1, j2))
    went, came = Counter(moved), Counter(moved)
    for i1, i2, j1, j2 in gaps:
        before, after = old[i1 - 1] if i1 else "", old[i2] if i2 < len(old) else ""
        gone, left = _parted(old[i1:i2], went)
        come, arrived = _parted(new[j1:j2], came)
        if left or arrived:
            yield Hunk(ORDER, left, arrived, before, after)
        if gone or come:
            yield from _within(gone, come, before, after)


def _parted(blocks: Sequence[str], moved: Counter[str]) -> tuple[list[str], list[str]]:
    """Split blocks into those that occur only here and those that were moved; counts `moved` down."""
    own, others = [], []
    for block in blocks:
        if moved[block] > 0:
            moved[block] -= 1
            others.append(block)
        else:
            own.append(block)
    return own, others


def _within(gone: list[str], come: list[str], before: str, after: str) -> Iterator[Hunk]:
    """Differences between two unchanged blocks, place by place."""
    masked, masked_now = [template(block) for block in gone], [template(block) for block in come]
    around = template(before) if before else _EDGE, template(after) if after else _EDGE
    i = j = 0
    for at, now in [*align(masked, masked_now), (len(gone), len(come))]:
        if at > i or now > j:
            left, right = gone[i:at], come[j:now]
            place = 0
            if max(_length(left), _length(right)) <= FEW:
                place = _place(masked[i - 1] if i else around[0], masked[at] if at < len(gone) else around[1])
            yield Hunk(
                place, left, right, gone[i - 1] if i else before, gone[at] if at < len(gone) else after
            )
        if at < len(gone):
            yield Hunk(_place(masked[at]), [gone[at]], [come[now]], before, after)
        i, j = at + 1, now + 1


def _place(*templates: str) -> int:
    return xxhash.xxh32_intdigest("\n".join(templates).encode("utf-8", "replace")) or ORDER


def _length(blocks: Sequence[str]) -> int:
    """Number of words; within a block they are separated by single spaces."""
    return sum(block.count(" ") for block in blocks) + len(blocks)


def _words(gone: Sequence[str], come: Sequence[str]) -> int:
    """Number of words removed and added; at least 1."""
    before = Counter(word for block in gone for word in block.split())
    now = Counter(word for block in come for word in block.split())
    return max(1, (before - now).total() + (now - before).total())


# -- alignment


def steps(old: Sequence[str], new: Sequence[str], *, table: int = TABLE) -> Iterator[Step]:
    """Both versions from beginning to end, as alternating equal and different segments."""
    i = j = 0
    pairs = align(old, new, table=table)
    for i1, i2, j1, j2 in _between(pairs, len(old), len(new)):
        if i1 > i:
            yield Step(list(old[i:i1]), list(new[j:j1]))
        yield Step(list(old[i1:i2]), list(new[j1:j2]))
        i, j = i2, j2
    if i < len(old):
        yield Step(list(old[i:]), list(new[j:]))


def _between(pairs: list[tuple[int, int]], old: int, new: int) -> Iterator[tuple[int, int, int, int]]:
    """Gaps around and between the pairs, as start and end in each version."""
    i = j = 0
    for at, now in [*pairs, (old, new)]:
        if at > i or now > j:
            yield i, at, j, now
        i, j = at + 1, now + 1


def align(old: Sequence[T], new: Sequence[T], *, table: int = TABLE) -> list[tuple[int, int]]:
    """Pairs of indices of equal elements, in ascending order.

    Segments without an element that occurs once are aligned by a table, if it has at most `table` cells.
    """
    pairs: list[tuple[int, int]] = []
    waiting = [(0, len(old), 0, len(new), 0)]
    while waiting:
        i1, i2, j1, j2, depth = waiting.pop()
        while i1 < i2 and j1 < j2 and old[i1] == new[j1]:
            pairs.append((i1, j1))
            i1, j1 = i1 + 1, j1 + 1
        while i1 < i2 and j1 < j2 and old[i2 - 1] == new[j2 - 1]:
            i2, j2 = i2 - 1, j2 - 1
            pairs.append((i2, j2))
        if i1 == i2 or j1 == j2 or depth == ROUNDS:
            continue
        singles = _singles(old, new, i1, i2, j1, j2)
        if not singles and (i2 - i1) * (j2 - j1) <= table:
            pairs += _longest(old, new, i1, i2, j1, j2)
        for i, j in singles:
            pairs.append((i, j))
            waiting.append((i1, i, j1, j, depth + 1))
            i1, j1 = i + 1, j + 1
        if singles:
            waiting.append((i1, i2, j1, j2, depth + 1))
    return sorted(pairs)


def _singles(old: Sequence[T], new: Sequence[T], i1: int, i2: int, j1: int, j2: int) -> list[tuple[int, int]]:
    """Longest increasing chain of elements that occur once in each segment."""
    times, times_now = Counter(old[i1:i2]), Counter(new[j1:j2])
    where = {new[j]: j for j in range(j1, j2) if times_now[new[j]] == 1}
    candidates = [(i, where[old[i]]) for i in range(i1, i2) if times[old[i]] == 1 and old[i] in where]
    ends: list[int] = []  # by length of chain: the smallest last index in `new`
    last: list[int] = []  # by length of chain: its last candidate
    before = [-1] * len(candidates)
    for number, (_, j) in enumerate(candidates):
        length = bisect_left(ends, j)
        before[number] = last[length - 1] if length else -1
        if length == len(ends):
            ends.append(j)
            last.append(number)
        else:
            ends[length], last[length] = j, number
    chain = []
    number = last[-1] if last else -1
    while number >= 0:
        chain.append(candidates[number])
        number = before[number]
    return chain[::-1]


def _longest(old: Sequence[T], new: Sequence[T], i1: int, i2: int, j1: int, j2: int) -> list[tuple[int, int]]:
    """Longest common subsequence of two short segments."""
    width = j2 - j1
    rows = [[0] * (width + 1)]  # from the end: length of the longest common subsequence of the remainders
    for i in range(i2 - 1, i1 - 1, -1):
        below, row = rows[-1], [0] * (width + 1)
        block = old[i]
        for k in range(width - 1, -1, -1):
            row[k] = below[k + 1] + 1 if block == new[j1 + k] else max(below[k], row[k + 1])
        rows.append(row)
    rows.reverse()
    pairs, i, k = [], 0, 0
    while i < i2 - i1 and k < width:
        if old[i1 + i] == new[j1 + k]:
            pairs.append((i1 + i, j1 + k))
            i, k = i + 1, k + 1
        elif rows[i + 1][k] >= rows[i][k + 1]:
            i += 1
        else:
            k += 1
    return pairs
