"""`fieldmouse lab report`: all findings on one HTML page."""

from __future__ import annotations

import time
from pathlib import Path

import click

from fieldmouse.cli import console, options, output_file
from fieldmouse.errors import UsageError
from fieldmouse_lab import catalogue, report
from fieldmouse_lab import findings as book
from fieldmouse_lab.cli import bench


@click.command(
    epilog="""\b
Examples:
  fieldmouse lab report --to report.html
  fieldmouse lab report urn --plots figures
  fieldmouse lab run urn --keep urn.json
  fieldmouse lab report --from urn.json"""
)
@click.argument("names", metavar="[NAME...]", nargs=-1)
@bench.file_option("--to", "HTML file to write.", "lab-report.html")
@click.option(
    "--from",
    "kept",
    type=click.Path(path_type=Path),
    metavar="FILE",
    multiple=True,
    help="Run nothing and show the findings saved in FILE; repeatable.",
)
@bench.jobs_option
@bench.plots_option
@options.json_option
def command(
    names: tuple[str, ...], to: Path, kept: tuple[Path, ...], jobs: int, plots: Path | None, as_json: bool
) -> int:
    """Run experiments by NAME (default: all) and write one HTML page with their findings.

    The page needs no other files. The exit code is 1 if a number differs for an unknown
    reason.
    """
    if kept and names:
        raise UsageError(
            f"both `{names[0]}` and `--from {kept[0]}` say what to show",
            "run experiments by name, or give only `--from`",
        )
    bench.check_outputs(files=(to, plots and plots / "figure.svg"), draws=True)
    found = [finding for path in kept for finding in book.read_findings(path)]
    if not kept:
        found = bench.run_experiments(catalogue.select_experiments(*names), jobs=jobs)
    made = time.strftime("on %-d %B %Y at %H:%M UTC", time.gmtime())
    output_file.write_output(to, report.render_report(found, made=made).encode(), parents=True)
    console.message(f"wrote {len(found)} experiments to `{to}`")
    if plots is not None:
        bench.write_figures(found, plots)
    counts = book.tally(found)
    if as_json:
        verdicts = {verdict.value: counts[verdict] for verdict in catalogue.Verdict}
        console.print_json({"to": str(to), "experiments": [finding.id for finding in found], "verdicts": verdicts})
    else:
        console.message(book.summarise(counts))
    return bench.exit_code(counts)
