"""Model files of the command line, and tables of the measures of a model."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fieldmouse.cli import console
from fieldmouse.errors import UsageError
from fieldmouse.policy.concurrency_thresholds import Thresholds
from fieldmouse.queueing.model.model import CostWeights, Measures, Model, cost_of
from fieldmouse.queueing.model.model_file import ModelFileContent, read_model
from fieldmouse.queueing.simulate import SimulatedMeasures
from fieldmouse_lab.cli.bench import print_table

#: The paper's symbol, our name, and what it means.
MEASURES = {
    "lambda": ("rate", "pages brought in a unit of time"),
    "P_loss": ("loss", "of them find no room"),
    "P_obs": ("obs", "of them grow obsolete while they wait"),
    "P_success": ("success", "of them are served"),
    "P_star": ("star", "of the time the indexer starves"),
    "N_act": ("robots", "robots at work, on average"),
    "V1": ("sojourn_served", "time in the system of a page that is served"),
    "V2": ("sojourn_obsolete", "time in the buffer of a page that grows obsolete"),
}


def read_model_file(source: Path) -> ModelFileContent:
    """Read the model from a file, or from stdin for `-`."""
    try:
        written = sys.stdin.buffer.read() if str(source) == "-" else source.read_bytes()
    except OSError as trouble:
        raise UsageError(f"cannot read `{source}`: {trouble.strerror}", "check the name") from None
    if not written.strip():
        raise UsageError(f"`{source}` is empty", "docs/model.md shows what a model looks like")
    try:
        decoded = msgspec.json.decode(written)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
        raise UsageError(f"`{source}` is no JSON: {trouble}", "docs/model.md shows what a model looks like") from None
    return read_model(decoded)


def rule_of(asked: ModelFileContent) -> Thresholds:
    """Rule of the file; a model with one mode needs none."""
    if asked.rule is not None:
        return Thresholds(*asked.rule)
    if len(asked.model.modes) == 1:
        return Thresholds(tuple(asked.model.modes))
    raise UsageError(
        "the model has several modes and no `rule` that says which works when",
        'add `"rule": {"robots": [3, 1], "limits": [2]}`, or let `fieldmouse model optimise` find the best',
    )


def shrink_model(model: Model) -> Model:
    """Same model with room for two pages: solved first, so that loading the kernels is not timed."""
    return dataclasses.replace(model, capacity=min(2, model.capacity))


def measures_row(found: Measures, weights: CostWeights) -> dict[str, Any]:
    """Measures by the paper's symbols; a simulation adds 95 % intervals."""
    told: dict[str, Any] = {symbol: getattr(found, name) for symbol, (name, _) in MEASURES.items()}
    told |= {"J": cost_of(found, weights), "method": found.method}
    if isinstance(found, SimulatedMeasures):
        widths = {symbol: found.half_width(name) for symbol, (name, _) in MEASURES.items()}
        widths["J"] = found.cost_half_width(weights)
        told["intervals"] = {
            symbol: None if told[symbol] is None else [told[symbol] - width, told[symbol] + width]
            for symbol, width in widths.items()
        }
    return told


def distributions(found: Measures) -> dict[str, Any]:
    """Shares of time by buffer level and by number of fetch workers."""
    return {
        "levels": found.levels.tolist(),
        "robots_distribution": {str(robots): share for robots, share in found.robots_distribution.items()},
    }


def describe_rule(rule: Thresholds) -> str:
    """
    >>> describe_rule(Thresholds((4, 2, 1), (0, 3)))
    '4 robots up to level 0, 2 up to level 3, then 1'
    >>> describe_rule(Thresholds((1,)))
    '1 robot at every level'
    """
    first = f"{rule.robots[0]} {'robot' if rule.robots[0] == 1 else 'robots'}"
    if not rule.limits:
        return f"{first} at every level"
    parts = [first, *map(str, rule.robots[1:])]
    told = [f"{robots} up to level {limit}" for robots, limit in zip(parts, rule.limits, strict=False)]
    return f"{', '.join(told)}, then {parts[-1]}"


def print_measures(model: Model, rule: Thresholds, found: Measures, weights: CostWeights) -> None:
    """Print the measures: value, interval, meaning."""
    modes = ", ".join(map(str, model.modes))
    console.message(f"room for {model.capacity} pages, modes {modes}; {describe_rule(rule)}; method {found.method}")
    told = measures_row(found, weights)
    told_intervals = told.get("intervals", {})
    meanings = {symbol: text for symbol, (_, text) in MEASURES.items()} | {"J": "cost in a unit of time"}
    table = [
        (symbol, format_number(told[symbol]), _spread(told_intervals.get(symbol)), text)
        for symbol, text in meanings.items()
    ]
    print_table(table)


def format_number(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


def level_bars(shares: Sequence[float]) -> Iterator[tuple[str, str, str]]:
    """Bar chart of the shares of time by level, up to the last share of at least 0.0001."""
    last = max(i for i, share in enumerate(shares) if share >= 1e-4)
    for level, share in enumerate(shares[: last + 1]):
        yield f"level {level}", f"{share:.4f}", "#" * round(60 * share)


def _spread(interval: Sequence[float] | None) -> str:
    return f"± {(interval[1] - interval[0]) / 2:.2g}" if interval else ""
