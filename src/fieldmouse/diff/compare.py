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
Pairs = list[tuple[int, int]]

MAX_NOISE_WORDS = 24  # maximum words between two blocks that may be noise; more is text written by a person
MAX_DEPTH = 16  # maximum depth of the alignment between common blocks
MAX_TABLE_CELLS = 400  # cells
MOVED_PLACE = 1  # the place of blocks that were only moved
_EDGE = "\0"  # stands for the page's start and end, where there is no neighbouring block

_token = re.compile(r"\b[^\W\d]*+\d\w*+")
_dated = re.compile(
    r"\b(?:(?:Jan|Febr?|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec|Mon|Tues?|Wed|Thur?s?|Fri|Sat|Sun)\b\.?+|"
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December|Monday|Tuesday|"
    r"Wednesday|Thursday|Friday|Saturday|Sunday|[ap]m|[AP]M|UTC|GMT|[Yy]esterday|[Tt]oday)\b|[ap]\.m\.)"
)
_zeros = re.compile(r"0(?:[\s.,:;/+'()-]*+0)++")
_ago = re.compile(r"\b(?:0|an?) (?:second|minute|hour|day|week|month|year|min|sec|hr)s?\b", re.IGNORECASE)


class ChangedWordCount(NamedTuple):
    """Number of words removed and added at one place."""

    place: int  # 0 if not recognizable at the next comparison
    words: int


class DiffStat(NamedTuple):
    differences: list[ChangedWordCount]
    words: int  # of both versions together

    def changed_share(self, noise: frozenset[int] = frozenset()) -> float:
        """Share of the words that differ; places in `noise` do not count."""
        words = sum(difference.words for difference in self.differences if difference.place not in noise)
        return min(1.0, words / self.words) if self.words else 0.0


class DiffSegment(NamedTuple):
    """Segment of two versions: equal in both, or the old and the new blocks."""

    old: list[str]
    new: list[str]

    @property
    def equal(self) -> bool:
        return self.old == self.new


class Hunk(NamedTuple):
    """Removed and added blocks between two unchanged ones."""

    place: int  # 0 if not recognizable at the next comparison
    old: list[str]
    new: list[str]
    before: str = ""  # the preceding block in both versions; "" if there is none
    after: str = ""


def mask_variable_parts(block: str) -> str:
    """Mask the parts of a block that change at every fetch: dates, numbers and tokens.

    >>> mask_variable_parts("Served Mon, 16 Nov 2026 12:31:05 by web7 (3f9a21c)")
    'Served 0 by 0)'
    >>> mask_variable_parts("5 minutes ago")
    '0 ago'
    """
    block = _dated.sub("0", _token.sub("0", block))
    return _ago.sub("0", _zeros.sub("0", block))


def compare_versions(old: Sequence[str], new: Sequence[str]) -> DiffStat:
    """Places at which `new` differs from `old`, with the number of words."""
    words_at: dict[int, int] = {}
    for hunk in find_hunks(old, new):
        words = (
            _count_words(hunk.old) + _count_words(hunk.new)
            if hunk.place == MOVED_PLACE
            else _count_changed_words(hunk.old, hunk.new)
        )
        words_at[hunk.place] = words_at.get(hunk.place, 0) + words
    differing = [ChangedWordCount(place, words) for place, words in words_at.items()]
    return DiffStat(differing, _count_words(old) + _count_words(new))


def find_hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[Hunk]:
    """All differences, in page order."""
    if old == new:
        return
    gaps = list(_unmatched_ranges(align_equal_elements(old, new), len(old), len(new)))
    # A block removed at one place and added at another has only been moved.
    moved = Counter(old[i] for i1, i2, _, _ in gaps for i in range(i1, i2))
    moved &= Counter(new[j] for _, _, j1, j2 in gaps for j in range(j1, j2))
    moved_out, moved_in = Counter(moved), Counter(moved)
    for i1, i2, j1, j2 in gaps:
        before, after = old[i1 - 1] if i1 else "", old[i2] if i2 < len(old) else ""
        removed, moved_from = _split_moved(old[i1:i2], moved_out)
        added, moved_to = _split_moved(new[j1:j2], moved_in)
        if moved_from or moved_to:
            yield Hunk(MOVED_PLACE, moved_from, moved_to, before, after)
        if removed or added:
            yield from _gap_hunks(removed, added, before, after)


def _split_moved(blocks: Sequence[str], moved: Counter[str]) -> tuple[list[str], list[str]]:
    """Split blocks into those that occur only here and those that were moved; counts `moved` down."""
    unmoved, matched = [], []
    for block in blocks:
        if moved[block] > 0:
            moved[block] -= 1
            matched.append(block)
        else:
            unmoved.append(block)
    return unmoved, matched


