"""Results as one aligned table, for people, or as one JSON value, for programs."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell; a column of numbers (after the first) stands on the right.

    >>> print(aligned(["who", "pages"], [["mouse", "1,200"], ["elephant", "7"]]))
    who       pages
    mouse     1,200
    elephant      7
    """
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    right = [
        k > 0 and all(cell[:1].isdigit() or not cell.strip("-") for cell in column)
        for k, column in enumerate(zip(*rows, strict=True))
    ]
    made = []
    for line in lines:
        cells = zip(line, widths, right, strict=True)
        made.append("  ".join(cell.rjust(w) if r else cell.ljust(w) for cell, w, r in cells).rstrip())
    return "\n".join(made)


def say(text: str) -> None:
    """Print progress to stderr, so that stdout holds only the results."""
    print(text, file=sys.stderr, flush=True)
