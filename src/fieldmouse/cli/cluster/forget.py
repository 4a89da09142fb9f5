"""`fieldmouse cluster forget`: a machine is lost for good."""

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
@click.option("--again", is_flag=True, help="Fetch again all that it had fetched: its machine is lost.")
@of_a_crawl
@options.as_json
def command(agent: str, again: bool, boards: tuple[str, ...], crawl: str, as_json: bool) -> int:
    """Take everything that AGENT holds from it, for good.

    That happens by itself to an agent that is not heard of; what it had fetched stays
    on its disk, and counts. If that disk is lost, --again sends all of it out again;
    should it turn up, the agent may come back in its directory: what it has there and
    nobody has fetched meanwhile counts again without being fetched.
    """
    urls, alive = cluster.forget(boards, crawl, agent, again=again)
    if as_json:
        voice.json({"agent": agent, "again": urls})
    elif again:
        voice.say(f"forgot `{agent}`; {counted(urls, 'URL')} will be fetched again")
    else:
        voice.say(f"forgot `{agent}`")
    if alive and not as_json:
        voice.say("it was heard of within its lease: if it still runs, it joins again by itself")
        voice.hint(f"`fieldmouse cluster drain {typed(agent)}` lets an agent leave")
    return 0
