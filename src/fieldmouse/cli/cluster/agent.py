"""`fieldmouse agent`: one agent of a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fieldmouse.api import cluster_agent
from fieldmouse.cli import console, options
from fieldmouse.cli.crawl import crawl, resume
from fieldmouse.cluster.client.identity import resume_command
from fieldmouse.errors import FieldmouseError, shell_quoted


@click.command(
    epilog="""\b
Examples:
  fieldmouse agent east --coordinator redis://redis.example:6379/0 --seed https://example.org/
  fieldmouse agent west --coordinator redis://redis.example:6379/0
  fieldmouse agent west --coordinator redis://redis.example:6379/0 --retry-failed
  fieldmouse agent east --coordinator rediss://:PASSWORD@redis.example:6380/0 --crawl news"""
)
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--coordinator",
    "coordinators",
    cls=options.RenamedOption,
    metavar="URL",
    multiple=True,
    required=True,
    envvar=cluster_agent.COORDINATOR_VARIABLE,
    show_envvar=True,
    help="Use this Redis-protocol server as coordinator; repeat it to spread the sites over several.",
)
@click.option(
    "--crawl",
    "name",
    metavar="NAME",
    default=cluster_agent.DEFAULT_CRAWL,
    show_default=True,
    help="Join the crawl of this name.",
)
@click.option("--seed", "seeds", metavar="URL", multiple=True, help="Start at this URL (first agent only).")
@options.seeds_file_option
@options.scope_option
@options.seed_redirects_option
@click.option("--balance", metavar="NAME", help="Policy that assigns hosts to agents: priced, kalman, hash, ...")
@options.config_option
@options.retry_failed_option
@options.crawl_options
@options.json_option
def command(directory: Path, coordinators: tuple[str, ...], name: str, as_json: bool, **given: Any) -> int:
    """Crawl into DIRECTORY together with other agents.

    The agents of a crawl share a coordinator, a Redis-protocol server that stores the
    seen and the waiting URLs. Each agent fetches into a separate directory. A host is
    visited by one agent at a time, preferably one that is near to it and has time.

    The first agent gives the seeds and the settings of the crawl; other agents need
    not repeat them. An agent without seeds waits until the crawl exists. An agent ends
    when the whole crawl is done. It may be stopped or killed at any time: other agents
    take over its hosts, and the same command continues it.

    Each machine has separate settings for private addresses, certificates, robots.txt
    and plug-ins. An agent whose settings differ from those of the crawl refuses to join
    and names the setting; give it to every agent, for example --allow-private.

    With --retry-failed, after the crawl has ended, the URLs that this agent gave up
    because their hosts failed (no address, no connection, TLS, no robots.txt) are
    queued again on the coordinator, for all agents.

    `fieldmouse search`, `export`, `explain` and `changes` read several directories with --with.
    """
    every = options.progress_every(given)
    words, changes = options.split_settings(given)
    if given["balance"] is not None:
        changes = {"cluster.policy": given["balance"]} | changes
    seeds = [*given["seeds"], *(crawl.read_seeds_file(given["seeds_file"]) if given["seeds_file"] else ())]
    with console.stdout_to_stderr():
        plan = cluster_agent.plan_agent(
            directory, coordinators, name, words, changes, seeds, given["config"], on_waiting=console.message
        )
    if seeds and plan.new:  # only for the first agent: the others take over its settings
        crawl.print_notes(plan)
    try:
        on_forgiven = resume.report_retried if given["retry_failed"] else None
        return crawl.run_plan(plan, as_json=as_json, every=every, on_forgiven=on_forgiven)
    except FieldmouseError as trouble:
        trouble.replace_resume_command("agent", resume_command(directory).partition(shell_quoted(directory))[2])
        raise
