"""`fieldmouse agent`: one agent of a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

import click

from fieldmouse.api import agent_preparation
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
@options.coordinator_option(
    "Use this Redis-protocol server as coordinator; repeat it to spread the sites over several."
)
@options.crawl_name_option("name", "Join the crawl of this name.")
@click.option("--seed", "seeds", metavar="URL", multiple=True, help="Start at this URL (first agent only).")
@options.seeds_file_option
@options.scope_option
@options.seed_redirects_option
@click.option("--balance", metavar="NAME", help="Policy that assigns hosts to agents: priced, kalman, hash, ...")
@options.config_option
@options.retry_failed_option
@options.crawl_options
@options.json_option
def command(
    directory: Path,
    coordinators: tuple[str, ...],
    name: str,
    seeds: tuple[str, ...],
    seeds_file: str | None,
    scope: str | None,
    follow_seed_redirects: bool | None,
    balance: str | None,
    config: Path | None,
    retry_failed: bool,
    as_json: bool,
    **given: Unpack[options.CrawlOptions],
) -> int:
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
    words, changes = options.split_settings(given, scope=scope, follow_seed_redirects=follow_seed_redirects)
    if balance is not None:
        changes = {"cluster.policy": balance} | changes
    all_seeds = [*seeds, *crawl.read_seeds_file(seeds_file)]
    with console.stdout_to_stderr():
        plan = agent_preparation.plan_agent(
            directory, coordinators, name, words, changes, all_seeds, config, on_waiting=console.message
        )
    if all_seeds and plan.new:  # only for the first agent: the others take over its settings
        crawl.print_settings_notes(plan)
    try:
        on_retried = resume.report_retried if retry_failed else None
        return crawl.run_plan(plan, as_json=as_json, every=every, on_retried=on_retried)
    except FieldmouseError as trouble:
        trouble.replace_resume_command("agent", resume_command(directory).partition(shell_quoted(directory))[2])
        raise
