"""What agents say of themselves with each sign of life, and the table others make of it."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import msgspec

from fieldmouse.balancer.board.contract import AgentNote
from fieldmouse.policy.balance.balancer import AgentTable
from fieldmouse.policy.balance.priced import MOST


class Advert(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """A few numbers; whoever reads an older one fills in the defaults."""

    backlog: float = 0.0  # seconds of work that wait, in the balancer's unit
    speed: float = 1.0
    price: float = 0.0
    pages: int = 0
    pages_per_second: float = 0.0
    robots: int = 0
    machine: str = ""
    directory: str = ""
    rss_mb: float = 0.0
    polls: int = 0
    refreshes: bool = False  # it asks for known pages again, and needs their hosts for that
    resting: bool = False  # its own network is gone: it waits, and wants no hosts


_decoder = msgspec.msgpack.Decoder(Advert)


def advert_of(note: AgentNote) -> Advert:
    """What it said; an advert that cannot be read says nothing."""
    try:
        return _decoder.decode(note.advert)
    except msgspec.MsgspecError:
        return Advert()


def _within(value: float, least: float, most: float, usual: float) -> float:
    """What an agent says of itself, should it be no number of that kind at all."""
    return min(max(value, least), most) if isfinite(value) else usual


def table_of(notes: Sequence[AgentNote]) -> AgentTable:
    """The agents by name, those that drain or rest counted out: nobody sends them a host."""
    known = sorted((note for note in notes if note.alive), key=lambda note: note.agent)
    adverts = [advert_of(note) for note in known]
    return AgentTable(
        [note.agent for note in known],
        [_within(advert.backlog, 0.0, 1e9, 0.0) for advert in adverts],
        [_within(advert.speed, 0.05, 50.0, 1.0) for advert in adverts],
        [_within(advert.price, -MOST, MOST, 0.0) for advert in adverts],
        [not (note.draining or advert.resting) for note, advert in zip(known, adverts, strict=True)],
    )


def anybody_refreshes(notes: Sequence[AgentNote]) -> bool:
    """Whether hosts are wanted for more than what waits on the board."""
    return any(note.alive and advert_of(note).refreshes for note in notes)


def share_of(notes: Sequence[AgentNote], agent: str, alive: int) -> float:
    """Which part of what all have together is that agent's: as large as that of the pages it has.

    Of the others that are `alive` those that were not heard of are taken to have as many as those that were.

    >>> def note(name: str, pages: int) -> AgentNote:
    ...     return AgentNote(name, 1, True, False, msgspec.msgpack.encode(Advert(pages=pages)), 0.0)
    >>> share_of([note("ada", 30), note("bob", 10)], "bob", 2), share_of([], "ada", 1)
    (0.25, 1.0)
    >>> share_of([note("ada", 30), note("bob", 10)], "bob", 4)
    0.1
    """
    pages = {note.agent: max(1, advert_of(note).pages) for note in notes if note.alive}
    if agent not in pages:
        return 1.0
    own, heard = pages.pop(agent), len(pages)
    others = sum(pages.values()) * (alive - 1) / heard if heard else own * (alive - 1)
    return own / (own + max(0.0, others))
