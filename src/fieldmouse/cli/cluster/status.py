"""`fieldmouse cluster status`: how a crawl of many agents stands."""

from __future__ import annotations

import click

from fieldmouse.api import cluster
from fieldmouse.api.cluster import AgentStanding, ClusterStanding
from fieldmouse.cli import options, voice
from fieldmouse.cli.cluster.options import of_a_crawl
from fieldmouse.figures import counted, listed
from fieldmouse.visible import visible

HEADS = ("agent", "", "hosts", "pages", "polls", "robots", "heard", "price", "where")


@click.command(
    epilog="""\b
Examples:
  fieldmouse cluster status --coordinator redis://board.example:6379/0
  fieldmouse cluster status --coordinator redis://board.example:6379/0 --crawl news --json"""
)
@of_a_crawl
@options.as_json
def command(boards: tuple[str, ...], crawl: str, as_json: bool) -> int:
    """Say how the crawl on a board stands, and each of its agents."""
    told = cluster.standing(boards, crawl)
    if as_json:
        voice.json(told)
    else:
        for line in lines(told):
            voice.data(line)
    return 0


def lines(told: ClusterStanding) -> list[str]:
    """For people."""
    count = voice.number
    state = "done" if told.done else f"{count(told.waiting)} waiting"
    alive = sum(agent.state in ("alive", "draining") for agent in told.agents)
    head = (
        f"{told.crawl}: {counted(told.pages, 'page')}, {counted(told.hosts, 'host')};"
        f" {counted(told.seen, 'URL')} seen, {count(told.booked)} booked, {state};"
        f" {counted(alive, 'agent')}, begun {voice.duration(told.seconds)} ago"
    )
    if told.quarantined:
        head += (
            f"\n{counted(told.quarantined, 'value')} on the server could not be read and"
            f" {'was' if told.quarantined == 1 else 'were'} set aside (see docs/network.md#damaged-values)"
        )
    rows = [HEADS, *map(_row, told.agents)]
    return [head, *_faults(told), *(voice.columns(rows, right=range(2, 8)) if told.agents else ())]


def _faults(told: ClusterStanding) -> list[str]:
    if told.stranded:
        some = listed([visible(host) for host in told.stranded_hosts])
        more = " and others" if told.stranded > len(told.stranded_hosts) else ""
        return [
            f"fault: {counted(told.stranded, 'host')} with waiting URLs cannot be given to any agent"
            f" ({some}{more}); an agent that asks for hosts repairs this by itself"
        ]
    if told.repaired:
        repaired = counted(told.repaired, "host")
        return [f"repaired: {repaired} with waiting URLs could not be given to any agent, and can now"]
    return []


def _row(agent: AgentStanding) -> tuple[str, ...]:
    count, whole = voice.number, round(agent.seen_ago)
    heard = f"{whole} s ago" if whole < 60 else f"{voice.duration(whole)} ago"
    named = (visible(agent.agent), agent.state)
    if not agent.machine:  # it has not said anything yet, or to a board that lost it
        return (*named, "", "", "", "", "", "", "")
    where = visible(f"{agent.machine}:{agent.directory}")
    numbers = (count(agent.hosts), count(agent.pages), count(agent.polls), count(agent.robots))
    price = round(agent.price, 2) + 0.0  # no -0.00
    return (*named, *numbers, heard, f"{price:+.2f}", where)
