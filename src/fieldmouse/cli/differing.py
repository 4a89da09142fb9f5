"""How two versions of a page differ, in lines for a person.

Blocks that went begin with `-`, those that came with `+`. Of a block that was rewritten in a few words
only the words around them are shown, with [-what went-] and {+what came+} where they stood; on
a terminal both have a colour. The words are a stranger's: nothing in them acts on the terminal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fieldmouse.figures import when
from fieldmouse.visible import visible

if TYPE_CHECKING:
    from fieldmouse.indexer.comparison import Hunk
    from fieldmouse.reading.versions import VersionDifference

AROUND = 6  # words shown on either side of one that differs
TABLE = 250_000  # cells in which words are aligned: two blocks of 500
LONGEST = 2000  # characters shown of one block
CONTEXT = 100  # characters shown of a block that stayed

_RED, _GREEN, _DIM, _PLAIN = "\x1b[31m", "\x1b[32m", "\x1b[2m", "\x1b[0m"


class _Ink:
    """Colours, or none."""

    def __init__(self, coloured: bool):
        self._coloured = coloured

    def __call__(self, colour: str, text: str) -> str:
        return f"{colour}{text}{_PLAIN}" if self._coloured and text else text


def lines_of(told: VersionDifference, *, coloured: bool) -> Iterator[str]:
    """The whole difference; every text of the page is made visible here."""
    ink = _Ink(coloured)
    old, new = told.numbers
    yield visible(told.url)
    yield ink(_RED, f"--- version {old}, {when(round(told.old.row.at))}")
    yield ink(_GREEN, f"+++ version {new}, {when(round(told.new.row.at))}")
    if told.hunks is None:
        yield "no text: the bytes are the same" if told.same else "no text: other bytes"
        return
    if told.same:
        yield "no difference in the text, except noise and what `[noise]` ignores"
        return
    last = None
    for hunk in told.hunks:
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
    """One block that became another: word by word if they have most words in common."""
    from fieldmouse.indexer.comparison import steps

    before, now = old.split(), new.split()
    told = list(steps(before, now, table=TABLE))
    shared = sum(len(step.old) for step in told if step.same)
    if 2 * shared < max(len(before), len(now)):
        yield ink(_RED, f"- {_cut(visible(old), LONGEST)}")
        yield ink(_GREEN, f"+ {_cut(visible(new), LONGEST)}")
        return
    parts: list[str] = []
    for place, step in enumerate(told):
        if step.same:
            parts.append(_between(step.old, first=place == 0, last=place == len(told) - 1))
            continue
        if step.old:
            parts.append(ink(_RED, f"[-{_cut(visible(' '.join(step.old)), LONGEST)}-]"))
        if step.new:
            parts.append(ink(_GREEN, f"{{+{_cut(visible(' '.join(step.new)), LONGEST)}+}}"))
    yield "~ " + " ".join(parts)


def _between(words: list[str], *, first: bool, last: bool) -> str:
    """The words next to what differs; the others are left out."""
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
