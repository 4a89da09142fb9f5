"""`fieldmouse control`: concurrency rules of a crawl, with predicted and measured results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fieldmouse.cli import console, options
from fieldmouse.errors import FieldmouseError, shell_quoted

if TYPE_CHECKING:
    from fieldmouse.control.buffer_trace import BufferMetrics
    from fieldmouse.control.concurrency_decision_log import ControlPeriod


RULE_HEADERS = ("", "workers", "until level", "", "dropped", "obsolete", "starved", "response", "cost")


@click.command(
    epilog="""\b
Examples:
  fieldmouse control atlas
  fieldmouse control atlas --last 5 --json"""
)
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--last", metavar="N", type=click.IntRange(1), default=20, show_default=True, help="Show the newest N rules."
)
@options.json_option
def command(directory: Path, last: int, as_json: bool) -> None:
    """Show the rules for the number of fetch workers of the crawl in DIRECTORY.

    For each rule that `--control auto` chose, the first line has the prediction of the
    fitted model, the second the measurement while the rule was in force. The command
    may run while the crawl runs.
    """
    from fieldmouse.reader.crawl_reader import CrawlReader

    periods = CrawlReader(directory).control_periods()[-last:]
    if as_json:
        console.print_json(periods)
        return
    if not periods:
        raise FieldmouseError(
            f"`{directory}` has no record of concurrency rules",
            f"choose them automatically with `fieldmouse resume {shell_quoted(directory)} --control auto`",
        )
    rows = [RULE_HEADERS, *(row for period in periods for row in _rows(period))]
    console.print_lines(console.align_columns(rows, right=range(4, 9)))
    newest = periods[-1].decision
    console.message(f"newest rule: {newest.why}")
    for doubt in newest.says:
        console.message(f"  {doubt}")


def _rows(recorded: ControlPeriod) -> list[tuple[str, ...]]:
    decision, period = recorded.decision, recorded.period
    rule = (" ".join(map(str, decision.robots)), " ".join(map(str, decision.limits)) or "-")
    first = (console.format_time(round(decision.at)), *rule)
    rows: list[tuple[str, ...]]
    if decision.predicted is None or decision.cost is None:
        rows = [(*first, "on trial" if decision.trial else "kept", *("",) * 5)]
    else:
        rows = [(*first, "expected", *_cells(decision.predicted, decision.cost))]
    if period is not None:
        span = f"for {console.format_duration(period.seconds)}"
        rows.append((span, "", "", "measured", *_cells(period.measured, period.cost)))
    return rows


def _cells(metrics: BufferMetrics, cost: float) -> tuple[str, ...]:
    shares = (f"{share:.2%}" for share in (metrics.loss, metrics.obsolete, metrics.starvation))
    return (*shares, f"{metrics.response:.3g} s", f"{cost:.4g}")
