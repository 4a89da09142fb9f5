"""`fieldmouse cluster list`: names of the crawls on a coordinator."""

from __future__ import annotations

import click

from fieldmouse.api import cluster
from fieldmouse.cli import options, voice
from fieldmouse.cli.cluster.options import on_a_board


@click.command(
    epilog="""\b
Examples:
  fieldmouse cluster list --coordinator redis://board.example:6379/0"""
)
@on_a_board
@options.as_json
def command(coordinators: tuple[str, ...], as_json: bool) -> int:
    """List the names of the crawls on a coordinator, one a line."""
    names = cluster.crawls(coordinators)
    if as_json:
        voice.json(names)
    else:
        for name in names:
            voice.data(name)
        if not names:
            voice.say("no crawl is on this coordinator yet")
    return 0
