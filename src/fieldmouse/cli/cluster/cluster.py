"""`fieldmouse cluster`: inspection and management of a crawl of many agents.

One command each for status, top, list, drain, forget, rebuild and remove.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from fieldmouse.api import cluster_admin
from fieldmouse.api.cluster_admin import AgentSummary, ClusterStatus
from fieldmouse.cli import console, options
from fieldmouse.cli.main import Commands, LazyGroup
from fieldmouse.errors import CoordinatorUnreachable, shell_quoted
from fieldmouse.formatting import format_count, join_names, sanitize

F = TypeVar("F", bound=Callable[..., Any])


coordinator_option = options.coordinator_option("Connect to this coordinator; repeat it if the crawl has several.")


def crawl_name_options(command: F) -> F:
    """Add `--coordinator` and `--crawl`, as in `fieldmouse agent`."""
    return coordinator_option(options.crawl_name_option("crawl", "Select the crawl of this name.")(command))


@click.command(
    epilog="""\b
Examples:
  fieldmouse cluster drain east-1a2b3c --coordinator redis://redis.example:6379/0"""
)
@click.argument("agent")
@crawl_name_options
@options.json_option
def drain(agent: str, coordinators: tuple[str, ...], crawl: str, as_json: bool) -> None:
    """Ask AGENT to finish its work and leave; other agents take over its hosts.

    Stopping it on its machine, with Ctrl-C or SIGTERM, does the same.
    """
    cluster_admin.drain_agent(coordinators, crawl, agent)
    if as_json:
        console.print_json({"agent": agent, "draining": True})
    else:
        console.message(f"asked `{agent}` to leave; it finishes its work, gives its hosts back, and ends")


@click.command(
    epilog="""\b
Examples:
  fieldmouse cluster forget east-1a2b3c --coordinator redis://redis.example:6379/0
  fieldmouse cluster forget east-1a2b3c --again --coordinator redis://redis.example:6379/0"""
)
@click.argument("agent")
@click.option("--again", is_flag=True, help="Fetch everything again that the agent had fetched.")
@crawl_name_options
@options.json_option
def forget(agent: str, again: bool, coordinators: tuple[str, ...], crawl: str, as_json: bool) -> None:
    """Take all hosts of AGENT from it, permanently.

    This happens automatically when the lease of an agent expires. Its fetched pages
    stay on its disk and count as fetched. If that disk is lost, --again queues all its
    URLs again. If the disk turns up later, start the agent in its directory: pages
    there that no other agent has fetched count again without a new fetch.
    """
    urls, alive = cluster_admin.forget_agent(coordinators, crawl, agent, again=again)
    if as_json:
        console.print_json({"agent": agent, "again": urls})
    elif again:
        console.message(f"forgot `{agent}`; {format_count(urls, 'URL')} will be fetched again")
    else:
        console.message(f"forgot `{agent}`")
    if alive and not as_json:
        console.message("its lease had not expired: if it still runs, it joins again automatically")
        console.hint(f"make a running agent leave with `fieldmouse cluster drain {shell_quoted(agent)}`")


@click.command(
    epilog="""\b
Examples:
  fieldmouse cluster list --coordinator redis://redis.example:6379/0"""
)
@coordinator_option
@options.json_option
def list_crawls(coordinators: tuple[str, ...], as_json: bool) -> None:
    """List the names of the crawls on a coordinator, one a line."""
    names = cluster_admin.list_crawls(coordinators)
    if as_json:
        console.print_json(names)
    else:
        console.print_lines(names)
        if not names:
            console.message("no crawl is on this coordinator yet")


@click.command(
    epilog="""\b
Examples:
  fieldmouse cluster rebuild east west --coordinator redis://redis.example:6379/0
  fieldmouse cluster rebuild /mnt/*/news --crawl news --coordinator redis://redis.example:6379/0"""
)
@click.argument("directories", metavar="DIR...", nargs=-1, required=True, type=click.Path(path_type=Path))
@crawl_name_options
@options.json_option
def rebuild(directories: tuple[Path, ...], coordinators: tuple[str, ...], crawl: str, as_json: bool) -> None:
    """Rebuild a crawl on a coordinator that has lost it, from the directories of its agents.

    An outdated copy of the crawl on the coordinator, which the agents refused, is
    deleted first.

    Fetched URLs come from the outcome logs; waiting URLs are found by reading the links
    of all pages in the archives. Name the directories of all agents, copied or mounted
    on this machine: pages that only a missing directory has are fetched again. The
    directories are only read, and no agent may run in them.

    The crawl appears on the coordinator when it is complete. If the command is stopped
    before that, run it again. Then start the agents as before.
    """
    from fieldmouse.doctor.repair.rebuild_coordinator import rebuild_on_coordinator

    with console.stdout_to_stderr():
        result = rebuild_on_coordinator(coordinators, crawl, directories, console.message)
    if result.unreadable:
        console.message(
            f"{format_count(result.unreadable, 'response')} in the archives cannot be read: links that only they"
            " contain are missing"
        )
        console.hint("fetch all pages of an agent again with `fieldmouse cluster forget AGENT --again`")
    if as_json:
        console.print_json(result)
    else:
        console.message(
            f"rebuilt `{crawl}`: {format_count(result.seen, 'URL')} seen, {console.format_number(result.booked)}"
            f" acknowledged, {console.format_number(result.waiting)} waiting; start the agents again"
        )


