"""Administration of a cluster through its coordinator: status of a crawl, drain, forget and remove."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec

from fieldmouse.cluster.client.host_placement import status_or_default
from fieldmouse.cluster.client.session import list_crawls_on, open_coordinator, open_rebuilder, read_crawl_spec
from fieldmouse.cluster.coordinator import Coordinator, CrawlTotals, ListedAgent
from fieldmouse.errors import CoordinatorError, UsageError
from fieldmouse.formatting import join_names

T = TypeVar("T")

_NO_CRAWLS = "it has none yet: begin one with `fieldmouse agent`"


class AgentSummary(msgspec.Struct, frozen=True):
    agent: str
    state: str  # alive, draining, gone (lease expired) or left
    hosts: int  # held
    pages: int
    robots: int
    backlog: float  # hosts that are due, as time, in units of 50 ms
    price: float
    seen_ago: float  # seconds
    machine: str
    directory: str
    polls: int = 0  # of its known pages


class ClusterStatus(msgspec.Struct, frozen=True):
    """State of a crawl on its coordinator: `seen = booked + waiting`."""

    crawl: str
    seen: int
    booked: int
    waiting: int
    hosts: int
    pages: int
    seconds: float  # since its start
    done: bool
    agents: list[AgentSummary]
    stranded: int = 0  # hosts with waiting URLs that cannot be leased to any agent: a fault
    stranded_hosts: list[str] = []  # examples
    repaired: int = 0  # hosts that were stranded and no longer are
    quarantined: int = 0  # unreadable values on the coordinator that were set aside


def cluster_status(coordinators: Sequence[str], crawl: str) -> ClusterStatus:
    """Status of the crawl of that name."""

    async def read(coordinator: Coordinator) -> ClusterStatus:
        totals, agents = await coordinator.totals(), await coordinator.list_agents()
        left = [_agent_summary(listed, left=True) for listed in await coordinator.list_departed_agents()]
        stranded = await coordinator.stranded_hosts()
        return ClusterStatus(
            crawl=crawl,
            seen=totals.seen,
            booked=totals.settled,
            waiting=totals.waiting,
            hosts=totals.hosts,
            pages=totals.kinds.get("page", 0),
            seconds=round(totals.age, 1),
            done=totals.started and not totals.waiting,
            agents=[*map(_agent_summary, agents), *left],
            stranded=stranded.count,
            stranded_hosts=[str(host) for host in stranded.examples],
            repaired=stranded.repaired,
            quarantined=totals.quarantined,
        )

    return _with_coordinator(coordinators, crawl, read)


def list_crawls(coordinators: Sequence[str]) -> list[str]:
    """Names of the crawls on a coordinator."""
    return asyncio.run(list_crawls_on(coordinators))


def remove_crawl(coordinators: Sequence[str], crawl: str) -> CrawlTotals:
    """Remove a crawl without live agents from its coordinator, and return its totals."""

    async def act(coordinator: Coordinator) -> CrawlTotals:
        alive = [listed.agent for listed in await coordinator.list_agents() if listed.alive]
        if alive:
            raise UsageError(
                f"{join_names(alive)} {'crawls' if len(alive) == 1 else 'crawl'} in `{crawl}`",
                "stop the agents first, with Ctrl-C or `fieldmouse cluster drain AGENT`; those that were"
                " killed count for as long as their lease",
            )
        totals, builder = await coordinator.totals(), open_rebuilder(coordinators, crawl)
        try:
            await builder.remove_crawl()
        finally:
            await builder.close()
        return totals

    return _with_coordinator(coordinators, crawl, act)


def drain_agent(coordinators: Sequence[str], crawl: str, agent: str) -> None:
    """Ask an agent to finish its work and leave."""

    async def act(coordinator: Coordinator) -> None:
        if agent in {listed.agent for listed in await coordinator.list_agents() if not listed.alive}:
            raise UsageError(
                f"`{agent}` is gone: its lease has expired",
                f"others took its hosts; to remove it from the list, `fieldmouse cluster forget {agent}`",
            )
        if not await coordinator.request_drain(agent):
            if agent in {listed.agent for listed in await coordinator.list_departed_agents()}:
                raise UsageError(f"`{agent}` has left this crawl", "there is nothing to drain")
            raise _unknown_agent_error(agent)

    _with_coordinator(coordinators, crawl, act)


def forget_agent(coordinators: Sequence[str], crawl: str, agent: str, *, again: bool) -> tuple[int, bool]:
    """Revoke everything an agent holds; with `again`, all URLs it ever acknowledged are fetched again.

    Returns the number of these URLs, and whether the agent was alive: a live agent joins again by
    itself, unless it was killed since.
    """

    async def act(coordinator: Coordinator) -> tuple[int, bool]:
        agents = [*await coordinator.list_agents(), *await coordinator.list_departed_agents()]
        here = {listed.agent: listed.alive for listed in agents}
        urls = await coordinator.forget_agent(agent, again=again)
        if agent not in here and not urls:
            raise _unknown_agent_error(agent)
        return urls, here.get(agent, False)

    return _with_coordinator(coordinators, crawl, act)


def _unknown_agent_error(agent: str) -> UsageError:
    return UsageError(f"there is no agent `{agent}` in this crawl", "`fieldmouse cluster status` lists them")


def _agent_summary(listed: ListedAgent, *, left: bool = False) -> AgentSummary:
    agent_status = status_or_default(listed)
    state = "left" if left else "gone" if not listed.alive else "draining" if listed.draining else "alive"
    robots = agent_status.robots if listed.alive else 0
    load = robots, round(agent_status.backlog, 3), round(agent_status.price, 3), round(listed.heartbeat_age, 1)
    place = agent_status.machine, agent_status.directory, agent_status.polls
    return AgentSummary(listed.agent, state, listed.host_count, agent_status.pages, *load, *place)


def _with_coordinator(coordinators: Sequence[str], crawl: str, act: Callable[[Coordinator], Awaitable[T]]) -> T:
    async def ask() -> T:
        coordinator = open_coordinator(coordinators, crawl)
        try:
            if await read_crawl_spec(coordinator, crawl) is None:
                names = join_names(await list_crawls_on(coordinators))
                hint = f"it has {names}: name one with --crawl"
                raise CoordinatorError(f"the coordinator knows no crawl `{crawl}`", hint if names else _NO_CRAWLS)
            return await act(coordinator)
        finally:
            await coordinator.close()

    return asyncio.run(ask())
