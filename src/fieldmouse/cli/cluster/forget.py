"""`fieldmouse cluster forget`: removal of an agent whose machine is lost."""

from __future__ import annotations

import click

from fieldmouse.api import cluster
from fieldmouse.cli import options, voice
from fieldmouse.cli.cluster.options import of_a_crawl
from fieldmouse.errors import typed
from fieldmouse.figures import counted


@click.command(
    epilog="""\b
Examples:
  fieldmouse cluster forget east-1a2b3c --coordinator redis://board.example:6379/0
  fieldmouse cluster forget east-1a2b3c --again --coordinator redis://board.example:6379/0"""
)
@click.argument("agent")
@click.option("--again", is_flag=True, help="Fetch everything again that the agent had fetched.")
@of_a_crawl
@options.as_json
def command(agent: str, again: bool, coordinators: tuple[str, ...], crawl: str, as_json: bool) -> int:
    """Take all hosts of AGENT from it, permanently.

    This happens automatically when the lease of an agent expires. Its fetched pages
    stay on its disk and count as fetched. If that disk is lost, --again queues all its
    URLs again. If the disk turns up later, start the agent in its directory: pages
    there that no other agent has fetched count again without a new fetch.
    """
    urls, alive = cluster.forget(coordinators, crawl, agent, again=again)
    if as_json:
        voice.json({"agent": agent, "again": urls})
    elif again:
        voice.say(f"forgot `{agent}`; {counted(urls, 'URL')} will be fetched again")
    else:
        voice.say(f"forgot `{agent}`")
    if alive and not as_json:
        voice.say("its lease had not expired: if it still runs, it joins again automatically")
        voice.hint(f"make a running agent leave with `fieldmouse cluster drain {typed(agent)}`")
    return 0
