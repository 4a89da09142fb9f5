"""`fieldmouse cluster remove`: removal of a crawl from its coordinator."""

from __future__ import annotations

import click

from fieldmouse.api import cluster
from fieldmouse.cli import options, voice
from fieldmouse.cli.cluster.options import on_a_board
from fieldmouse.figures import counted


@click.command(
    epilog="""\b
Examples:
  fieldmouse cluster remove news --coordinator redis://board.example:6379/0"""
)
@click.argument("crawl")
@on_a_board
@options.as_json
def command(crawl: str, coordinators: tuple[str, ...], as_json: bool) -> int:
    """Remove CRAWL from its coordinator permanently, with its seen and waiting URLs.

    No agent of the crawl may run. The directories of its agents stay as they are and
    can be read; `fieldmouse cluster rebuild` rebuilds the crawl from them.
    """
    totals = cluster.remove(coordinators, crawl)
    if as_json:
        voice.json({"crawl": crawl, "seen": totals.seen, "booked": totals.settled, "waiting": totals.waiting})
    else:
        voice.say(
            f"removed `{crawl}` from the coordinator: {counted(totals.seen, 'URL')} seen,"
            f" {voice.number(totals.settled)} acknowledged, {voice.number(totals.waiting)} waiting"
        )
    return 0
