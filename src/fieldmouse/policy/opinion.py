"""Whose word it takes that a host cannot be reached, where several agents crawl together.

A machine with broken names, no route or a firewall before it finds hosts unreachable that are well. So the
last try is another agent's: a failure that may be the machine's own counts when a second agent, on another
machine if there is one, has found the same, or when nobody is left to ask. Until then the host has a note
of who could not reach it (`Unreached`), which travels with it. Whoever is noted is not asked again for a
`WHILE`, so that a host goes round at most once in that time.

A host of which nothing is wanted but known pages of one agent is never visited by another: there that agent
has the last word when it has found the same twice (`alone`).

Of trouble that is plainly an agent's own (no network, no descriptors, a DNS that cannot say) there is a
note as well, so that somebody else gets the host; it is no opinion of the host, and never `counts` as one.
Nor does any older note once somebody has reached it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from fieldmouse.records import Unreached

WHILE = 600.0
"""Seconds: longer than a router takes to start; an agent that is broken for good tries a host so seldom."""


@dataclass(frozen=True, slots=True)
class Colleague:
    """An agent, and the machine it runs on, which may be what is broken."""

    agent: str
    machine: str = ""


def to_ask(
    notes: Sequence[Unreached], me: Colleague, others: Iterable[Colleague], now: float, *, final: bool
) -> list[Colleague]:
    """Who of the others should try the host that `me` could not reach; if nobody, this failure counts.

    `others` are those that take hosts. `final`: it would be the verdict, and not only trouble of our own.

    >>> from fieldmouse.records import Reason
    >>> east, west, both = Colleague("east", "e"), Colleague("west", "w"), Colleague("both", "e")
    >>> [each.agent for each in to_ask([], east, [both, west], 0.0, final=True)]
    ['west']
    >>> found = Unreached("east", "e", Reason.NO_ADDRESS, until=9.0)
    >>> to_ask([found], west, [east, both], 0.0, final=True)  # two machines agree
    []
    >>> [each.agent for each in to_ask([found], both, [east, west], 0.0, final=True)]
    ['west']
    """
    if final and any(note.agent == me.agent and note.alone and note.counts for note in notes):
        return []
    noted = {note.agent for note in notes if note.until > now}
    fresh = [other for other in others if other.agent not in noted and other.agent != me.agent]
    elsewhere = [other for other in fresh if other.machine != me.machine]
    agreeing = {note.machine for note in notes if note.counts and note.agent != me.agent}
    if final and agreeing:
        return [] if agreeing - {me.machine} else elsewhere
    return elsewhere or fresh


def with_note(notes: Sequence[Unreached], note: Unreached) -> tuple[Unreached, ...]:
    """The notes of a host and a newer one, which takes the place of that agent's last."""
    counted = any(old.counts for old in notes if old.agent == note.agent)
    newer = msgspec.structs.replace(note, counts=note.counts or counted)
    return (*(old for old in notes if old.agent != note.agent), newer)


def with_polls(notes: Sequence[Unreached], me: str, *, only: bool) -> tuple[Unreached, ...]:
    """The notes of a host that `me` is about to visit for known pages of its own `only`, or not."""
    return tuple(
        msgspec.structs.replace(note, alone=only) if note.agent == me and note.alone != only else note
        for note in notes
    )


def reached(notes: Sequence[Unreached], now: float) -> tuple[Unreached, ...]:
    """What is left of the notes once somebody has reached the host: who had better not try it for a while."""
    return tuple(msgspec.structs.replace(note, counts=False) for note in notes if note.until > now)


def shunned(notes: Sequence[Unreached], now: float) -> dict[str, float]:
    """Agents that are not to try the host for now, and for how many seconds more."""
    return {note.agent: note.until - now for note in notes if note.until > now}


def packed(notes: Sequence[Unreached], now: float) -> tuple[Unreached, ...]:
    """Notes for another machine, whose clock may differ: with the seconds that are left, not the stale."""
    kept = [note for note in notes if note.counts or note.until > now]
    return tuple(
        msgspec.structs.replace(note, until=max(0.0, note.until - now), alone=False) for note in kept
    )


def unpacked(notes: Sequence[Unreached], now: float) -> tuple[Unreached, ...]:
    return tuple(msgspec.structs.replace(note, until=now + note.until) for note in notes)
