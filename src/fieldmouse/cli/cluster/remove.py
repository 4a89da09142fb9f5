"""`fieldmouse cluster remove`: a crawl is of no use any more."""

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
def command(crawl: str, boards: tuple[str, ...], as_json: bool) -> int:
    """Take CRAWL off its board for good, with all that it has seen and what waits there.

    Nobody may crawl in it. The directories of its agents stay as they are, and can be
    read; `fieldmouse cluster rebuild` makes the crawl again from them.
    """
    books = cluster.remove(boards, crawl)
    if as_json:
        voice.json({"crawl": crawl, "seen": books.seen, "booked": books.settled, "waiting": books.waiting})
    else:
        voice.say(
            f"removed `{crawl}` from the board: {counted(books.seen, 'URL')} seen,"
            f" {voice.number(books.settled)} booked, {voice.number(books.waiting)} waiting"
        )
    return 0
