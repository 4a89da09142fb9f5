"""`fieldmouse lab run` and `lab list`: experiments, each number beside the printed one."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap

import click

from fieldmouse.cli import console, options, output_file
from fieldmouse.errors import UsageError
from fieldmouse_lab import catalogue, grid
from fieldmouse_lab import findings as book
from fieldmouse_lab.catalogue import Row, Verdict
from fieldmouse_lab.cli import bench
from fieldmouse_lab.findings import LabFinding

#: Columns that sentences are folded to.
TEXT_WIDTH = 100


@click.command(
    epilog="""\b
Examples:
  fieldmouse lab run urn
  fieldmouse lab run all --keep findings.json --plots figures"""
)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@bench.jobs_option
@bench.plots_option
@bench.file_option("--keep", "Save all findings for `fieldmouse lab report --from FILE`.")
@click.option("--seed", type=int, metavar="N", help="First seed of the live experiments.")
@options.json_option
def command(
    names: tuple[str, ...], jobs: int, plots: Path | None, keep: Path | None, seed: int | None, as_json: bool
) -> int:
    """Run experiments by NAME: an id, a group, or `all`.

    Each number is shown as printed, as computed by us, and with a verdict: same,
    misprint (the paper contradicts itself), outlier (one run of chance), open (it lies
    between readings of what the paper leaves out), different, or new (nothing was
    printed). A spread is the standard deviation over seeds.

    The exit code is 1 if a number differs for an unknown reason.
    """
    bench.check_outputs(files=(keep, plots and plots / "figure.svg"), draws=plots is not None)
    chosen = catalogue.select_experiments(*names)
    if seed is not None:
        if not any(one.seeded for one in chosen):
            raise UsageError(
                f"`--seed` has no effect on {', '.join(f'`{name}`' for name in names)}",
                "the seeds of `live-thresholds` and `live-frontier` can be chosen",
            )
        chosen = [one.with_first_seed(seed) for one in chosen]
    found = bench.run_experiments(chosen, jobs=jobs, show=None if as_json else _show)
    if keep is not None:
        output_file.write_output(keep, book.encode_findings(found), parents=True)
        console.message(f"kept the findings in `{keep}`")
    if plots is not None:
        bench.write_figures(found, plots)
    counts = book.tally(found)
    if as_json:
        alone = len(found) == 1 and names == (found[0].id,)
        console.print_json(book.finding_to_json(found[0]) if alone else book.findings_to_json(" ".join(names), found))
    elif len(found) > 1:
        console.print_data(book.summarise(counts))
    return bench.exit_code(counts)


def _show(finding: LabFinding) -> None:
    """Print the tables of one experiment, its notes and its remarks."""
    console.print_data(f"{finding.id}: {finding.title}")
    for block in grid.layout_rows(finding.result.rows):
        console.print_data()
        for line in _table(block):
            console.print_data(f"  {line}".rstrip())
    noted = [f"{row.label}: {row.note}" for row in finding.result.rows if row.note]
    for said in (noted, finding.result.remarks):
        if said:
            console.print_data()
        for sentence in said:
            for line in wrap(sentence, TEXT_WIDTH, initial_indent="  ", subsequent_indent="    "):
                console.print_data(line)
    figures = ", ".join(figure.name for figure in finding.result.figures)
    if figures:
        console.print_data()
        console.print_data(f"  drawn by --plots: {figures}")
    if finding.result.rows:
        console.print_data()
        console.print_data(f"  {book.summarise(book.tally([finding]))}")
    console.print_data()


def _table(block: grid.Block) -> list[str]:
    """A grid that the terminal would fold is easier to read as a list."""
    if isinstance(block, grid.Grid):
        laid = _grid(block)
        return laid if max(map(len, laid)) + 2 <= console.terminal_width() else _list(tuple(block.cells.values()))
    return _list(block)


def _list(rows: tuple[Row, ...]) -> list[str]:
    table = [("", "printed", "ours", "spread", "verdict")]
    table += [
        (row.label, grid.format_printed(row), grid.format_ours(row), grid.format_spread(row), row.verdict.value)
        for row in rows
    ]
    return console.align_columns(table, right={1, 2, 3})


def _grid(laid: grid.Grid) -> list[str]:
    """Ours, the spread, the printed number in brackets, and the verdict where it is not "same"."""
    table = [
        (laid.down, *laid.columns),
        *((key, *(_cell(laid.cells.get((key, column))) for column in laid.columns)) for key in laid.rows),
    ]
    title = [text for text in (laid.common, laid.across and f"across: {laid.across}") if text]
    return [*title, *console.align_columns(table, right=set(range(len(table[0]))))]


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    spread = grid.format_spread(row)
    printed = "" if row.printed is None else f" ({grid.format_printed(row)})"
    word = "" if row.verdict in (Verdict.SAME, Verdict.NEW) else f"{row.verdict.value} "
    return word + grid.format_ours(row) + (f"±{spread}" if spread else "") + printed


@click.command(
    epilog="""\b
Examples:
  fieldmouse lab list
  fieldmouse lab list --json

Run one, or a whole group, with `fieldmouse lab run NAME`."""
)
@options.json_option
def list_experiments(as_json: bool) -> int:
    """List the experiments, by group."""
    known = catalogue.select_experiments()
    if as_json:
        console.print_json([{"id": one.id, "group": one.group, "title": one.title} for one in known])
        return 0
    width = max(len(one.id) for one in known)
    for group in dict.fromkeys(one.group for one in known):
        console.print_data(group)
        for one in known:
            if one.group == group:
                console.print_data(f"  {one.id:<{width}}  {one.title}")
    return 0
