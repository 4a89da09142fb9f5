"""`fieldmouse cluster list`: which crawls there are on a board."""

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
def command(boards: tuple[str, ...], as_json: bool) -> int:
    """List the names of the crawls on a board, one a line."""
    names = cluster.crawls(boards)
    if as_json:
        voice.json(names)
    else:
        for name in names:
            voice.data(name)
        if not names:
            voice.say("no crawl is on this board yet")
    return 0
