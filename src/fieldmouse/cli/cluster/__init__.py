"""`fieldmouse cluster`: a crawl of many agents, seen from outside."""

from __future__ import annotations

import click

from fieldmouse.cli.lazy import LazyGroup

VERBS = {
    "status": "Say how a crawl of many agents stands.",
    "top": "The same, again and again.",
    "list": "List the crawls on a board.",
    "drain": "Ask an agent to finish what it has and leave.",
    "forget": "Take everything from an agent for good.",
    "rebuild": "Make a board again that has lost its crawl.",
    "remove": "Take a crawl off its board.",
}


@click.group(cls=LazyGroup, verbs=VERBS, shelf="cluster")
def command() -> None:
    """Look after a crawl of many agents, which meet on a board.

    Agents are started with `fieldmouse agent`, each on its machine.
    """
