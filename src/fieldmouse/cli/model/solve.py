"""`fieldmouse model solve`: how a model fares under its rule."""

from __future__ import annotations

import time
from pathlib import Path

import click

from fieldmouse.cli import options, voice
from fieldmouse.cli.patience import interruptible

EVENTS = 3_000_000
"""How long a simulation runs unless told otherwise: a second or less."""


@click.command(
    epilog="""\b
Examples:
  fieldmouse model solve examples/thresholds.json
  fieldmouse model solve examples/inria.json --method simulate --events 10000000 --json"""
)
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--method",
    type=click.Choice(["auto", "ordered", "banded", "simulate"]),
    help="Instead of the method that the file names.",
)
@click.option(
    "--events",
    type=click.IntRange(1000, 10**9),
    default=EVENTS,
    show_default=True,
    help="Length of a simulation.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of a simulation.")
@click.option("--levels", is_flag=True, help="Also tell how full the buffer is, and for how long.")
@options.as_json
def command(file: Path, method: str | None, events: int, seed: int, levels: bool, as_json: bool) -> int:
    """Say how the model in FILE fares under its rule; `-` reads the model from stdin.

    The measures are those of the paper: pages brought, dropped, obsolete and served,
    starvation, robots at work, time in the system, and the cost J. An exact method is
    taken where there is one, and a simulation with intervals of 95 % where it is asked for.
    """
    import numpy as np

    from fieldmouse.cli.model import measured
    from fieldmouse.queueing.model.measures import Measures
    from fieldmouse.queueing.model.model import Method, Model
    from fieldmouse.queueing.simulate.simulate import STRETCHES, simulate
    from fieldmouse.queueing.solve.solve import solve

    asked = measured.read(file)
    rule = measured.rule_of(asked)
    how: Method = method or asked.method  # type: ignore[assignment]

    def answer(model: Model, length: int) -> Measures:
        if how == "simulate":
            return interruptible(simulate, model, rule, length, np.random.default_rng(seed))
        return interruptible(solve, model, rule, how)

    answer(measured.in_miniature(asked.model), STRETCHES)
    began = time.perf_counter()
    found = answer(asked.model, events)
    seconds = time.perf_counter() - began
    if as_json:
        more = measured.distributions(found) if levels else {}
        voice.json({**measured.row(found, asked.cost), "seconds": seconds, **more})
        return 0
    measured.show(asked.model, rule, found, asked.cost)
    if levels:
        for line in voice.columns(measured.bars(found.levels.tolist())):
            voice.data(line)
    return 0
