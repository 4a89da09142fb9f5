"""`fieldmouse lab replay`: a recorded crawl replayed with another policy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fieldmouse.cli import console, options
from fieldmouse.config.settings_file import from_command_line
from fieldmouse.errors import UsageError
from fieldmouse_lab.cli.bench import file_option, print_table, write_figure

if TYPE_CHECKING:
    from fieldmouse_lab.replay import Played, Replay


_ENDS = {
    "full": "the record is full: it shows how the crawl began",
    "": "the crawl was killed, or still runs: the record ends early",
}


@click.command(
    epilog="""\b
Examples:
  fieldmouse lab replay atlas --plot atlas.svg
  fieldmouse lab replay atlas --policy mice-and-elephants --set delta=2 --set own_queues=true"""
)
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--policy", "names", metavar="NAME", multiple=True, help="Policy to replay; default: all built-in ones.")
@click.option(
    "--set", "changes", metavar="KEY=VALUE", multiple=True, help="Parameter of the policy, for example delta=3."
)
@click.option("--run", "number", type=int, metavar="N", help="Run of the crawl, from 1; default: the longest.")
@file_option("--plot", "Draw hosts online and backlog over time, as .svg or .png.")
@options.json_option
def command(
    directory: Path,
    names: tuple[str, ...],
    changes: tuple[str, ...],
    number: int | None,
    plot: Path | None,
    as_json: bool,
) -> int:
    """Replay the record of the crawl in DIRECTORY with another policy, and compare.

    URLs and fetch workers arrive as they were recorded. A worker visits the recorded
    host if it is online, else the online host that has rested longest. So a replay
    shows how a policy uses the front and the disk, not how many pages it would fetch.
    """
    parameters = {key: from_command_line(word) for key, word in options.parse_set_options(changes).items()}
    if parameters and not names:
        raise UsageError("`--set` needs to know whose parameters are meant", "name a policy with `--policy`")

    if plot is not None and plot.suffix not in (".svg", ".png"):
        raise UsageError(f"`{plot}` is neither .svg nor .png", "give the file one of these endings")

    from fieldmouse_lab.replay import replay, replay_figure

    found = replay(directory, names, parameters, number=number)
    if plot is not None:
        write_figure(plot, replay_figure(found))
    if as_json:
        console.print_json(found)
    else:
        _tell(directory, found)
    return 0


def _tell(directory: Path, found: Replay) -> None:
    fare = found.recorded.fare
    seconds = fare.course[-1].seconds if fare.course else 0.0
    which = f", run {found.run} of {found.runs}" if found.runs > 1 else ""
    console.message(
        f"`{directory}`{which}: {console.format_number(fare.visits)} visits in "
        f"{console.format_duration(seconds)},"
        f" from {console.format_time(found.started_at)}"
    )
    if found.ended in _ENDS:
        console.message(_ENDS[found.ended])
    heads = ("policy", "hosts online", "of the front", "draws", "appends", "reads", "backlog", "elsewhere")
    rows = [heads, _row(found.recorded, "as recorded"), *(_row(one) for one in found.played)]
    print_table(rows, right=range(1, len(heads)))


def _row(one: Played, note: str = "") -> tuple[str, ...]:
    fare = one.fare
    said = ", ".join(f"{key} {value}" for key, value in one.parameters.items())
    note = note or ("the same decisions" if one.same else "")
    name = one.policy + (f" ({said})" if said else "") + (f": {note}" if note else "")
    counts = map(console.format_number, (fare.draws, fare.appends, fare.reads, fare.backlog))
    elsewhere = f"{one.elsewhere / max(1, fare.visits):.0%}" if one.elsewhere else "-"
    return name, f"{fare.hosts_online:,.1f}", f"{fare.filled:.0%}", *counts, elsewhere
