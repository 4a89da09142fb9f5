"""`fieldmouse lab exact`: expected values of the urn game, by formula."""

from __future__ import annotations

import math
from typing import Any

import click

from fieldmouse.cli import options, voice
from fieldmouse.cli.lab import sources
from fieldmouse.errors import UsageError


@click.command(
    epilog="""\b
Examples:
  fieldmouse lab exact --source power --gamma 0.9 --hosts 100000 --capacity 1000
  fieldmouse lab exact --source uniform --hosts 1000 --capacity 100 --json"""
)
@sources.options
@click.option("--capacity", type=int, default=1000, show_default=True, metavar="K", help="Places online.")
@options.as_json
def command(capacity: int, as_json: bool, **given: Any) -> int:
    """Compute how many different hosts are online on average, without playing the game.

    Without an offline side the game is a closed network of queues, solved for any
    source: after the first K balls, and in the long run, where time passes and where
    steps are counted. Last comes what no strategy can beat: the draws per step that
    K different hosts need.
    """
    if capacity < 1:
        raise UsageError(f"a game with {capacity} places is none", "give `--capacity` 1 or more")
    drawn = sources.source(given)

    from fieldmouse.lab import exact

    means = exact.stationary(drawn.p, capacity)
    fewest = exact.fewest_draws(drawn.p, capacity)
    found = {
        "hosts": drawn.hosts,
        "capacity": capacity,
        "initial_mean": exact.initial_mean(drawn.p, capacity),
        "stationary_mean_time": means.per_time,
        "stationary_mean_step": means.per_step,
        "fewest_draws_per_step": fewest if math.isfinite(fewest) else None,
    }
    if as_json:
        voice.json(found)
        return 0
    needs = f"{fewest:.4f} draws per step" if math.isfinite(fewest) else "more hosts than there are"
    for line in voice.columns(
        [
            ("hosts online after the first balls", f"{found['initial_mean']:.4f}"),
            ("in the long run, over time", f"{means.per_time:.4f}"),
            ("in the long run, over steps", f"{means.per_step:.4f}"),
            (f"to have all {capacity:,} different, any strategy needs", needs),
        ]
    ):
        voice.data(line)
    return 0
