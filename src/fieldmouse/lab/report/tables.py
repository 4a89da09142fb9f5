"""HTML tables of numbers: a grid where labels form one, otherwise a list.

A verdict is a colour and a word. A grid omits the word for "same" and "new", which would otherwise
dominate; the full content of a cell is in its title, and in the list below the grid.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from fieldmouse.lab import digits, grid
from fieldmouse.lab.catalogue import Row, Verdict
from fieldmouse.lab.findings import LabFinding

QUIET = (Verdict.SAME, Verdict.NEW)


def blocks(rows: Sequence[Row]) -> Iterator[str]:
    """Tables of all rows of an experiment, with the notes of a grid below it."""
    for block in grid.blocks(rows):
        yield _grid(block) if isinstance(block, grid.Grid) else listed(block)


def listed(rows: Iterable[Row]) -> str:
    """One row per line, with its note."""
    return _list((escape(row.label), row) for row in rows)


def unlike(rows: Iterable[tuple[LabFinding, Row]]) -> str:
    """Rows of several experiments, each with a link to its section."""
    return _list((f"{_way(finding)}<br><small>{escape(row.label)}</small>", row) for finding, row in rows)


def _way(finding: LabFinding) -> str:
    return f'<a href="#{escape(finding.id)}">{escape(finding.title)}</a>'


def _list(named: Iterable[tuple[str, Row]]) -> str:
    head = "".join(f'<th class="n">{word}</th>' for word in ("printed", "ours", "spread"))
    body = "".join(
        f'<tr><th scope="row">{name}</th>{_numbers(row)}<td class="note">{escape(row.note)}</td></tr>'
        for name, row in named
    )
    return _scrolling(
        f"<thead><tr><th></th>{head}<th>verdict</th><th></th></tr></thead><tbody>{body}</tbody>", "list"
    )


def _numbers(row: Row) -> str:
    return (
        f'<td class="n">{digits.printed(row)}</td><td class="n ours">{digits.ours(row)}</td>'
        f'<td class="n">{digits.spread(row)}</td><td class="word">{chip(row.verdict)}</td>'
    )


def chip(verdict: Verdict) -> str:
    return f'<span class="chip {verdict}">{verdict}</span>'


def _grid(laid: grid.Grid) -> str:
    head = "".join(f'<th scope="col" class="n">{escape(column)}</th>' for column in laid.columns)
    body = "".join(
        f'<tr><th scope="row" class="n">{escape(key)}</th>'
        + "".join(_cell(laid.cells.get((key, column))) for column in laid.columns)
        + "</tr>"
        for key in laid.rows
    )
    across = f'<tr><th></th><th colspan="{len(laid.columns)}" class="across">{escape(laid.across)}</th></tr>'
    table = _scrolling(
        f"<caption>{escape(_caption(laid))}</caption>"
        f'<thead>{across if laid.across else ""}<tr><th class="n">{escape(laid.down)}</th>{head}</tr></thead>'
        f"<tbody>{body}</tbody>",
        "grid",
    )
    noted = "".join(
        f"<li><b>{escape(row.label)}</b>: {escape(row.note)}</li>" for row in laid.cells.values() if row.note
    )
    notes = f'<ul class="remarks">{noted}</ul>' if noted else ""
    return f"{table}{notes}<details><summary>as a list</summary>{listed(laid.cells.values())}</details>"


def _caption(laid: grid.Grid) -> str:
    printed = any(row.printed is not None for row in laid.cells.values())
    moves = any(row.spread for row in laid.cells.values())
    says = "ours" + (" ± spread over seeds" if moves else "")
    says += ", and below it the printed number" if printed else "; nothing was printed"
    return f"{laid.common}: {says}" if laid.common else says[0].upper() + says[1:]


def _cell(row: Row | None) -> str:
    if row is None:
        return '<td class="n empty"></td>'
    spread = digits.spread(row)
    moves = f" <small>±{spread}</small>" if spread else ""
    printed = f"<br><small>{digits.printed(row)}</small>" if row.printed is not None else ""
    word = "" if row.verdict in QUIET else f"<br>{chip(row.verdict)}"
    truth = f"{row.label}: printed {digits.printed(row)}, ours {digits.ours(row)}, {row.verdict}"
    inside = f"<b>{digits.ours(row)}</b>{moves}{printed}{word}"
    return f'<td class="n {row.verdict}" title="{escape(truth)}">{inside}</td>'


def _scrolling(inside: str, kind: str) -> str:
    return f'<div class="scroll"><table class="{kind}">{inside}</table></div>'
