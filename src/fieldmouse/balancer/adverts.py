"""Status figures that agents send with each heartbeat, and the table that other agents make of them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from math import isfinite

from fieldmouse.balancer.board.contract import Advert as Advert
from fieldmouse.balancer.board.contract import AgentNote
from fieldmouse.balancer.board.decoding import DamagedValue, advert_in
from fieldmouse.policy.balance.balancer import AgentTable
from fieldmouse.policy.balance.priced import MOST

log = logging.getLogger(__name__)


def advert_of(note: AgentNote) -> Advert:
    """Read the status of an agent; an unreadable one gives the defaults (see `UnreadableAdverts`)."""
    try:
        return advert_in(note.advert)
    except DamagedValue:
        return Advert()


class UnreadableAdverts:
    """Warning about unreadable status figures: once for each agent, until they can be read again."""

    def __init__(self) -> None:
        self._agents: set[str] = set()

    def meet(self, notes: Sequence[AgentNote]) -> None:
        for note in notes:
            try:
                if note.advert:
                    advert_in(note.advert)
                self._agents.discard(note.agent)
            except DamagedValue as trouble:
                if note.agent not in self._agents:
                    self._agents.add(note.agent)
                    log.warning("the status of agent %s is ignored: %s", note.agent, trouble)


def _within(value: float, least: float, most: float, usual: float) -> float:
    """Clamp a figure that an agent reports; `usual` if it is not finite."""
    return min(max(value, least), most) if isfinite(value) else usual


def table_of(notes: Sequence[AgentNote]) -> AgentTable:
    """Table of the living agents by name; draining and resting ones are marked to get no hosts."""
    living = sorted((note for note in notes if note.alive), key=lambda note: note.agent)
    adverts = [advert_of(note) for note in living]
    return AgentTable(
        [note.agent for note in living],
        [_within(advert.backlog, 0.0, 1e9, 0.0) for advert in adverts],
        [_within(advert.speed, 0.05, 50.0, 1.0) for advert in adverts],
        [_within(advert.price, -MOST, MOST, 0.0) for advert in adverts],
        [not (note.draining or advert.resting) for note, advert in zip(living, adverts, strict=True)],
        [float(max(0, note.hosts)) for note in living],
        [_within(advert.load, 0.0, 1.0, 0.0) for advert in adverts],
    )


def anybody_refreshes(notes: Sequence[AgentNote]) -> bool:
    """Whether an agent wants hosts for more than the URLs that wait at the coordinator."""
    return any(note.alive and advert_of(note).refreshes for note in notes)


def share_of(notes: Sequence[AgentNote], agent: str, alive: int) -> float:
    """Share of this agent in a total of the cluster, in proportion to its pages.

    Agents that are `alive` but not listed count as having as many pages as the listed ones on average.

    >>> import msgspec
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
    own, listed = pages.pop(agent), len(pages)
    others = sum(pages.values()) * (alive - 1) / listed if listed else own * (alive - 1)
    return own / (own + max(0.0, others))
