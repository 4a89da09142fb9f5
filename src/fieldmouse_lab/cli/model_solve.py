"""`fieldmouse model solve`: measures of a model under its rule."""

from __future__ import annotations

import time
from pathlib import Path

import click

from fieldmouse.cli import console, options
from fieldmouse_lab.cli.bench import choice_option, events_option, interruptible, model_file_argument, print_table

#: Default length of a simulation; it takes a second or less.
SOLVE_EVENTS = 3_000_000


@click.command(
    epilog="""\b
Examples:
  fieldmouse model solve examples/thresholds.json
  fieldmouse model solve examples/inria.json --method simulate --events 10000000 --json"""
)
@model_file_argument
@choice_option("--method", ["auto", "ordered", "banded", "simulate"], "Use this method instead of the one in the file.")
@events_option(SOLVE_EVENTS, "Number of events of a simulation.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of a simulation.")
@click.option("--levels", is_flag=True, help="Also show the share of time at each buffer level.")
@options.json_option
def command(file: Path, method: str | None, events: int, seed: int, levels: bool, as_json: bool) -> int:
    """Compute the measures of the model in FILE under its rule; `-` reads from stdin.

    The measures are those of the paper: pages fetched, dropped, obsolete and served,
    starvation, active fetch workers, time in the system, and the cost J. The method is
    exact where possible; `--method simulate` simulates, with 95 % intervals.
    """
    import numpy as np

    from fieldmouse.queueing.model.model import Measures, Method, Model
    from fieldmouse.queueing.simulate import BATCHES, simulate
    from fieldmouse.queueing.solve.solve import solve
    from fieldmouse_lab.cli import model_files

    asked = model_files.read_model_file(file)
    rule = model_files.rule_of(asked)
    how: Method = method or asked.method  # type: ignore[assignment]

    def answer(model: Model, length: int) -> Measures:
        if how == "simulate":
            return interruptible(simulate, model, rule, length, np.random.default_rng(seed))
        return interruptible(solve, model, rule, how)

    answer(model_files.shrink_model(asked.model), BATCHES)
    began = time.perf_counter()
    found = answer(asked.model, events)
    seconds = time.perf_counter() - began
    if as_json:
        more = model_files.distributions(found) if levels else {}
        console.print_json({**model_files.measures_row(found, asked.cost), "seconds": seconds, **more})
        return 0
    model_files.print_measures(asked.model, rule, found, asked.cost)
    if levels:
        print_table(model_files.level_bars(found.levels.tolist()))
    return 0
