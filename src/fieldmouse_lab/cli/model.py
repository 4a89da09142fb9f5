"""`fieldmouse model`: commands for the queueing model of fetch workers, buffer and indexer."""

from __future__ import annotations

import click

from fieldmouse.cli.main import Commands, LazyGroup

COMMANDS: Commands = {
    "solve": ("fieldmouse_lab.cli.model_solve:command", "Compute the measures of a model under its rule."),
    "optimise": ("fieldmouse_lab.cli.model_optimise:command", "Find the rule with the lowest cost."),
    "fit": ("fieldmouse_lab.cli.model_fit:command", "Fit a model to the recorded buffer of a crawl."),
}


@click.group(cls=LazyGroup, sections={"Commands": COMMANDS}, short_help="Solve, optimise and fit models of a crawler.")
def command() -> None:
    """Solve, optimise and fit models of fetch workers that fill the buffer of an indexer.

    A rule sets the number of fetch workers for each level of the buffer. With too few
    the indexer starves; with too many, pages are dropped or grow old while they wait.
    """
