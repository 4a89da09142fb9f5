"""Administration of a cluster through its coordinator: status of a crawl, drain, forget and remove."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec

from fieldmouse.cluster.client.connect import charter_of, crawls_of, open_board, open_builder
from fieldmouse.cluster.client.membership import advert_of
from fieldmouse.cluster.coordinator import AgentNote, Board, BoardBooks
from fieldmouse.errors import BoardError, UsageError
from fieldmouse.formatting import listed

T = TypeVar("T")

_NO_CRAWLS = "it has none yet: begin one with `fieldmouse agent`"


class AgentStanding(msgspec.Struct, frozen=True):
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


class ClusterStanding(msgspec.Struct, frozen=True):
    """State of a crawl on its coordinator: `seen = booked + waiting`."""

    crawl: str
    seen: int
    booked: int
    waiting: int
    hosts: int
    pages: int
    seconds: float  # since its start
    done: bool
    agents: list[AgentStanding]
    stranded: int = 0  # hosts with waiting URLs that cannot be leased to any agent: a fault
    stranded_hosts: list[str] = []  # examples
    repaired: int = 0  # hosts that were stranded and no longer are
    quarantined: int = 0  # unreadable values on the coordinator that were set aside


def standing(boards: Sequence[str], crawl: str) -> ClusterStanding:
    """Status of the crawl of that name."""

    async def look(board: Board) -> ClusterStanding:
        books, notes = await board.books(), await board.agents()
        left = [_agent(note, left=True) for note in await board.departed()]
        stranded = await board.stranded()
        return ClusterStanding(
            crawl=crawl,
            seen=books.seen,
            booked=books.settled,
            waiting=books.waiting,
            hosts=books.hosts,
            pages=books.kinds.get("page", 0),
            seconds=round(books.age, 1),
            done=books.begun and not books.waiting,
            agents=[*map(_agent, notes), *left],
            stranded=stranded.hosts,
            stranded_hosts=[str(host) for host in stranded.examples],
            repaired=stranded.repaired,
            quarantined=books.quarantined,
        )

    return _with_board(boards, crawl, look)


def crawls(boards: Sequence[str]) -> list[str]:
    """Names of the crawls on a coordinator."""
    return asyncio.run(crawls_of(boards))


def remove(boards: Sequence[str], crawl: str) -> BoardBooks:
    """Remove a crawl without live agents from its coordinator, and return its totals."""

    async def act(board: Board) -> BoardBooks:
        awake = [note.agent for note in await board.agents() if note.alive]
        if awake:
            raise UsageError(
                f"{listed(awake)} {'crawls' if len(awake) == 1 else 'crawl'} in `{crawl}`",
                "stop the agents first, with Ctrl-C or `fieldmouse cluster drain AGENT`; those that were"
                " killed count for as long as their lease",
            )
        books, builder = await board.books(), open_builder(boards, crawl)
        try:
            await builder.remove()
        finally:
            await builder.close()
        return books

    return _with_board(boards, crawl, act)


def drain(boards: Sequence[str], crawl: str, agent: str) -> None:
    """Ask an agent to finish its work and leave."""

    async def act(board: Board) -> None:
        if agent in {note.agent for note in await board.agents() if not note.alive}:
            raise UsageError(
                f"`{agent}` is gone: its lease has expired",
                f"others took its hosts; to remove it from the list, `fieldmouse cluster forget {agent}`",
            )
        if not await board.ask_to_drain(agent):
            if agent in {note.agent for note in await board.departed()}:
                raise UsageError(f"`{agent}` has left this crawl", "there is nothing to drain")
            raise _unknown(agent)

    _with_board(boards, crawl, act)


def forget(boards: Sequence[str], crawl: str, agent: str, *, again: bool) -> tuple[int, bool]:
    """Revoke everything an agent holds; with `again`, all URLs it ever acknowledged are fetched again.

    Returns the number of these URLs, and whether the agent was alive: a live agent joins again by
    itself, unless it was killed since.
    """

    async def act(board: Board) -> tuple[int, bool]:
        notes = [*await board.agents(), *await board.departed()]
        here = {note.agent: note.alive for note in notes}
        urls = await board.forget(agent, again=again)
        if agent not in here and not urls:
            raise _unknown(agent)
        return urls, here.get(agent, False)

    return _with_board(boards, crawl, act)


def _unknown(agent: str) -> UsageError:
    return UsageError(f"there is no agent `{agent}` in this crawl", "`fieldmouse cluster status` lists them")


def _agent(note: AgentNote, *, left: bool = False) -> AgentStanding:
    advert = advert_of(note)
    state = "left" if left else "gone" if not note.alive else "draining" if note.draining else "alive"
    robots = advert.robots if note.alive else 0
    load = robots, round(advert.backlog, 3), round(advert.price, 3), round(note.seen_ago, 1)
    place = advert.machine, advert.directory, advert.polls
    return AgentStanding(note.agent, state, note.hosts, advert.pages, *load, *place)


def _with_board(boards: Sequence[str], crawl: str, act: Callable[[Board], Awaitable[T]]) -> T:
    async def ask() -> T:
        board = open_board(boards, crawl)
        try:
            if await charter_of(board, crawl) is None:
                names = listed(await crawls_of(boards))
                hint = f"it has {names}: name one with --crawl"
                raise BoardError(f"the coordinator knows no crawl `{crawl}`", hint if names else _NO_CRAWLS)
            return await act(board)
        finally:
            await board.close()

    return asyncio.run(ask())
