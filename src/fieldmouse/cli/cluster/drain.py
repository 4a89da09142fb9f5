"""`fieldmouse cluster drain`: request to an agent to leave."""

from __future__ import annotations

import click

from fieldmouse.api import cluster
from fieldmouse.cli import options, voice
from fieldmouse.cli.cluster.options import of_a_crawl


@click.command(
    epilog="""\b
Examples:
  fieldmouse cluster drain east-1a2b3c --coordinator redis://board.example:6379/0"""
)
@click.argument("agent")
@of_a_crawl
@options.as_json
def command(agent: str, coordinators: tuple[str, ...], crawl: str, as_json: bool) -> int:
    """Ask AGENT to finish its work and leave; other agents take over its hosts.

    Stopping it on its machine, with Ctrl-C or SIGTERM, does the same.
    """
    cluster.drain(coordinators, crawl, agent)
    if as_json:
        voice.json({"agent": agent, "draining": True})
    else:
        voice.say(f"asked `{agent}` to leave; it finishes its work, gives its hosts back, and ends")
    return 0
