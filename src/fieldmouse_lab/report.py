"""Report of the lab: one HTML page with every table, verdict and figure.

The page is self-contained: styles and figures are inside it, nothing is fetched, no script runs. It
starts with the number of results that agree with the printed ones, then lists each one that does not,
with the reason. The experiments follow, group by group. A verdict is a colour and a word.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files

from fieldmouse import __version__
from fieldmouse_lab import grid, plot
from fieldmouse_lab.catalogue import Figure, Row, Verdict
from fieldmouse_lab.findings import LabFinding, summarise, tally, verdict_word

QUIET = (Verdict.SAME, Verdict.NEW)


def experiment_tables(rows: Sequence[Row]) -> Iterator[str]:
    """Tables of all rows of an experiment, with the notes of a grid below it."""
    for block in grid.layout_rows(rows):
        yield _grid(block) if isinstance(block, grid.Grid) else list_table(block)


def list_table(rows: Iterable[Row]) -> str:
    """One row per line, with its note."""
    return _list((escape(row.label), row) for row in rows)


def disagreements(rows: Iterable[tuple[LabFinding, Row]]) -> str:
    """Rows of several experiments, each with a link to its section."""
    return _list((f"{_link(finding)}<br><small>{escape(row.label)}</small>", row) for finding, row in rows)


def _link(finding: LabFinding) -> str:
    return f'<a href="#{escape(finding.id)}">{escape(finding.title)}</a>'


def _list(named: Iterable[tuple[str, Row]]) -> str:
    head = "".join(f'<th class="n">{word}</th>' for word in ("printed", "ours", "spread"))
    body = "".join(
        f'<tr><th scope="row">{name}</th>{_numbers(row)}<td class="note">{escape(row.note)}</td></tr>'
        for name, row in named
    )
    return _scrolling(f"<thead><tr><th></th>{head}<th>verdict</th><th></th></tr></thead><tbody>{body}</tbody>", "list")


def _numbers(row: Row) -> str:
    return (
        f'<td class="n">{grid.format_printed(row)}</td><td class="n ours">{grid.format_ours(row)}</td>'
        f'<td class="n">{grid.format_spread(row)}</td><td class="word">{chip(row.verdict)}</td>'
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
    return f"{table}{notes}<details><summary>as a list</summary>{list_table(laid.cells.values())}</details>"


def _caption(laid: grid.Grid) -> str:
    printed = any(row.printed is not None for row in laid.cells.values())
    moves = any(row.spread for row in laid.cells.values())
    says = "ours" + (" ± spread over seeds" if moves else "")
    says += ", and below it the printed number" if printed else "; nothing was printed"
    return f"{laid.common}: {says}" if laid.common else says[0].upper() + says[1:]


def _cell(row: Row | None) -> str:
    if row is None:
        return '<td class="n empty"></td>'
    spread = grid.format_spread(row)
    moves = f" <small>±{spread}</small>" if spread else ""
    printed = f"<br><small>{grid.format_printed(row)}</small>" if row.printed is not None else ""
    word = "" if row.verdict in QUIET else f"<br>{chip(row.verdict)}"
    truth = f"{row.label}: printed {grid.format_printed(row)}, ours {grid.format_ours(row)}, {row.verdict}"
    inside = f"<b>{grid.format_ours(row)}</b>{moves}{printed}{word}"
    return f'<td class="n {row.verdict}" title="{escape(truth)}">{inside}</td>'


def _scrolling(inside: str, kind: str) -> str:
    return f'<div class="scroll"><table class="{kind}">{inside}</table></div>'


MEANINGS = {
    Verdict.SAME: "agrees to the printed digits, or lies where one more of our own runs could have ended",
    Verdict.MISPRINT: "the paper contradicts itself; the note says what is true",
    Verdict.OUTLIER: "one run of chance, too far out to come from the model as described",
    Verdict.OPEN: "the paper leaves open what it depends on; it lies between the readings in the note",
    Verdict.DIFFERENT: "we do not get it, and do not know why",
    Verdict.NEW: "nothing was printed: ours alone",
}


def render_report(
    findings: Sequence[LabFinding], *, made: str, draw: Callable[[Figure], str] = plot.render_inline_svg
) -> str:
    """Render the whole report; `made` is its date and is printed unchanged."""
    groups = list(dict.fromkeys(finding.group for finding in findings))
    body = [_head(findings, made), '<div class="columns">', _contents(findings, groups), "<main>", _unlike(findings)]
    for group in groups:
        body.append(f'<h2 id="group-{escape(group)}">{escape(group)}</h2>')
        body += [_experiment(finding, draw) for finding in findings if finding.group == group]
    body += ["</main>", "</div>"]
    style = files("fieldmouse_lab").joinpath("report.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>fieldmouse: the lab's report</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _head(findings: Sequence[LabFinding], made: str) -> str:
    counts = tally(findings)
    shown = [verdict for verdict in Verdict if counts[verdict] or verdict in (Verdict.SAME, Verdict.DIFFERENT)]
    tiles = "".join(
        f'<li class="{verdict}"><b>{counts[verdict]:,}</b> '
        f"<span>{verdict_word(verdict, counts[verdict])}</span>"
        f"<small>{MEANINGS[verdict]}</small></li>"
        for verdict in shown
    )
    bar = "".join(
        f'<i class="{verdict}" style="flex-grow:{counts[verdict]}"></i>' for verdict in shown if counts[verdict]
    )
    return (
        "<header><h1>The lab's report</h1>"
        "<p>Every number here was computed anew, and stands beside the one that was printed, if any was.</p>"
        f'<ul class="tiles">{tiles}</ul><div class="bar" aria-hidden="true">{bar}</div>'
        f'<p class="made">{len(findings)} experiments, {escape(summarise(counts))}. '
        f"Made {escape(made)} by fieldmouse {escape(__version__)}.</p></header>"
    )


def _contents(findings: Sequence[LabFinding], groups: Sequence[str]) -> str:
    lines = ['<nav aria-label="Contents"><h2>Contents</h2>']
    for group in groups:
        lines.append(f'<h3><a href="#group-{escape(group)}">{escape(group)}</a></h3><ul>')
        lines += [
            f"<li>{_link(finding)}{_chips(tally([finding]))}</li>" for finding in findings if finding.group == group
        ]
        lines.append("</ul>")
    return "\n".join([*lines, "</nav>"])


def _chips(counts: Counter[Verdict]) -> str:
    """Counts of the verdicts that need attention."""
    return "".join(
        f' <span class="chip {verdict}">{counts[verdict]} {verdict_word(verdict, counts[verdict])}</span>'
        for verdict in (Verdict.MISPRINT, Verdict.OUTLIER, Verdict.OPEN, Verdict.DIFFERENT)
        if counts[verdict]
    )


def _unlike(findings: Sequence[LabFinding]) -> str:
    """All numbers that differ from the printed ones, in one table."""
    rows = [
        (finding, row)
        for verdict in (Verdict.DIFFERENT, Verdict.OPEN, Verdict.OUTLIER, Verdict.MISPRINT)
        for finding in findings
        for row in finding.result.rows
        if row.verdict is verdict
    ]
    if not rows:
        return '<h2 id="unlike">Not as printed</h2><p>Nothing: every printed number is the same.</p>'
    return f'<h2 id="unlike">Not as printed</h2>{disagreements(rows)}'


def _experiment(finding: LabFinding, draw: Callable[[Figure], str]) -> str:
    result = finding.result
    lines = [
        f'<section id="{escape(finding.id)}"><h3>{escape(finding.title)}</h3>',
        f'<p class="made"><code>lab run {escape(finding.id)}</code> · {" · ".join(_facts(finding))}</p>',
        markdown_paragraphs(finding.about),
        *experiment_tables(result.rows),
    ]
    if result.remarks:
        lines.append('<ul class="remarks">')
        lines += [f"<li>{markdown_inline(remark)}</li>" for remark in result.remarks]
        lines.append("</ul>")
    for figure in result.figures:
        caption = f" {markdown_inline(figure.caption)}" if figure.caption else ""
        lines.append(
            f'<figure role="group">{draw(figure)}'
            f"<figcaption><b>{markdown_inline(figure.title)}</b>{caption}</figcaption></figure>"
        )
    return "\n".join([*lines, "</section>"])


def _facts(finding: LabFinding) -> Iterator[str]:
    if finding.result.rows:
        yield escape(summarise(tally([finding])))
    figures = len(finding.result.figures)
    if figures:
        yield f"{figures} figure{'s' if figures > 1 else ''}"
    yield _duration(finding.seconds)


def markdown_paragraphs(text: str) -> str:
    """
    >>> markdown_paragraphs("Counts `mice`.\\n\\nTwice <or more>.")
    '<p>Counts <code>mice</code>.</p><p>Twice &lt;or more&gt;.</p>'
    """
    return "".join(f"<p>{markdown_inline(part)}</p>" for part in re.split(r"\n\s*\n", text.strip()) if part)


def markdown_inline(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))


def _duration(seconds: float) -> str:
    """
    >>> _duration(0.04), _duration(314)
    ('0.0 s', '5 min 14 s')
    """
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
