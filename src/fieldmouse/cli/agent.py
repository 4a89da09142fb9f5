"""`fieldmouse agent`: one of many agents that crawl together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fieldmouse.api import joining
from fieldmouse.balancer.identity import command_of
from fieldmouse.cli import crawl, options, resume, voice
from fieldmouse.errors import FieldmouseError, typed


@click.command(
    epilog="""\b
Examples:
  fieldmouse agent east --coordinator redis://board.example:6379/0 --seed https://example.org/
  fieldmouse agent west --coordinator redis://board.example:6379/0
  fieldmouse agent west --coordinator redis://board.example:6379/0 --retry-failed
  fieldmouse agent east --coordinator rediss://:PASSWORD@board.example:6380/0 --crawl news"""
)
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--coordinator",
    "boards",
    cls=options.RenamedOption,
    metavar="URL",
    multiple=True,
    required=True,
    envvar=joining.COORDINATOR_VARIABLE,
    show_envvar=True,
    help="The Redis-protocol server where agents meet; given more than once, sites are spread over them.",
)
@click.option(
    "--crawl",
    "name",
    metavar="NAME",
    default=joining.DEFAULT_CRAWL,
    show_default=True,
    help="Which crawl of that server to join.",
)
@click.option(
    "--seed", "seeds", metavar="URL", multiple=True, help="Where the crawl begins; the first agent says it."
)
@click.option(
    "--seeds-file", metavar="FILE", help="A file with one URL a line, # for comments; - for standard input."
)
@click.option(
    "--scope", metavar="MODE", help="page, host, site or web: how far to go from the seeds.  [default: site]"
)
@options.seed_redirects
@click.option("--balance", metavar="NAME", help="Which agent visits a host next: priced, kalman, hash, ...")
@click.option("--config", metavar="FILE", type=click.Path(path_type=Path), help="Settings to start from.")
@options.retry_failed
@options.limits
@options.as_json
def command(
    directory: Path, boards: tuple[str, ...], name: str, seeds: tuple[str, ...], seeds_file: str | None,
    balance: str | None, config: Path | None, retry_failed: bool, as_json: bool, **given: Any,
) -> int:  # fmt: skip
    """Crawl into DIRECTORY together with other agents.

    The agents of a crawl meet on a board, a Redis-protocol server, which knows what
    was seen and what waits. Each agent fetches into a directory of its own. A host is
    visited by one agent at a time, whichever is near to it and has time.

    The first agent names the seeds and settles how the crawl is done; others join
    without saying it again, and one without seeds waits for a crawl to appear. An
    agent ends by itself when the whole crawl is done. It may be stopped or killed at
    any time: others take over what it had, and the same command lets it go on.

    Each machine decides for itself about private addresses, certificates, robots.txt and
    plug-ins. If the crawl wants them otherwise, say so to every agent, for example with
    --allow-private; an agent that was not told refuses to join and names the setting.

    With --retry-failed, after the crawl has ended, the URLs that this agent gave up because their
    hosts failed (no address, no connection, TLS, no robots.txt) wait on the board again, for
    whichever agents are there.

    `fieldmouse search`, `export`, `explain` and `changes` read several directories with --with.
    """
    every = options.progress_every(given)
    words, changes = options.asked(given)
    if balance is not None:
        changes = {"cluster.policy": balance} | changes
    listed = [*seeds, *(crawl.listed_in(seeds_file) if seeds_file else ())]
    with voice.talk_only():
        plan = joining.plan_to_join(
            directory, boards, name, words, changes, listed, config, on_waiting=voice.say
        )
    if listed and plan.new:  # what is missing here was said, or not, by the first
        crawl.advise(plan)
    try:
        on_forgiven = resume.tell_forgiven if retry_failed else None
        return crawl.run(plan, as_json=as_json, every=every, on_forgiven=on_forgiven)
    except FieldmouseError as trouble:
        trouble.continued_by("agent", command_of(directory).partition(typed(directory))[2])
        raise
