"""`fieldmouse cluster top`: how a crawl of many agents stands, again and again."""

from __future__ import annotations

import time

import click

from fieldmouse.api import cluster
from fieldmouse.cli import options, voice
from fieldmouse.cli.cluster.options import of_a_crawl
from fieldmouse.cli.cluster.status import lines
from fieldmouse.errors import BoardUnreachable


@click.command(
    epilog="""\b
Examples:
  fieldmouse cluster top --coordinator redis://board.example:6379/0
  fieldmouse cluster top --coordinator redis://board.example:6379/0 --every 10 --json"""
)
@of_a_crawl
@click.option(
    "--every", metavar="SECONDS", type=click.FloatRange(0.2), default=2.0, show_default=True,
    help="Between two looks.",
)  # fmt: skip
@options.as_json
def command(boards: tuple[str, ...], crawl: str, every: float, as_json: bool) -> int:
    """Show how the crawl on a board stands, until it is done or you stop it.

    A server that goes away meanwhile is waited for. With --json there is a JSON value a line.
    """
    told = None
    while True:
        try:
            told = cluster.standing(boards, crawl)
        except BoardUnreachable as silence:
            if told is None:
                raise
            voice.say(f"{silence}; waiting for it")
            time.sleep(every)
            continue
        if as_json:
            voice.json(told)
        else:
            for line in lines(told):
                voice.data(line)
            voice.data()
        if told.done:
            return 0
        time.sleep(every)
