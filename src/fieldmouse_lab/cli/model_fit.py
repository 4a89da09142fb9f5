"""`fieldmouse model fit`: a model fitted to the recorded buffer of a crawl, with its goodness of fit."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from fieldmouse.cli import console, options, output_file
from fieldmouse.errors import FieldmouseError, UsageError
from fieldmouse.queueing.fit.phase_type_fit import Method
from fieldmouse_lab.cli.bench import choice_option, print_table, write_figure

if TYPE_CHECKING:
    from fieldmouse.queueing.fit.goodness import FitReport


@click.command(
    epilog="""\b
Examples:
  fieldmouse model fit atlas
  fieldmouse model fit atlas --modes 1,4,16 --to atlas.json --plot atlas.svg"""
)
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--to", "target", metavar="FILE", help="Write the model to FILE, for `solve` and `optimise`; - for stdout."
)
@click.option("--plot", metavar="FILE", help="Draw the data against the fit, as .svg or .png.")
@options.modes_option("Fit only these numbers of fetch workers; default: all observed.")
@click.option(
    "--capacity", metavar="K", type=click.IntRange(1, 10**6), help="Size of the buffer; default: `buffer.pages`."
)
@click.option(
    "--gap", metavar="SECONDS", type=click.FloatRange(0), help="Count pages at most this far apart as one batch."
)
@click.option("--pause", metavar="SECONDS", type=click.FloatRange(0), help="Leave out intervals longer than this.")
@choice_option("--service", get_args(Method), "Method to fit service times.", "auto")
@choice_option("--lifetime", get_args(Method), "Method to fit lifetimes.", "auto")
@click.option(
    "--phases", type=click.IntRange(1, 20), default=6, show_default=True, help="Most phases of a distribution."
)
@click.option(
    "--draws", type=click.IntRange(0), default=99, show_default=True, help="Random samples that test the fit."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of these samples.")
@options.json_option
def command(
    directory: Path,
    target: str | None,
    plot: str | None,
    modes: tuple[int, ...] | None,
    capacity: int | None,
    gap: float | None,
    pause: float | None,
    service: Method,
    lifetime: Method,
    phases: int,
    draws: int,
    seed: int,
    as_json: bool,
) -> int:
    """Fit a model to the pages that entered the buffer of the crawl in DIRECTORY.

    Arrivals are fitted for each number of fetch workers, then service times and
    lifetimes. For each part the report has the distance between fit and data, and the
    probability of such a distance by chance. The command may run while the crawl runs.
    """
    from fieldmouse.reader.crawl_reader import CrawlReader

    room = CrawlReader(directory)
    asked = room.settings()
    if plot and not plot.endswith((".svg", ".png")):
        raise UsageError(f"`--plot {plot}` is neither .svg nor .png", "name it atlas.svg, for example")
    for name, seconds in (("gap", gap), ("pause", pause)):
        if seconds is not None and math.isnan(seconds):
            raise UsageError(f"`--{name} nan` is no time", "give seconds, 0 or more")

    import numpy as np

    from fieldmouse.control.fit_input import trace_from_rows
    from fieldmouse.control.governor import cost_weights
    from fieldmouse.queueing.fit.fit import fit
    from fieldmouse.queueing.model.model_file import ModelFileContent, write_model

    rows = room.buffer_trace_rows()
    if not len(rows):
        raise FieldmouseError(
            f"`{directory}` has no trace of its pages", "crawl with `control.trace` above 0, then fit"
        )
    fitted = fit(
        trace_from_rows(rows),
        capacity or asked.buffer.pages,
        modes=modes,
        gap=gap,
        pause=pause,
        service=service,
        lifetime=lifetime,
        phases=phases,
        draws=draws,
        rng=np.random.default_rng(seed),
    )
    model = write_model(ModelFileContent(fitted.model, cost_weights(asked), None, "auto"))
    if target and target != "-":
        output_file.write_output(Path(target), json.dumps(model, indent=1).encode() + b"\n")
    if plot:
        _draw(fitted.report, Path(plot), str(directory))
    if as_json:
        console.print_json({"model": model, "report": fitted.report.to_dict()})
    elif target == "-":
        console.print_json(model)
    else:
        _show(fitted.report)
    if target and target != "-":
        console.message(f"wrote the model to `{target}`")
        console.hint(f"find its best limits with `fieldmouse model optimise {target}`")
    return 0


def _show(report: FitReport) -> None:
    table: list[tuple[str, ...]] = [("part", "times", "mean, s", "fit, s", "scv", "fit", "apart", "chance", "law")]
    for part in report.parts:
        times = f"{part.data.mean:.4g}", f"{part.fit.mean:.4g}", f"{part.data.scv:.3g}", f"{part.fit.scv:.3g}"
        chance = "-" if part.chance is None else f"{'' if part.played else '<= '}{part.chance:.2g}"
        table.append((part.name, console.format_number(part.sample), *times, f"{part.distance:.3f}", chance, part.law))
    print_table(table, right=range(1, 8))
    for sentence in report.warnings():
        console.message(sentence)


def _draw(report: FitReport, path: Path, name: str) -> None:
    from fieldmouse_lab.catalogue import explain_missing_extra
    from fieldmouse_lab.plot import fit_figure

    with explain_missing_extra():
        write_figure(path, fit_figure(report, path.stem, f"`{name}` and its model"), parents=False)
    console.message(f"drew data and fit into `{path}`")
