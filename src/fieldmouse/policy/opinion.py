"""Agreement of several agents that a host cannot be reached.

A machine with broken DNS, no route or a firewall finds healthy hosts unreachable. So another agent makes
the last try: a failure that may be the machine's fault counts once a second agent, on another machine if
there is one, has found the same, or if no agent is left to ask. Until then the host carries notes of the
agents that could not reach it (`Unreached`). An agent with a note is not asked again for `WHILE` seconds,
so a host makes at most one round of the agents in that time.

A host that is visited only for the known pages of one agent is never visited by another: that agent
decides alone after finding the same failure twice (`alone`).

A fault that is plainly the agent's (no network, no descriptors, no answer from DNS) also leaves a note, so
that another agent gets the host. Such a note is no evidence about the host and never `counts`. Older notes
stop counting as soon as an agent reaches the host.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from fieldmouse.records import Unreached

WHILE = 600.0
"""Seconds: longer than a router takes to start. A permanently broken agent tries a host this rarely."""


@dataclass(frozen=True, slots=True)
class Colleague:
    """An agent and its machine, which may be the faulty part."""

    agent: str
    machine: str = ""


def to_ask(
    notes: Sequence[Unreached], me: Colleague, others: Iterable[Colleague], now: float, *, final: bool
) -> list[Colleague]:
    """Agents that should try the host that `me` could not reach; empty: this failure counts.

    `others` are the agents that accept hosts. `final`: the failure would give the host up, and is not
    just a local fault.

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
    """Notes of a host with a new one, which replaces the same agent's earlier note."""
    counted = any(old.counts for old in notes if old.agent == note.agent)
    newer = msgspec.structs.replace(note, counts=note.counts or counted)
    return (*(old for old in notes if old.agent != note.agent), newer)


def with_polls(notes: Sequence[Unreached], me: str, *, only: bool) -> tuple[Unreached, ...]:
    """Notes before `me` visits the host; `only`: the visit is for known pages of `me` alone."""
    return tuple(
        msgspec.structs.replace(note, alone=only) if note.agent == me and note.alone != only else note
        for note in notes
    )


def reached(notes: Sequence[Unreached], now: float) -> tuple[Unreached, ...]:
    """Notes after an agent reached the host: they no longer count, but their agents still wait."""
    return tuple(msgspec.structs.replace(note, counts=False) for note in notes if note.until > now)


def shunned(notes: Sequence[Unreached], now: float) -> dict[str, float]:
    """Agents that must not try the host now, with the seconds that remain."""
    return {note.agent: note.until - now for note in notes if note.until > now}


def packed(notes: Sequence[Unreached], now: float) -> tuple[Unreached, ...]:
    """Notes for another machine, whose clock may differ: with remaining seconds, expired notes left out."""
    kept = [note for note in notes if note.counts or note.until > now]
    return tuple(
        msgspec.structs.replace(note, until=max(0.0, note.until - now), alone=False) for note in kept
    )


def unpacked(notes: Sequence[Unreached], now: float) -> tuple[Unreached, ...]:
    return tuple(msgspec.structs.replace(note, until=now + note.until) for note in notes)
