"""`fieldmouse cluster status`: status of a crawl and its agents."""

from __future__ import annotations

import click

from fieldmouse.api import cluster
from fieldmouse.api.cluster import AgentStanding, ClusterStanding
from fieldmouse.cli import options, voice
from fieldmouse.cli.cluster.options import of_a_crawl
from fieldmouse.figures import counted, listed
from fieldmouse.visible import visible

HEADS = ("agent", "", "hosts", "pages", "polls", "workers", "last seen", "price", "directory")


@click.command(
    epilog="""\b
Examples:
  fieldmouse cluster status --coordinator redis://board.example:6379/0
  fieldmouse cluster status --coordinator redis://board.example:6379/0 --crawl news --json"""
)
@of_a_crawl
@options.as_json
def command(coordinators: tuple[str, ...], crawl: str, as_json: bool) -> int:
    """Show the status of the crawl on a coordinator, and of each agent."""
    status = cluster.standing(coordinators, crawl)
    if as_json:
        voice.json(status)
    else:
        for line in lines(status):
            voice.data(line)
    return 0


def lines(status: ClusterStanding) -> list[str]:
    """Status as lines for people."""
    count = voice.number
    state = "done" if status.done else f"{count(status.waiting)} waiting"
    alive = sum(agent.state in ("alive", "draining") for agent in status.agents)
    head = (
        f"{status.crawl}: {counted(status.pages, 'page')}, {counted(status.hosts, 'host')};"
        f" {counted(status.seen, 'URL')} seen, {count(status.booked)} acknowledged, {state};"
        f" {counted(alive, 'agent')}, started {voice.duration(status.seconds)} ago"
    )
    if status.quarantined:
        head += (
            f"\n{counted(status.quarantined, 'value')} on the server could not be read and"
            f" {'was' if status.quarantined == 1 else 'were'} set aside (see docs/network.md#damaged-values)"
        )
    rows = [HEADS, *map(_row, status.agents)]
    return [head, *_faults(status), *(voice.columns(rows, right=range(2, 8)) if status.agents else ())]


def _faults(status: ClusterStanding) -> list[str]:
    if status.stranded:
        some = listed([visible(host) for host in status.stranded_hosts])
        more = " and others" if status.stranded > len(status.stranded_hosts) else ""
        return [
            f"fault: {counted(status.stranded, 'host')} with waiting URLs cannot be given to any agent"
            f" ({some}{more}); an agent that asks for hosts repairs this automatically"
        ]
    if status.repaired:
        repaired = counted(status.repaired, "host")
        return [f"repaired: {repaired} with waiting URLs could not be given to any agent, and can now"]
    return []


def _row(agent: AgentStanding) -> tuple[str, ...]:
    count, whole = voice.number, round(agent.seen_ago)
    heard = f"{whole} s ago" if whole < 60 else f"{voice.duration(whole)} ago"
    named = (visible(agent.agent), agent.state)
    if not agent.machine:  # no status received yet, or the coordinator lost it
        return (*named, "", "", "", "", "", "", "")
    where = visible(f"{agent.machine}:{agent.directory}")
    numbers = (count(agent.hosts), count(agent.pages), count(agent.polls), count(agent.robots))
    price = round(agent.price, 2) + 0.0  # no -0.00
    return (*named, *numbers, heard, f"{price:+.2f}", where)
