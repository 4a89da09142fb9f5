"""`fieldmouse cluster top`: repeated status of a crawl and its agents."""

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
    "--every", metavar="SECONDS", type=click.FloatRange(0.2), default=2.0, show_default=True, help="Interval."
)
@options.as_json
def command(coordinators: tuple[str, ...], crawl: str, every: float, as_json: bool) -> int:
    """Show the status of the crawl repeatedly, until it is done or you stop it.

    If the coordinator becomes unreachable, the command waits for it. With --json each
    line is one JSON value.
    """
    status = None
    while True:
        try:
            status = cluster.standing(coordinators, crawl)
        except BoardUnreachable as silence:
            if status is None:
                raise
            voice.say(f"{silence}; waiting for it")
            time.sleep(every)
            continue
        if as_json:
            voice.json(status)
        else:
            for line in lines(status):
                voice.data(line)
            voice.data()
        if status.done:
            return 0
        time.sleep(every)
