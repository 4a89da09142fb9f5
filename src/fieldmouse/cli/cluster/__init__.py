"""`fieldmouse cluster`: inspection and management of a crawl of many agents."""

from __future__ import annotations

import click

from fieldmouse.cli.lazy import LazyGroup

VERBS = {
    "status": "Show the status of a crawl and its agents.",
    "top": "Show the status repeatedly.",
    "list": "List the crawls on a coordinator.",
    "drain": "Ask an agent to finish its work and leave.",
    "forget": "Take all hosts from an agent permanently.",
    "rebuild": "Rebuild a lost coordinator from the agents' directories.",
    "remove": "Remove a crawl from its coordinator.",
}


@click.group(cls=LazyGroup, verbs=VERBS, shelf="cluster")
def command() -> None:
    """Inspect and manage a crawl of many agents, which share a coordinator.

    Start each agent on its machine with `fieldmouse agent`.
    """