def _gap_hunks(removed: list[str], added: list[str], before: str, after: str) -> Iterator[Hunk]:
    """Differences between two unchanged blocks, place by place."""
    old, new = ([mask_variable_parts(block) for block in removed], [mask_variable_parts(block) for block in added])
    around = mask_variable_parts(before) if before else _EDGE, mask_variable_parts(after) if after else _EDGE
    i = j = 0
    for at, now in [*align_equal_elements(old, new), (len(removed), len(added))]:
        if at > i or now > j:
            left, right = removed[i:at], added[j:now]
            place = 0
            if max(_count_words(left), _count_words(right)) <= MAX_NOISE_WORDS:
                place = _place_hash(old[i - 1] if i else around[0], old[at] if at < len(old) else around[1])
            preceding, following = removed[i - 1] if i else before, removed[at] if at < len(old) else after
            yield Hunk(place, left, right, preceding, following)
        if at < len(removed):
            yield Hunk(_place_hash(old[at]), [removed[at]], [added[now]], before, after)
        i, j = at + 1, now + 1


def _place_hash(*templates: str) -> int:
    return xxhash.xxh32_intdigest("\n".join(templates).encode("utf-8", "replace")) or MOVED_PLACE


def _count_words(blocks: Sequence[str]) -> int:
    """Number of words; within a block they are separated by single spaces."""
    return sum(block.count(" ") for block in blocks) + len(blocks)


def _count_changed_words(removed: Sequence[str], added: Sequence[str]) -> int:
    """Number of words removed and added; at least 1."""
    before = Counter(word for block in removed for word in block.split())
    after = Counter(word for block in added for word in block.split())
    return max(1, (before - after).total() + (after - before).total())


# -- alignment


def diff_segments(old: Sequence[str], new: Sequence[str], *, table: int = MAX_TABLE_CELLS) -> Iterator[DiffSegment]:
    """Both versions from beginning to end, as alternating equal and different segments."""
    i = j = 0
    pairs = align_equal_elements(old, new, table=table)
    for i1, i2, j1, j2 in _unmatched_ranges(pairs, len(old), len(new)):
        if i1 > i:
            yield DiffSegment(list(old[i:i1]), list(new[j:j1]))
        yield DiffSegment(list(old[i1:i2]), list(new[j1:j2]))
        i, j = i2, j2
    if i < len(old):
        yield DiffSegment(list(old[i:]), list(new[j:]))


def _unmatched_ranges(pairs: Pairs, old: int, new: int) -> Iterator[tuple[int, int, int, int]]:
    """Gaps around and between the pairs, as start and end in each version."""
    i = j = 0
    for at, now in [*pairs, (old, new)]:
        if at > i or now > j:
            yield i, at, j, now
        i, j = at + 1, now + 1


def align_equal_elements(old: Sequence[T], new: Sequence[T], *, table: int = MAX_TABLE_CELLS) -> Pairs:
    """Pairs of indices of equal elements, in ascending order.

    Segments without an element that occurs once are aligned by a table, if it has at most `table` cells.
    """
    pairs: Pairs = []
    stack = [(0, len(old), 0, len(new), 0)]
    while stack:
        i1, i2, j1, j2, depth = stack.pop()
        while i1 < i2 and j1 < j2 and old[i1] == new[j1]:
            pairs.append((i1, j1))
            i1, j1 = i1 + 1, j1 + 1
        while i1 < i2 and j1 < j2 and old[i2 - 1] == new[j2 - 1]:
            i2, j2 = i2 - 1, j2 - 1
            pairs.append((i2, j2))
        if i1 == i2 or j1 == j2 or depth == MAX_DEPTH:
            continue
        chain = _unique_common_elements(old, new, i1, i2, j1, j2)
        if not chain and (i2 - i1) * (j2 - j1) <= table:
            pairs += _longest_common(old, new, i1, i2, j1, j2)
        for i, j in chain:
            pairs.append((i, j))
            stack.append((i1, i, j1, j, depth + 1))
            i1, j1 = i + 1, j + 1
        if chain:
            stack.append((i1, i2, j1, j2, depth + 1))
    return sorted(pairs)


def _unique_common_elements(old: Sequence[T], new: Sequence[T], i1: int, i2: int, j1: int, j2: int) -> Pairs:
    """Longest increasing chain of elements that occur once in each segment."""
    old_counts, new_counts = Counter(old[i1:i2]), Counter(new[j1:j2])
    where = {new[j]: j for j in range(j1, j2) if new_counts[new[j]] == 1}
    candidates = [(i, where[old[i]]) for i in range(i1, i2) if old_counts[old[i]] == 1 and old[i] in where]
    ends: list[int] = []  # by length of chain: the smallest last index in `new`
    last: list[int] = []  # by length of chain: its last candidate
    previous = [-1] * len(candidates)
    for number, (_, j) in enumerate(candidates):
        length = bisect_left(ends, j)
        previous[number] = last[length - 1] if length else -1
        if length == len(ends):
            ends.append(j)
            last.append(number)
        else:
            ends[length], last[length] = j, number
    chain = []
    number = last[-1] if last else -1
    while number >= 0:
        chain.append(candidates[number])
        number = previous[number]
    return chain[::-1]


def _longest_common(old: Sequence[T], new: Sequence[T], i1: int, i2: int, j1: int, j2: int) -> Pairs:
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
