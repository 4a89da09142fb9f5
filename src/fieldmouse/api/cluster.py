"""What can be asked of a board from outside: how a crawl of many agents stands, and that one of them go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec

from fieldmouse.balancer.adverts import advert_of
from fieldmouse.balancer.board.contract import AgentNote, Board, BoardBooks
from fieldmouse.balancer.opening import charter_of, crawls_of, open_board, open_builder
from fieldmouse.errors import BoardError, UsageError
from fieldmouse.figures import listed

T = TypeVar("T")


class AgentStanding(msgspec.Struct, frozen=True):
    """One agent."""

    agent: str
    state: str  # alive, draining, gone (not heard of) or left
    hosts: int  # that it holds
    pages: int
    robots: int
    backlog: float  # hosts that are due, as time, in units of 50 ms
    price: float
    seen_ago: float  # seconds
    machine: str
    directory: str
    polls: int = 0  # of pages that it has


class ClusterStanding(msgspec.Struct, frozen=True):
    """A crawl, as its board knows it: `seen = booked + waiting`."""

    crawl: str
    seen: int
    booked: int
    waiting: int
    hosts: int
    pages: int
    seconds: float  # since it was begun
    done: bool
    agents: list[AgentStanding]
    stranded: int = 0  # hosts with waiting URLs that no agent can be granted: a fault
    stranded_hosts: list[str] = []  # some of them
    repaired: int = 0  # hosts of which that was so, and is no longer
    quarantined: int = 0  # values on the board that could not be read and were set aside


def standing(boards: Sequence[str], crawl: str) -> ClusterStanding:
    """How the crawl of that name stands."""

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

    return _asked(boards, crawl, look)


def crawls(boards: Sequence[str]) -> list[str]:
    """The names of the crawls on a board."""
    return asyncio.run(crawls_of(boards))


def remove(boards: Sequence[str], crawl: str) -> BoardBooks:
    """Take a crawl off its board, in which nobody crawls any more; returns what it came to."""

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

    return _asked(boards, crawl, act)


def drain(boards: Sequence[str], crawl: str, agent: str) -> None:
    """Ask an agent to finish what it has and leave."""

    async def act(board: Board) -> None:
        if agent in {note.agent for note in await board.agents() if not note.alive}:
            raise UsageError(
                f"`{agent}` is gone: it was not heard of for longer than its lease",
                f"others have what it held; to take it off the list, `fieldmouse cluster forget {agent}`",
            )
        if not await board.ask_to_drain(agent):
            if agent in {note.agent for note in await board.departed()}:
                raise UsageError(f"`{agent}` has left this crawl", "there is nothing to be done")
            raise _unknown(agent)

    _asked(boards, crawl, act)


def forget(boards: Sequence[str], crawl: str, agent: str, *, again: bool) -> tuple[int, bool]:
    """Take everything from an agent for good; with `again`, all it ever booked is fetched again.

    Returns how many URLs that are, and whether it was alive: such a one joins again by itself,
    unless it was killed since.
    """

    async def act(board: Board) -> tuple[int, bool]:
        notes = [*await board.agents(), *await board.departed()]
        here = {note.agent: note.alive for note in notes}
        urls = await board.forget(agent, again=again)
        if agent not in here and not urls:
            raise _unknown(agent)
        return urls, here.get(agent, False)

    return _asked(boards, crawl, act)


def _unknown(agent: str) -> UsageError:
    return UsageError(f"there is no agent `{agent}` in this crawl", "`fieldmouse cluster status` lists them")


def _agent(note: AgentNote, *, left: bool = False) -> AgentStanding:
    said = advert_of(note)
    state = "left" if left else "gone" if not note.alive else "draining" if note.draining else "alive"
    robots = said.robots if note.alive else 0
    return AgentStanding(
        note.agent, state, note.hosts, said.pages, robots, round(said.backlog, 3), round(said.price, 3),
        round(note.seen_ago, 1), said.machine, said.directory, said.polls,
    )  # fmt: skip


def _asked(boards: Sequence[str], crawl: str, act: Callable[[Board], Awaitable[T]]) -> T:
    async def ask() -> T:
        board = open_board(boards, crawl)
        try:
            if await charter_of(board, crawl) is None:
                there = listed(await crawls_of(boards))
                raise BoardError(
                    f"the board knows no crawl `{crawl}`",
                    f"it has {there}: name one with --crawl" if there
                    else "it has none yet: begin one with `fieldmouse agent`",
                )  # fmt: skip
            return await act(board)
        finally:
            await board.close()

    return asyncio.run(ask())
