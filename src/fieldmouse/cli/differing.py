"""Differences between two versions of a page, as lines for people.

Removed blocks begin with `-`, added blocks with `+`. A block in which few words changed is shown as the
changed words and the words around them, marked as [-removed-] and {+added+}; on a terminal both are
coloured. The page's text is untrusted and is sanitized, so that it cannot act on the terminal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fieldmouse.figures import when
from fieldmouse.visible import visible

if TYPE_CHECKING:
    from fieldmouse.indexer.comparison import Hunk
    from fieldmouse.reading.versions import VersionDifference

AROUND = 6  # words shown on either side of a changed word
TABLE = 250_000  # largest alignment table, in cells: two blocks of 500 words
LONGEST = 2000  # characters shown of one block
CONTEXT = 100  # characters shown of an unchanged block

_RED, _GREEN, _DIM, _PLAIN = "\x1b[31m", "\x1b[32m", "\x1b[2m", "\x1b[0m"


class _Ink:
    """Function that colours text, or returns it as it is."""

    def __init__(self, coloured: bool):
        self._coloured = coloured

    def __call__(self, colour: str, text: str) -> str:
        return f"{colour}{text}{_PLAIN}" if self._coloured and text else text


def lines_of(difference: VersionDifference, *, coloured: bool) -> Iterator[str]:
    """Lines of the whole difference, with the text of the page sanitized."""
    ink = _Ink(coloured)
    old, new = difference.numbers
    yield visible(difference.url)
    yield ink(_RED, f"--- version {old}, {when(round(difference.old.row.at))}")
    yield ink(_GREEN, f"+++ version {new}, {when(round(difference.new.row.at))}")
    if difference.hunks is None:
        yield "not text: same bytes" if difference.same else "not text: different bytes"
        return
    if difference.same:
        yield "no difference in the text, except noise and parts that `[noise]` ignores"
        return
    last = None
    for hunk in difference.hunks:
        if hunk.before and hunk.before != last:
            yield ink(_DIM, f"  {_cut(visible(hunk.before), CONTEXT)}")
        yield from _lines(hunk, ink)
        if hunk.after:
            yield ink(_DIM, f"  {_cut(visible(hunk.after), CONTEXT)}")
        last = hunk.after


def _lines(hunk: Hunk, ink: _Ink) -> Iterator[str]:
    if len(hunk.old) == len(hunk.new):
        for old, new in zip(hunk.old, hunk.new, strict=True):
            yield from _rewritten(old, new, ink)
        return
    for block in hunk.old:
        yield ink(_RED, f"- {_cut(visible(block), LONGEST)}")
    for block in hunk.new:
        yield ink(_GREEN, f"+ {_cut(visible(block), LONGEST)}")


def _rewritten(old: str, new: str, ink: _Ink) -> Iterator[str]:
    """One block that became another: shown word by word if most words stayed."""
    from fieldmouse.indexer.comparison import steps

    before, now = old.split(), new.split()
    changes = list(steps(before, now, table=TABLE))
    shared = sum(len(step.old) for step in changes if step.same)
    if 2 * shared < max(len(before), len(now)):
        yield ink(_RED, f"- {_cut(visible(old), LONGEST)}")
        yield ink(_GREEN, f"+ {_cut(visible(new), LONGEST)}")
        return
    parts: list[str] = []
    for place, step in enumerate(changes):
        if step.same:
            parts.append(_between(step.old, first=place == 0, last=place == len(changes) - 1))
            continue
        if step.old:
            parts.append(ink(_RED, f"[-{_cut(visible(' '.join(step.old)), LONGEST)}-]"))
        if step.new:
            parts.append(ink(_GREEN, f"{{+{_cut(visible(' '.join(step.new)), LONGEST)}+}}"))
    yield "~ " + " ".join(parts)


def _between(words: list[str], *, first: bool, last: bool) -> str:
    """Unchanged words, shortened to those next to a changed word."""
    if first:
        kept = words[-AROUND:]
        return visible(" ".join(kept if len(kept) == len(words) else ["…", *kept]))
    if last:
        kept = words[:AROUND]
        return visible(" ".join(kept if len(kept) == len(words) else [*kept, "…"]))
    if len(words) <= 2 * AROUND:
        return visible(" ".join(words))
    return visible(" ".join([*words[:AROUND], "…", *words[-AROUND:]]))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