@click.command(
    epilog="""\b
Examples:
  fieldmouse cluster remove news --coordinator redis://redis.example:6379/0"""
)
@click.argument("crawl")
@coordinator_option
@options.json_option
def remove(crawl: str, coordinators: tuple[str, ...], as_json: bool) -> None:
    """Remove CRAWL from its coordinator permanently, with its seen and waiting URLs.

    No agent of the crawl may run. The directories of its agents stay as they are and
    can be read; `fieldmouse cluster rebuild` rebuilds the crawl from them.
    """
    totals = cluster_admin.remove_crawl(coordinators, crawl)
    if as_json:
        console.print_json({"crawl": crawl, "seen": totals.seen, "booked": totals.settled, "waiting": totals.waiting})
    else:
        console.message(
            f"removed `{crawl}` from the coordinator: {format_count(totals.seen, 'URL')} seen,"
            f" {console.format_number(totals.settled)} acknowledged, {console.format_number(totals.waiting)} waiting"
        )


STATUS_HEADERS = ("agent", "", "hosts", "pages", "polls", "workers", "last seen", "price", "directory")


@click.command(
    epilog="""\b
Examples:
  fieldmouse cluster status --coordinator redis://redis.example:6379/0
  fieldmouse cluster status --coordinator redis://redis.example:6379/0 --crawl news --json"""
)
@crawl_name_options
@options.json_option
def status(coordinators: tuple[str, ...], crawl: str, as_json: bool) -> None:
    """Show the status of the crawl on a coordinator, and of each agent."""
    status = cluster_admin.cluster_status(coordinators, crawl)
    if as_json:
        console.print_json(status)
    else:
        console.print_lines(status_lines(status))


def status_lines(status: ClusterStatus) -> list[str]:
    """Status as lines for people."""
    count = console.format_number
    state = "done" if status.done else f"{count(status.waiting)} waiting"
    alive = sum(agent.state in ("alive", "draining") for agent in status.agents)
    head = (
        f"{status.crawl}: {format_count(status.pages, 'page')}, {format_count(status.hosts, 'host')};"
        f" {format_count(status.seen, 'URL')} seen, {count(status.booked)} acknowledged, {state};"
        f" {format_count(alive, 'agent')}, started {console.format_duration(status.seconds)} ago"
    )
    if status.quarantined:
        head += (
            f"\n{format_count(status.quarantined, 'value')} on the server could not be read and"
            f" {'was' if status.quarantined == 1 else 'were'} set aside (see docs/network.md#damaged-values)"
        )
    rows = [STATUS_HEADERS, *map(_row, status.agents)]
    return [head, *_faults(status), *(console.align_columns(rows, right=range(2, 8)) if status.agents else ())]


def _faults(status: ClusterStatus) -> list[str]:
    if status.stranded:
        some = join_names([sanitize(host) for host in status.stranded_hosts])
        more = " and others" if status.stranded > len(status.stranded_hosts) else ""
        return [
            f"fault: {format_count(status.stranded, 'host')} with waiting URLs cannot be given to any agent"
            f" ({some}{more}); an agent that asks for hosts repairs this automatically"
        ]
    if status.repaired:
        repaired = format_count(status.repaired, "host")
        return [f"repaired: {repaired} with waiting URLs could not be given to any agent, and can now"]
    return []


def _row(agent: AgentSummary) -> tuple[str, ...]:
    count, whole = console.format_number, round(agent.seen_ago)
    heard = f"{whole} s ago" if whole < 60 else f"{console.format_duration(whole)} ago"
    named = (sanitize(agent.agent), agent.state)
    if not agent.machine:  # no status received yet, or the coordinator lost it
        return (*named, "", "", "", "", "", "", "")
    where = sanitize(f"{agent.machine}:{agent.directory}")
    numbers = (count(agent.hosts), count(agent.pages), count(agent.polls), count(agent.robots))
    price = round(agent.price, 2) + 0.0  # no -0.00
    return (*named, *numbers, heard, f"{price:+.2f}", where)


@click.command(
    epilog="""\b
Examples:
  fieldmouse cluster top --coordinator redis://redis.example:6379/0
  fieldmouse cluster top --coordinator redis://redis.example:6379/0 --every 10 --json"""
)
@crawl_name_options
@click.option(
    "--every", metavar="SECONDS", type=click.FloatRange(0.2), default=2.0, show_default=True, help="Interval."
)
@options.json_option
def top(coordinators: tuple[str, ...], crawl: str, every: float, as_json: bool) -> None:
    """Show the status of the crawl repeatedly, until it is done or you stop it.

    If the coordinator becomes unreachable, the command waits for it. With --json each
    line is one JSON value.
    """
    status = None
    while True:
        try:
            status = cluster_admin.cluster_status(coordinators, crawl)
        except CoordinatorUnreachable as silence:
            if status is None:
                raise
            console.message(f"{silence}; waiting for it")
            time.sleep(every)
            continue
        if as_json:
            console.print_json(status)
        else:
            console.print_lines([*status_lines(status), ""])
        if status.done:
            return
        time.sleep(every)


COMMANDS: Commands = {
    "status": ("fieldmouse.cli.cluster.cluster:status", "Show the status of a crawl and its agents."),
    "top": ("fieldmouse.cli.cluster.cluster:top", "Show the status repeatedly."),
    "list": ("fieldmouse.cli.cluster.cluster:list_crawls", "List the crawls on a coordinator."),
    "drain": ("fieldmouse.cli.cluster.cluster:drain", "Ask an agent to finish its work and leave."),
    "forget": ("fieldmouse.cli.cluster.cluster:forget", "Take all hosts from an agent permanently."),
    "rebuild": ("fieldmouse.cli.cluster.cluster:rebuild", "Rebuild a lost coordinator from the agents' directories."),
    "remove": ("fieldmouse.cli.cluster.cluster:remove", "Remove a crawl from its coordinator."),
}


@click.group(cls=LazyGroup, sections={"Commands": COMMANDS})
def command() -> None:
    """Inspect and manage a crawl of many agents, which share a coordinator.

    Start each agent on its machine with `fieldmouse agent`.
    """
