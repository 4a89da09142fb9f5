"""`fieldmouse model`: the queueing model of robots, buffer and indexer, a module for each command."""

from __future__ import annotations

import click

from fieldmouse.cli.lazy import LazyGroup

VERBS = {
    "solve": "Say how a model fares under its rule.",
    "optimise": "Find the rule that costs least.",
    "fit": "Make a model of what a crawl has seen of its own buffer.",
}


@click.group(cls=LazyGroup, verbs=VERBS, shelf="model")
def command() -> None:
    """Solve, optimise and fit models of robots that fill a buffer before an indexer.

    How many robots should fetch, given how full the buffer is? Too few, and the
    indexer starves; too many, and pages are dropped or grow old while they wait.
    """
